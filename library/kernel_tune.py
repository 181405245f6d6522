# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Set kernel values and limits, verify each, and keep them after a reboot, in one round trip."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.facts.sysctl import SysctlNode
from ansible.module_utils.fullmesh.kernel import KernelTuner

DOCUMENTATION = r"""
---
module: kernel_tune
short_description: Set kernel values and limits, and verify them
description:
  - Works out each value from the request and the present value (a floor never lowers, reserved ports are merged),
    writes it to the running kernel, reads it back, and writes one drop-in for sysctl, one for pam_limits and one
    for systemd. If a value is rejected, all changes are reverted and the module fails with all faults at once.
options:
  settings:
    description:
      - The kernel values. C(rule) is V(exact), V(floor) (number by number, a larger value stays) or V(ports)
        (a set of ports, merged with the node's own).
    type: list
    elements: dict
    required: true
    suboptions:
      key: {description: Dotted name., type: str, required: true}
      value: {description: The requested value., type: str, required: true}
      rule: {description: How to combine it., type: str, choices: [exact, floor, ports], default: exact}
      reason: {description: Comment lines for the drop-in., type: str, default: ''}
      must: {description: An error even in a container., type: bool, default: false}
      if_present: {description: A kernel without this key is fine., type: bool, default: false}
  path:
    description: The sysctl drop-in.
    type: path
    required: true
  limits_path:
    description: The pam_limits drop-in.
    type: path
    required: true
  manager_path:
    description: The systemd manager drop-in.
    type: path
    required: true
  limits:
    description: Limits of every session, C(SessionLimits) in schema/sysctl.py.
    type: dict
    required: true
  data_ports:
    description: The pinned range, C(first last). Other programs must not reserve ports in this range.
    type: str
    required: true
  header:
    description: First lines of every file.
    type: str
    default: '# Written by Fullmesh (role kernel_tuning); changes here are overwritten.'
attributes:
  check_mode:
    description: Opens each key to check that it is writable. Cannot predict whether the kernel accepts a value.
    support: full
  diff_mode:
    description: The files, and the running values that change.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Set and verify the kernel values
  kernel_tune:
    path: /etc/sysctl.d/60-fullmesh.conf
    limits_path: /etc/security/limits.d/60-fullmesh.conf
    manager_path: /etc/systemd/system.conf.d/60-fullmesh.conf
    settings: [{key: net.ipv4.tcp_fin_timeout, value: "30", rule: exact, reason: "TIME_WAIT eats the range"}]
    limits: {nofile: 65536, memlock: unlimited}
    data_ports: "50000 54095"
"""

RETURN = r"""
keys:
  description:
    - Per key C(status), C(before), C(target), C(seen), C(detail). Status is V(set), V(already), V(kept) (the node's own
      larger value, or others' ports, stay), V(cannot), V(refused), V(clamped) or V(overridden).
  type: dict
  returned: always
notes:
  description: Warnings, each with C(code) and C(text).
  type: list
  elements: dict
  returned: success
sysctls:
  description: The active values, for the manifest.
  type: dict
  returned: success
files:
  description: Files that Fullmesh owns now.
  type: list
  elements: str
  returned: success
"""


def main() -> None:
    """Read the parameters, call and return the result."""
    setting = {
        "key": {"type": "str", "required": True, "no_log": False},
        "value": {"type": "str", "required": True},
        "rule": {"choices": ["exact", "floor", "ports"], "default": "exact"},
        "reason": {"type": "str", "default": ""},
        "must": {"type": "bool", "default": False},
        "if_present": {"type": "bool", "default": False},
    }
    spec = {
        "settings": {"type": "list", "elements": "dict", "required": True, "options": setting},
        "path": {"type": "path", "required": True},
        "limits_path": {"type": "path", "required": True},
        "manager_path": {"type": "path", "required": True},
        "limits": {"type": "dict", "required": True},
        "data_ports": {"type": "str", "required": True},
        "header": {
            "type": "str",
            "default": "# Written by Fullmesh (role kernel_tuning); changes here are overwritten.",
        },
    }
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)

    def reload() -> None:
        module.run_command(["systemctl", "daemon-reload"], check_rc=True)

    result = KernelTuner(module.params, module.check_mode, SysctlNode(), reload).run()
    if result.get("failed"):
        module.fail_json(**{name: value for name, value in result.items() if name != "failed"})
    module.exit_json(**result)


if __name__ == "__main__":
    main()
