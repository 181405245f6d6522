# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Return the installed NVIDIA container toolkit, and the version that its repository offers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.commands import make_split_runner
from ansible.module_utils.fullmesh.packages.toolkit import ToolkitError, observe_toolkit

if TYPE_CHECKING:
    from ansible.module_utils.fullmesh.packages.nccl import NcclPackagesParams

DOCUMENTATION = r"""
---
module: toolkit_packages
short_description: Return the installed NVIDIA container toolkit, and the version that its repository offers
description:
  - Reads the package database. Reads the repository only if the installed packages do not fit, with a private cache and
    source list, so that check mode also works on a machine without this repository.
  - Returns the system's own sources of that repository.
options:
  names:
    description: The packages, which must all have the same version.
    type: list
    elements: str
    required: true
  manager:
    description: The package manager.
    type: str
    choices: [apt, dnf]
    required: true
  url:
    description: Address of the repository.
    type: str
    required: true
  version:
    description: Package version, with or without its release. Empty keeps the installed one, or selects the newest.
    type: str
    default: ''
  source:
    description: Fullmesh's own file among the system's sources.
    type: str
    required: true
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
- name: Find the toolkit packages
  toolkit_packages:
    names: [nvidia-container-toolkit, nvidia-container-toolkit-base, libnvidia-container-tools, libnvidia-container1]
    manager: apt
    url: https://nvidia.github.io/libnvidia-container/stable/deb/amd64
    source: /etc/apt/sources.list.d/fullmesh-container-toolkit.sources
  register: __container_toolkit_seen
"""

RETURN = r"""
toolkit:
  description: >-
    C(installed) (package to version), C(satisfied), the wanted C(version), C(ours) (Fullmesh's source exists), and
    C(repository) as in nccl_packages.
  type: dict
  returned: success
"""


def main() -> None:
    """Read the parameters, compare, and return the result."""
    module = AnsibleModule(
        argument_spec={
            "names": {"type": "list", "elements": "str", "required": True},
            "manager": {"choices": ["apt", "dnf"], "required": True},
            "url": {"type": "str", "required": True},
            "version": {"type": "str", "default": ""},
            "source": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    asked = module.params
    wanted: NcclPackagesParams = {
        "names": asked["names"],
        "manager": asked["manager"],
        "url": asked["url"],
        "version": asked["version"],
        "cuda": "",
        "source": asked["source"],
    }
    try:
        module.exit_json(changed=False, toolkit=observe_toolkit(make_split_runner(module), wanted))
    except ToolkitError as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
