# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Hold packages at one version with dnf's versionlock plugin, and keep the locks of others."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypedDict

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.answer import diff_file
from ansible.module_utils.fullmesh.files import read_text_file, write_file_atomically
from ansible.module_utils.fullmesh.packages import versionlock

if TYPE_CHECKING:
    from typing import Any

DOCUMENTATION = r"""
---
module: version_lock
short_description: Hold packages in one version with dnf's versionlock plugin
description:
  - Writes the plugin's list itself, in one step. Other lines and comments stay unchanged. Another lock on the same
    packages with a different version becomes a comment until V(absent).
  - Needs no repository, so it also works without a network.
options:
  names:
    description: Names of the packages to hold.
    type: list
    elements: str
  version:
    description: Their VERSION-RELEASE, the same for all O(names). V(present) needs it or O(versions).
    type: str
  versions:
    description: Package and VERSION-RELEASE, instead of O(names) and O(version).
    type: dict
  what:
    description: A description for the comment above Fullmesh's lines, unique for each role that holds packages.
    type: str
    default: these packages
  state:
    description: V(present) locks exactly this version, V(absent) removes Fullmesh's locks.
    type: str
    choices: [present, absent]
    default: present
attributes:
  check_mode:
    description: Reports the lines that would be written, even if the plugin is not installed yet.
    support: full
  diff_mode:
    description: The list.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Lock the version of the packages
  version_lock:
    names: [libnccl, libnccl-devel]
    version: 2.28.9-1+cuda12.9

- name: Lock the version of each package
  version_lock:
    versions: {nvidia-driver: 580.95.05-1.el9, nvidia-persistenced: 580.95.05-1.el9}
    what: the NVIDIA driver's packages

- name: Remove the version locks
  version_lock:
    names: [libnccl, libnccl-devel]
    state: absent
  register: __nccl_lock
"""

RETURN = r"""
others:
  description: The entries of the list that are not Fullmesh's.
  type: list
  elements: str
  returned: always
path:
  description: The list's path.
  type: str
  returned: always
"""


class VersionLockError(Exception):
    """A sentence with a code for the user."""


class VersionLockPlan(TypedDict):
    """The list before and after the change. ``others``: locks that stay."""

    path: str
    before: str
    after: str
    others: list[str]


def plan_version_locks(params: dict[str, Any], check: bool, root: str = "") -> VersionLockPlan:
    """Return the list before and after. *check*: the plugin may not be installed yet."""
    path, why_not = versionlock.find_lock_list(root)
    versions = params["versions"] or dict.fromkeys(params["names"] or [], str(params["version"]))
    names, present = list(versions), params["state"] == "present"
    if (
        present
        and names
        and why_not
        and not (check and not os.path.exists(root + versionlock.CONF))
    ):
        raise VersionLockError(
            f"[NC-107] dnf holds no package on this node: {why_not}. Fix: enable its plugin versionlock, "
            "or disable the setting that needs it (nccl_manage, nvidia_driver_hold)."
        )
    before, what = read_text_file(path), params["what"]
    others = versionlock.parse_lock_entries(versionlock.remove_own_locks(before, names, what))
    after = (
        versionlock.add_own_locks(before, versions, what)
        if present
        else versionlock.remove_own_locks(before, names, what)
    )
    return {"path": path, "before": before, "after": after, "others": others}


def main() -> None:
    """Read the parameters, compare, write."""
    module = AnsibleModule(
        argument_spec={
            "names": {"type": "list", "elements": "str"},
            "version": {"type": "str"},
            "versions": {"type": "dict"},
            "what": {"type": "str", "default": versionlock.THESE},
            "state": {"choices": ["present", "absent"], "default": "present"},
        },
        required_if=[["state", "present", ["version", "versions"], True]],
        mutually_exclusive=[["names", "versions"]],
        supports_check_mode=True,
    )
    try:
        step = plan_version_locks(module.params, module.check_mode)
        changed = step["before"] != step["after"]
        if changed and not module.check_mode:
            write_file_atomically(
                step["path"], step["after"]
            )  # in one step: dnf may read it at any time
    except VersionLockError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        what = "dnf's list of locked packages cannot be read or written"
        module.fail_json(msg=f"[NC-107] {what}: {error}. Fix: solve this and run again.")
    shown = diff_file(step["path"], step["before"], step["after"])
    module.exit_json(changed=changed, path=step["path"], others=step["others"], diff=shown)


if __name__ == "__main__":
    main()
