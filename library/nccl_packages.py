# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Return the installed NCCL, and the version that the repository offers, without changing the system."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.packages.nccl import NcclRepositoryError, observe_nccl_packages

DOCUMENTATION = r"""
---
module: nccl_packages
short_description: Return the installed NCCL, and the version that the repository offers
description:
  - Reads the package database. Reads the repository only if the installed packages do not fit, with a private cache and
    source list. The system's own are neither needed nor changed, so check mode also works on a machine without this
    repository.
  - Returns the system's own sources of that repository, and settings that hide its packages.
options:
  names:
    description: Packages that must have the same version.
    type: list
    elements: str
    required: true
  manager:
    description: The package manager, which determines the database and the repository format.
    type: str
    choices: [apt, dnf]
    required: true
  url:
    description: Address of the repository.
    type: str
    required: true
  version:
    description: Package version, or NCCL's part of it. Empty keeps the installed one, or selects the newest.
    type: str
    default: ''
  cuda:
    description: Only builds for this CUDA version, such as C(12.9).
    type: str
    default: ''
  source:
    description: Fullmesh's own file among the system's sources.
    type: str
    default: ''
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
- name: Find the NCCL packages
  nccl_packages:
    names: [libnccl2, libnccl-dev]
    manager: apt
    url: https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64
    version: 2.28.9
    source: /etc/apt/sources.list.d/fullmesh-nccl.sources
  register: __nccl_seen
"""

RETURN = r"""
repository:
  description:
    - C(theirs) and C(section), another active file that names the repository, or empty. C(off), files in which it is
      disabled. C(in_the_way), sentences about pins and excludes that affect the packages.
  type: dict
  returned: always
installed:
  description: Package to version, of the installed packages.
  type: dict
  returned: always
held:
  description: Packages that the package manager holds at their version.
  type: list
  elements: str
  returned: always
satisfied:
  description: The requested packages are installed.
  type: bool
  returned: always
version:
  description: The package version that is or has to be installed.
  type: str
  returned: always
"""


def main() -> None:
    """Read the parameters, compare, and return the result."""
    module = AnsibleModule(
        argument_spec={
            "names": {"type": "list", "elements": "str", "required": True},
            "manager": {"choices": ["apt", "dnf"], "required": True},
            "url": {"type": "str", "required": True},
            "version": {"type": "str", "default": ""},
            "cuda": {"type": "str", "default": ""},
            "source": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C", "LANGUAGE": "C"}
    try:
        result = observe_nccl_packages(module.run_command, module.params)
    except NcclRepositoryError as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
