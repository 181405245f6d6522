# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Save the state that a role is about to change, and restore it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.commands import make_split_runner
from ansible.module_utils.fullmesh.state.removal import describe_kept_packages
from ansible.module_utils.fullmesh.state.undo import (
    NodeSystem,
    Restoration,
    UndoError,
    forget_undo_point,
    record_written_files,
    remember_state,
)

if TYPE_CHECKING:
    from ansible.module_utils.fullmesh.schema.family import KeptPackage
    from ansible.module_utils.fullmesh.state.observe import Names
    from ansible.module_utils.fullmesh.state.restore import KeptFile, RestoreResult, SetAsideResult
    from ansible.module_utils.fullmesh.state.undo import (
        ForgetResult,
        RememberResult,
        UndoPointResult,
    )

DOCUMENTATION = r"""
---
module: undo_point
short_description: Save the state that a role is about to change, and restore it
description:
  - Saves files (bytes, mode, owner, SELinux context, symlink target, or their absence), sysctl values, systemd unit
    states, and the installed packages. Items are saved only once, so the first state stays the original.
  - Kept in C(/var/lib/fullmesh/undo/<role>/), which only root can read.
options:
  role:
    description: The role that the undo point belongs to.
    type: str
    required: true
  state:
    description:
      - V(present) saves, V(restored) restores the differences, V(forgotten) removes the undo point.
      - V(written) comes at the end of a role, so that an undo knows the content that the role wrote. If a file differs
        from it later, others have changed it. V(restored) keeps that version next to the file (RV(kept)) and reports
        it. V(kept) does only that, for a role that restores its files itself.
    type: str
    choices: [present, written, kept, restored, forgotten]
    default: present
  paths:
    description:
      - Files or symlinks. Missing directories above them are saved as well.
    type: list
    elements: str
    default: []
  directories:
    description:
      - Directories that the role may create. V(restored) removes those that were absent, if they are empty.
    type: list
    elements: str
    default: []
  sysctls:
    description: Kernel settings, in dotted form.
    type: list
    elements: str
    default: []
  services:
    description: Full unit names.
    type: list
    elements: str
    default: []
  packages:
    description: Package names.
    type: list
    elements: str
    default: []
  interfaces:
    description:
      - Network interfaces whose lasting addresses and MTU are saved from the kernel. V(restored) returns them for the
        role to restore, and does not change the network itself.
    type: list
    elements: str
    default: []
  leave:
    description:
      - Only with V(restored). Files that the role has restored itself. They are left unchanged.
    type: list
    elements: str
    default: []
  restart:
    description:
      - Only with V(restored). Units that must read the files again. They are restarted if a file was restored and the
        unit was active at the time of the undo point.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Reports the items that would be saved or restored, and writes nothing.
    support: full
  diff_mode:
    description: The content of a file that not everyone may read is replaced by its checksum.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Record the state for undo
  undo_point:
    role: kernel_tuning
    paths: [/etc/sysctl.d/60-fullmesh.conf]
    sysctls: [net.ipv4.tcp_fin_timeout]

- name: Restore the previous state
  undo_point:
    role: kernel_tuning
    state: restored
  register: __kernel_tuning_undo
"""

RETURN = r"""
saved:
  description: The saved items, as C(kind:name).
  type: list
  elements: str
  returned: state is present
restored:
  description: The restored items, as C(kind:name).
  type: list
  elements: str
  returned: state is restored
kept:
  description: Each C(path) that others have changed since the role wrote it, and the path of the C(kept) version.
  type: list
  elements: dict
  returned: state is restored or kept
remove_packages:
  description:
    - Packages that were absent originally and are installed now, if they can go without packages of others. The package
      manager simulates that.
  type: list
  elements: str
  returned: state is restored
kept_packages:
  description: Each C(package) that stays, because the packages in C(needed_by) need it.
  type: list
  elements: dict
  returned: state is restored or forgotten
install_packages:
  description: Packages that were installed originally and are absent now.
  type: list
  elements: str
  returned: state is restored
missing_units:
  description: Units that existed originally and are missing now.
  type: list
  elements: str
  returned: state is restored
interfaces:
  description: The original C(addresses) and C(mtu) of each interface.
  type: dict
  returned: state is restored
swept:
  description: Dependencies that apt had installed, and that were purged because no package needed them.
  type: list
  elements: str
  returned: state is forgotten
exists:
  description: The role has an undo point.
  type: bool
  returned: always
"""


def main() -> None:
    """Read the parameters, call and return the result."""
    names: dict[str, object] = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "role": {"type": "str", "required": True},
            "state": {
                "choices": ["present", "written", "kept", "restored", "forgotten"],
                "default": "present",
            },
            "paths": names,
            "directories": names,
            "sysctls": names,
            "services": names,
            "packages": names,
            "interfaces": names,
            "leave": names,
            "restart": names,
        },
        supports_check_mode=True,
    )
    params = module.params
    node = NodeSystem("/", make_split_runner(module, {"DEBIAN_FRONTEND": "noninteractive"}))
    wanted: Names = {
        "files": params["paths"],
        "directories": params["directories"],
        "sysctls": params["sysctls"],
        "services": params["services"],
        "packages": params["packages"],
        "interfaces": params["interfaces"],
    }
    result: RememberResult | UndoPointResult | ForgetResult | RestoreResult | SetAsideResult
    kept: list[KeptFile] = []
    needed: list[KeptPackage] = []
    try:
        if params["state"] == "present":
            result = remember_state(node, params["role"], wanted, module.check_mode)
        elif params["state"] == "written":
            result = record_written_files(node, params["role"], module.check_mode)
        elif params["state"] == "forgotten":
            result = forget_undo_point(node, params["role"], module.check_mode)
            needed = result["kept_packages"]
        else:
            back = Restoration(
                node, params["role"], module.check_mode, params["restart"], params["leave"]
            )
            if params["state"] == "restored":
                result = restored = back.run()
                needed = restored["kept_packages"]
            else:
                result = back.only_keep()
            kept = back.kept
    except UndoError as exc:
        module.fail_json(msg=str(exc))
    for one in kept:
        module.warn(
            "[UN-105] {path} was changed since Fullmesh wrote it. The changed version is kept as {kept}. "
            "Fix: copy the parts that you need, and remove it.".format(**one)
        )
    for words in describe_kept_packages(params["role"], needed):
        module.warn(words)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
