# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Fetch packages with their dependencies, and make a repository of them. Runs on a machine that has a network."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.bundle.packages import (
    PackageFetchError,
    describe_installed_warning,
    fetch_package_bundle,
)

DOCUMENTATION = r"""
---
module: bundle_packages
short_description: Fetch packages with their dependencies, and make a repository of them
description:
  - Uses the package manager's own sources, and an additional one, without changing them. Installed packages that are
    not named are not fetched, so this machine should have as few packages as the target machines.
  - The module writes the index itself, so that no machine needs C(createrepo) or C(apt-ftparchive).
  - All files are in a new folder that other users cannot write to.
options:
  names:
    description: Packages, as C(name=version) for apt, C(name-version) for dnf.
    type: list
    elements: str
    required: true
  manager:
    description: The package manager.
    type: str
    choices: [apt, dnf]
    required: true
  url:
    description: An additional repository, flat for apt. Empty for none.
    type: str
    default: ''
  key:
    description: Address of the key that signs it. Empty if it is not signed.
    type: str
    default: ''
  fingerprints:
    description: Accepted fingerprints of the key. V(any) if the user names the key. Empty refuses every key.
    type: list
    elements: str
    default: []
  base:
    description: Parent of the new folder. Other users may write there only if they cannot rename entries (sticky).
    type: path
    default: /var/tmp
attributes:
  check_mode:
    description: Fetches nothing and makes no folder.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Download the packages and their dependencies
  bundle_packages:
    names: [chrony]
    manager: apt
  register: __packages
"""

RETURN = r"""
already:
  description: The named packages that are installed here, whose dependencies may be missing in the folder.
  type: list
  elements: str
  returned: always
files:
  description: Package files in the archive.
  type: list
  elements: str
  returned: always
folder:
  description: The new folder, which the caller has to remove. Empty in check mode.
  type: str
  returned: always
tar:
  description: The packages and their index as one archive in it. Empty in check mode.
  type: str
  returned: always
"""


def main() -> None:
    """Read the parameters, fetch, and return the result."""
    module = AnsibleModule(
        argument_spec={
            "names": {"type": "list", "elements": "str", "required": True},
            "manager": {"choices": ["apt", "dnf"], "required": True},
            "url": {"type": "str", "default": ""},
            "key": {"type": "str", "default": "", "no_log": False},
            "fingerprints": {"type": "list", "elements": "str", "default": []},
            "base": {"type": "path", "default": "/var/tmp"},  # noqa: S108 (sticky, see private_folder)
        },
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    if module.check_mode:
        module.exit_json(changed=True, files=[], already=[], folder="", tar="")
    try:
        result = fetch_package_bundle(module.run_command, module.params)
    except PackageFetchError as error:
        module.fail_json(msg=str(error))
    except (OSError, ValueError) as error:
        what = "the packages cannot be gathered in {}".format(module.params["base"])
        module.fail_json(msg=f"[BN-105] {what}: {error}. Fix: make room there and run it again.")
    if result["already"]:
        module.warn(describe_installed_warning(result["already"]))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
