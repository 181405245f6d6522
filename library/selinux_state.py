# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Set SELinux's mode, now and at the next boot, in one round trip."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.commands import make_merged_runner, make_split_runner
from ansible.module_utils.fullmesh.selinux import SelinuxNode, SelinuxRefusedError, SelinuxSwitch
from ansible.module_utils.fullmesh.state.errors import UndoError

DOCUMENTATION = r"""
---
module: selinux_state
short_description: Set SELinux's mode, now and at the next boot
description:
  - Needs no Python bindings. Without SELinux, nothing is done and the module reports that.
  - Switching to enforcing is reverted by a timer, unless it is confirmed on a new connection.
options:
  state:
    description:
      - V(present) sets the mode. V(confirmed) disarms the timer. V(restored) sets the runtime mode from before the
        first V(present). The undo point has the configuration. V(leaving) comes before an undo. If the undo will
        enforce, it arms the timer, and V(restored) must be followed by a confirmation.
    type: str
    choices: [present, confirmed, leaving, restored]
    default: present
  mode:
    description: V(keep) only reads.
    type: str
    choices: [enforcing, permissive, disabled, keep]
    default: enforcing
  staged:
    description:
      - The caller reboots the node and calls again. A node that was disabled at boot first boots permissive and gets
        labels, and is switched to enforcing afterwards with the timer. Otherwise the next boot enforces at once.
    type: bool
    default: false
  rollback_seconds:
    description: Without a confirmation within this time, the node returns to permissive. 0 arms nothing.
    type: int
    default: 60
  token:
    description:
      - The run's token. A confirmation or restore needs the token of the armed change, so that a late run cannot end
        another one's change. The caller chooses it, because the answer to the arming call may get lost.
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
  description: The present mode, V(enforcing), V(permissive), or empty if the kernel runs without SELinux.
  type: str
  returned: always
reboot_required:
  description: The requested mode takes effect at the next boot.
  type: bool
  returned: always
may_reboot:
  description: O(staged), so that a run knows the nodes that take a turn.
  type: bool
  returned: always
armed:
  description: The timer runs, so the change must be confirmed on a new connection.
  type: bool
  returned: always
files:
  description: Files that Fullmesh watches for drift.
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
    """Read the parameters, call and return the result."""
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
