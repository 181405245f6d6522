# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""A FAKE of the module gpu_facts, only for this scenario: no lab node has a GPU. It returns the content of a file."""

from __future__ import annotations

import json

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.manifest import read_packages

DOCUMENTATION = r"""
---
module: gpu_facts
short_description: A fake of gpu_facts that returns the content of a file
description:
  - Reads C(/var/lib/fullmesh-test-gpu.json) instead of the hardware. The packages are the node's real ones.
options:
  packages:
    description: Packages whose installed version is returned.
    type: list
    elements: str
    default: []
author: [Fullmesh contributors]
"""
PLACE = "/var/lib/fullmesh-test-gpu.json"


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={"packages": {"type": "list", "elements": "str", "default": []}},
        supports_check_mode=True,
    )
    with open(PLACE) as stream:
        seen = json.load(stream)
    names = [
        name.replace("KERNEL", seen["kernel"]).replace("FLAVOUR", "generic")
        for name in module.params["packages"]
    ]
    module.exit_json(changed=False, gpu=seen, packages=read_packages(names)[0])


if __name__ == "__main__":
    main()
