# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Return a node's NVIDIA GPUs, their driver, and the requirements of a driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.facts.gpu import observe_gpus
from ansible.module_utils.fullmesh.manifest import read_packages

if TYPE_CHECKING:
    pass

DOCUMENTATION = r"""
---
module: gpu_facts
short_description: Return a node's NVIDIA GPUs, their driver, and the requirements of a driver
description:
  - Reads the PCI bus, /proc, /sys, the kernel's log and C(nvidia-smi). Works without a GPU or a driver.
options:
  packages:
    description: >-
      Packages whose installed version is returned. C(KERNEL) in a name becomes the running kernel's release, C(FLAVOUR)
      its last word (C(generic)).
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Only reads.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Collect facts about the GPUs
  gpu_facts:
    packages: [nvidia-driver-580-server]
  register: __gpus
"""

RETURN = r"""
gpu:
  description: >-
    C(pci) (C(gpus) on the bus with the driver of each, number of C(switches)), C(smi) (C(driver), C(cuda), C(cards),
    C(processes), C(topology), C(nvlinks), C(failed)), C(loaded) (version of the loaded module), C(nouveau),
    C(secure_boot) (null without EFI), C(xids), C(tools) (C(compiler), C(headers) of the running C(kernel)) and
    C(container).
  type: dict
  returned: success
packages:
  description: Version of each package, empty if it is not installed.
  type: dict
  returned: success
"""


def expand_package_name(name: str, release: str) -> str:
    """Return a package's name for the running kernel."""
    return name.replace("KERNEL", release).replace("FLAVOUR", release.rsplit("-", 1)[-1])


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={"packages": {"type": "list", "elements": "str", "default": []}},
        supports_check_mode=True,
    )
    seen = observe_gpus()
    names = [expand_package_name(name, seen["kernel"]) for name in module.params["packages"]]
    module.exit_json(changed=False, gpu=seen, packages=read_packages(names)[0])


if __name__ == "__main__":
    main()
