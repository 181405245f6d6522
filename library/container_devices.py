# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Create NVIDIA's description of the node's GPUs for containers."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.cdi import CdiError, ensure_cdi_spec
from ansible.module_utils.fullmesh.commands import make_split_runner

DOCUMENTATION = r"""
---
module: container_devices
short_description: Let NVIDIA's container toolkit describe the node's GPUs for containers
description:
  - A specification (CDI) in C(/etc/cdi) or C(/run/cdi) for the loaded driver is left unchanged, even if others made
    it.
  - Otherwise the toolkit's own unit makes one. A toolkit older than 1.18 has no unit, so its program's output goes to
    C(/etc/cdi/nvidia.yaml).
attributes:
  check_mode:
    description: Reports whether one would be made.
    support: full
  diff_mode:
    description: Of the file that this module writes. The unit's file is not compared.
    support: partial
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Write the description of the GPUs
  container_devices:
  register: __container_toolkit_devices
"""

RETURN = r"""
devices:
  description: >-
    C(path) of the specification (empty if there is none), C(driver) (the loaded version) and the toolkit's C(units).
  type: dict
  returned: success
"""


def main() -> None:
    """Check the specification, create it if needed, answer."""
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    try:
        module.exit_json(**ensure_cdi_spec(make_split_runner(module), module.check_mode))
    except CdiError as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
