# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Remember what a role is about to change on this node, and put it back on demand."""

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
short_description: Remember the state that a role is about to change, and put it back
description:
  - Saves files (bytes, mode, owner, SELinux context, symlink target, or that they are absent),
    sysctl values, systemd unit states and which packages are installed. Only what is not remembered
    yet is saved, so the first state ever seen stays the original.
  - Kept in C(/var/lib/fullmesh/undo/<role>/), which only root can read.
options:
  role:
    description: Whose point this is.
    type: str
    required: true
  state:
    description:
      - V(present) remembers, V(restored) puts back only what differs, V(forgotten) drops the point.
      - V(written) is told at the end of a role, so that an undo knows what the role wrote. A file that is another one
        by then was changed by somebody else. V(restored) keeps that version beside the file (RV(kept)) and names it;
        V(kept) does only that, for a role that puts its files back by itself.
    type: str
    choices: [present, written, kept, restored, forgotten]
    default: present
  paths:
    description:
      - Files or symlinks. Directories above them that do not exist yet are remembered as well.
    type: list
    elements: str
    default: []
  directories:
    description:
      - Directories that the role may make. V(restored) removes those that were absent, when empty.
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
      - Network interfaces whose lasting addresses and MTU are remembered as the kernel shows them.
        V(restored) returns them for the role to put back; it does not touch the network itself.
    type: list
    elements: str
    default: []
  leave:
    description:
      - Only with V(restored). Files that the role has given back by itself; they are left as they are.
    type: list
    elements: str
    default: []
  restart:
    description:
      - Only with V(restored). Units that must read the files again; restarted when a file was put
        back and the unit was active when the point was made.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Reports what would be saved or put back and writes nothing.
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
  description: What was added to the point, as C(kind:name).
  type: list
  elements: str
  returned: state is present
restored:
  description: What was put back, as C(kind:name).
  type: list
  elements: str
  returned: state is restored
kept:
  description: Each C(path) that somebody has changed since the role wrote it, and where that version is C(kept).
  type: list
  elements: dict
  returned: state is restored or kept
remove_packages:
  description:
    - Packages that were absent then and are installed now, as far as they can go without a package of others. The
      package manager simulates that.
  type: list
  elements: str
  returned: state is restored
kept_packages:
  description: Each C(package) that stays, because the packages in C(needed_by) need it.
  type: list
  elements: dict
  returned: state is restored or forgotten
install_packages:
  description: Packages that were installed then and are absent now.
  type: list
  elements: str
  returned: state is restored
missing_units:
  description: Units that were there then and do not exist now.
  type: list
  elements: str
  returned: state is restored
interfaces:
  description: Per interface the C(addresses) and the C(mtu) that it had then.
  type: dict
  returned: state is restored
swept:
  description: Packages that apt had brought along and that were purged, as nobody needed them any more.
  type: list
  elements: str
  returned: state is forgotten
exists:
  description: There is a point of this role.
  type: bool
  returned: always
"""


def main() -> None:
    """Read the parameters, call, answer."""
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
            "[UN-105] {path} was changed since Fullmesh wrote it: what stood there is kept as {kept}. Take over what "
            "you need of it, and remove it.".format(**one)
        )
    for words in describe_kept_packages(params["role"], needed):
        module.warn(words)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
