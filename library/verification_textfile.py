# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Find the folder that a node's node_exporter reads text files from, and write a verification's figures to it."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, TypedDict

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh import node_exporter
from ansible.module_utils.fullmesh.commands import make_split_runner
from ansible.module_utils.fullmesh.files import write_file_atomically
from ansible.module_utils.fullmesh.state.observe import observe_packages
from ansible.module_utils.fullmesh.state.undo import (
    NodeSystem,
    UndoError,
    record_written_files,
    remember_state,
)

if TYPE_CHECKING:
    from ansible.module_utils.fullmesh.node_exporter import RunningExporter, TextfileTarget
    from ansible.module_utils.fullmesh.state.observe import Names

DOCUMENTATION = r"""
---
module: verification_textfile
short_description: Find the folder that node_exporter reads text files from, and write one there
description:
  - The command line of a running node_exporter has the folder, if systemd runs it as a service. A node_exporter that is
    not from the distribution's package is the user's own, and is not changed.
  - If an account other than root owns the folder, the file is written as that account. If root owns it and others can
    change it, the module fails.
  - C(fullmesh.prom) is written under a name that does not end in C(.prom), then renamed, so that no partial file is
    read. The role's undo removes it.
options:
  state:
    description:
      - V(looked) only reads, and fails if no node_exporter would read the file.
      - V(written) writes it. A failure is only a warning, so that it cannot hide a verification.
    type: str
    choices: [looked, written]
    default: looked
  folder:
    description: The folder from the user's setting. Empty to find it.
    type: str
    default: ''
  usual:
    description: The folder of the distribution's package, for one that does not run yet.
    type: path
    required: true
  package:
    description: The distribution's package.
    type: str
    required: true
  unit:
    description: Its unit, for messages if it does not run.
    type: str
    required: true
  wait:
    description: Seconds within which the distribution's node_exporter must listen. V(0) does not check.
    type: int
    default: 0
  content:
    description: The whole text, with V(written).
    type: str
    default: ''
attributes:
  check_mode:
    description: Reports the folder or file, and writes nothing.
    support: full
  diff_mode:
    description: The text changes with every verification.
    support: none
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Find a running node_exporter
  verification_textfile:
    usual: /var/lib/prometheus/node-exporter
    package: prometheus-node-exporter
    unit: prometheus-node-exporter.service
  register: __exporter
"""

RETURN = r"""
own:
  description: The user installed a node_exporter, or set its folder.
  type: bool
  returned: success
program:
  description: The running program, or empty.
  type: str
  returned: success
path:
  description: The path of the file, or empty if no program would read it.
  type: str
  returned: success
"""

ROLE = "monitoring_tools"
FILE = "fullmesh.prom"
PAUSE = 0.5


class TextfileResult(TypedDict):
    """The result of the module."""

    changed: bool
    own: bool
    program: str
    path: str


def find_textfile_folder(
    module: AnsibleModule, node: NodeSystem
) -> tuple[TextfileTarget, list[RunningExporter]]:
    """Return the folder, and the running exporters of the distribution."""
    params = module.params
    seen = node_exporter.find_exporters(node_exporter.list_main_processes(node.run))
    packaged = observe_packages(node, [params["package"]])[params["package"]] == "installed"

    def reads(program: str) -> str:
        _, out, err = node.run([program, "--help"])
        return node_exporter.parse_default_folder(out + err)

    found = node_exporter.choose_textfile_folder(
        seen, packaged, params["folder"], params["usual"], reads
    )
    return found, node_exporter.find_packaged_exporters(seen, packaged)


def wait_for_exporter(module: AnsibleModule, node: NodeSystem) -> TextfileTarget:
    """Wait until the distribution's exporter listens or time is over."""
    deadline = time.monotonic() + module.params["wait"]
    while True:
        found, ours = find_textfile_folder(module, node)
        if found["own"] or any(node_exporter.is_listening(one["pid"]) for one in ours):
            return found
        if time.monotonic() >= deadline:
            unit = module.params["unit"]
            module.fail_json(
                msg=f"[MT-107] {unit} was started, but no node_exporter listens. Check: `journalctl -u {unit}`. "
                "Another program may use its port (9100): `ss -ltnp`."
            )
        time.sleep(PAUSE)


def write_textfile(module: AnsibleModule, node: NodeSystem, path: str) -> bool:
    """Write the text in the undo record as well. Warn if that fails."""
    names: Names = {
        "files": [path],
        "directories": [],
        "sysctls": [],
        "services": [],
        "packages": [],
        "interfaces": [],
    }
    try:
        remember_state(node, ROLE, names, check=False)
        write_file_atomically(path, module.params["content"], 0o644, (os.getuid(), os.getgid()))
        record_written_files(node, ROLE, check=False)
    except (OSError, UndoError) as error:
        module.warn(
            f"[MT-108] The figures of this verification could not be written to {path}: {error}. The file still has "
            "those of an earlier one."
        )
        return False
    return True


def main() -> None:
    """Find the folder, and write the file if requested."""
    module = AnsibleModule(
        argument_spec={
            "state": {"choices": ["looked", "written"], "default": "looked"},
            "folder": {"type": "str", "default": ""},
            "usual": {"type": "path", "required": True},
            "package": {"type": "str", "required": True},
            "unit": {"type": "str", "required": True},
            "wait": {"type": "int", "default": 0},
            "content": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    node = NodeSystem("/", make_split_runner(module))
    writes = module.params["state"] == "written"
    waits = module.params["wait"] > 0 and not module.check_mode
    found = wait_for_exporter(module, node) if waits else find_textfile_folder(module, node)[0]
    # before the distribution's comes, its folder is not there yet
    written = found["own"] or found["program"] or writes
    fault = found["fault"] or (
        node_exporter.check_textfile_folder(found["folder"]) if written else ""
    )
    if fault and not writes:
        module.fail_json(msg=fault)
    if fault:
        module.warn(fault)
    path = "" if fault else os.path.join(found["folder"], FILE)
    changed = bool(writes and path and (module.check_mode or write_textfile(module, node, path)))
    answer: TextfileResult = {
        "changed": changed,
        "own": found["own"],
        "program": found["program"],
        "path": path,
    }
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
