# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""SELinux' mode, now and at the next boot, in one round trip."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.commands import make_merged_runner, make_split_runner
from ansible.module_utils.fullmesh.selinux import SelinuxNode, SelinuxRefusedError, SelinuxSwitch
from ansible.module_utils.fullmesh.state.errors import UndoError

DOCUMENTATION = r"""
---
module: selinux_state
short_description: SELinux' mode, now and at the next boot
description:
  - Needs no Python bindings. Where the system has no SELinux nothing is done, and that is said.
  - Switching to enforcing is armed to switch back, unless somebody confirms on a new connection.
options:
  state:
    description:
      - V(present) sets the mode. V(confirmed) disarms the timer. V(restored) sets the runtime mode that was there
        before the first V(present); the configuration is the undo point's. V(leaving) stands before an undo; where that
        will enforce, it arms the timer, and somebody has to confirm after V(restored).
    type: str
    choices: [present, confirmed, leaving, restored]
    default: present
  mode:
    description: V(keep) only looks.
    type: str
    choices: [enforcing, permissive, disabled, keep]
    default: enforcing
  staged:
    description:
      - Somebody reboots the node and calls again. Then a node that was disabled at boot comes back permissive and
        labelled first, and is switched to enforcing only after that, armed. Otherwise the next boot enforces at once.
    type: bool
    default: false
  rollback_seconds:
    description: When nobody confirms within this time, the node goes back to permissive. 0 arms nothing.
    type: int
    default: 60
  token:
    description:
      - Of this run. Who confirms or restores has to show the one that the change was armed with, so that a late run
        ends no other one's change. The caller's choice, because the answer to the call that arms may get lost.
    type: str
    default: ''
attributes:
  check_mode:
    description: Nothing is written.
    support: full
  diff_mode:
    description: The configuration, and the runtime mode.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Keep SELinux on
  selinux_state:
    mode: enforcing
  register: __selinux_mode_result
"""

RETURN = r"""
installed:
  description: The system has SELinux.
  type: bool
  returned: always
runtime:
  description: The mode now, V(enforcing), V(permissive), or empty where the kernel runs without.
  type: str
  returned: always
reboot_required:
  description: The mode that was asked for comes with the next boot.
  type: bool
  returned: always
may_reboot:
  description: O(staged), so that the other nodes of a run know who takes a turn.
  type: bool
  returned: always
armed:
  description: The timer runs, somebody has to confirm on a new connection.
  type: bool
  returned: always
files:
  description: Files that are ours to watch.
  type: list
  elements: str
  returned: always
notes:
  description: Warnings, each with C(code) and C(text).
  type: list
  elements: dict
  returned: always
"""


def main() -> None:
    """Read the parameters, call, answer."""
    module = AnsibleModule(
        argument_spec={
            "state": {
                "choices": ["present", "confirmed", "leaving", "restored"],
                "default": "present",
            },
            "mode": {
                "choices": ["enforcing", "permissive", "disabled", "keep"],
                "default": "enforcing",
            },
            "staged": {"type": "bool", "default": False},
            "rollback_seconds": {"type": "int", "default": 60},
            "token": {"type": "str", "default": "", "no_log": False},
        },
        supports_check_mode=True,
    )

    switch = SelinuxSwitch(
        SelinuxNode("", make_merged_runner(make_split_runner(module))),
        module.params,
        module.check_mode,
    )
    try:
        result = getattr(switch, module.params["state"])()
    except (SelinuxRefusedError, UndoError) as exc:
        module.fail_json(msg=str(exc))
    for entry in result["notes"]:
        if entry["code"] in ("SE-203", "SE-206"):
            module.warn("[{code}] {text}".format(**entry))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
