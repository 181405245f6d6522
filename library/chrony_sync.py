# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Configure chrony with the cluster's time source, and verify that it is synchronized."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.commands import make_split_runner
from ansible.module_utils.fullmesh.time_sync import ChronySync, ChronySyncError

DOCUMENTATION = r"""
---
module: chrony_sync
short_description: Configure chrony, start it, and wait until the clock follows a source
description:
  - Writes C(lines) as a drop-in if chrony's configuration reads one, else as a marked block.
  - Stops other time services, enables and starts chrony, restarts it after a change.
  - Fails unless chronyc shows within the deadline that the clock is synchronized.
options:
  config:
    description: chrony's main configuration file.
    type: str
    required: true
  drop_ins:
    description: Possible paths of a drop-in, used if C(config) reads the directory.
    type: list
    elements: str
    default: []
  lines:
    description: The configuration. Empty keeps the distribution's and removes an earlier one of Fullmesh.
    type: list
    elements: str
    default: []
  only:
    description: Use no other time source than C(lines). Those in C(config) become comments.
    type: bool
    default: false
  unit:
    description: chrony's unit.
    type: str
    required: true
  unit_drop_in:
    description: The file for C(-x), which is needed if this node cannot set the clock (no CAP_SYS_TIME).
    type: str
    required: true
  displaced:
    description: Units of other time services.
    type: list
    elements: str
    default: []
  expected:
    description: Addresses of which one must answer.
    type: list
    elements: str
    default: []
  wait_seconds:
    description: How long the first measurements may take.
    type: int
    default: 60
attributes:
  check_mode:
    description: Reports files and units that would change, and an installation of chrony if it is missing.
    support: full
  diff_mode:
    description: The files.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Configure chrony and wait for synchronization
  chrony_sync:
    config: /etc/chrony.conf
    unit: chronyd.service
    unit_drop_in: /etc/systemd/system/chronyd.service.d/50-fullmesh.conf
    lines: [server 10.0.0.11 iburst prefer]
    expected: [10.0.0.11]
"""

RETURN = r"""
files:
  description: The files with Fullmesh's content.
  type: list
  elements: str
  returned: always
tracking:
  description: The clock's state from chronyc (C(reference), C(stratum), C(offset) in seconds, C(leap)).
  type: dict
  returned: when chrony runs
sources:
  description: The sources with C(address), C(state) and C(reach).
  type: list
  returned: when chrony runs
clock_is_set:
  description: chronyd sets this node's clock. False in a container, whose host has to.
  type: bool
  returned: when chrony runs
"""


def main() -> None:
    """Read the parameters, call and return the result."""
    names: dict[str, object] = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "config": {"type": "str", "required": True},
            "drop_ins": names,
            "lines": names,
            "only": {"type": "bool", "default": False},
            "unit": {"type": "str", "required": True},
            "unit_drop_in": {"type": "str", "required": True},
            "displaced": names,
            "expected": names,
            "wait_seconds": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    try:
        result = ChronySync(make_split_runner(module), module.params, module.check_mode).converge()
    except (ChronySyncError, OSError, ValueError) as exc:
        module.fail_json(msg=str(exc))
    if result.get("clock_is_set") is False:
        module.warn(
            "[TS-105] chronyd runs with -x, so it never sets the clock: this node lacks CAP_SYS_TIME, as containers "
            "do. Fix: synchronize the clock of the host that it runs on."
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
