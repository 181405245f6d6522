# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Hold packages in one version with dnf's versionlock plugin, beside other people's locks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypedDict

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.answer import diff
from ansible.module_utils.fullmesh.files import put, read
from ansible.module_utils.fullmesh.packages import versionlock

if TYPE_CHECKING:
    from typing import Any

DOCUMENTATION = r"""
---
module: version_lock
short_description: Hold packages in one version with dnf's versionlock plugin
description:
  - Writes the plugin's list itself, in one step. Other people's lines and comments stay as they are; a lock of theirs
    on the same packages in another version becomes a comment until V(absent).
  - Needs no repository, so it also works where none answers.
options:
  names:
    description: Packages.
    type: list
    elements: str
    required: true
  version:
    description: Their VERSION-RELEASE. Needed for V(present).
    type: str
    default: ''
  state:
    description: V(present) locks exactly this version, V(absent) removes our locks.
    type: str
    choices: [present, absent]
    default: present
attributes:
  check_mode:
    description: Says what would be written, also before the plugin is installed.
    support: full
  diff_mode:
    description: The list.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Lock the packages
  version_lock:
    names: [libnccl, libnccl-devel]
    version: 2.28.9-1+cuda12.9

- name: Remove our locks
  version_lock:
    names: [libnccl, libnccl-devel]
    state: absent
  register: __nccl_lock
"""

RETURN = r"""
others:
  description: The entries of the list that are not ours.
  type: list
  elements: str
  returned: always
path:
  description: Where the list lies.
  type: str
  returned: always
"""


class LockError(Exception):
    """A coded sentence for the user."""


class Step(TypedDict):
    """The list as it is and becomes; ``others``: whose locks stay."""

    path: str
    before: str
    after: str
    others: list[str]


def plan(params: dict[str, Any], check: bool, root: str = "") -> Step:
    """The list before and after; *check*: the plugin may not be installed yet."""
    path, why_not = versionlock.plugin(root)
    names, present = params["names"], params["state"] == "present"
    if present and why_not and not (check and not os.path.exists(root + versionlock.CONF)):
        raise LockError(
            f"[NC-107] dnf holds no package on this node: {why_not}. "
            "Switch its plugin versionlock on, or set nccl_manage to false."
        )
    before = read(path)
    others = versionlock.entries(versionlock.without(before, names))
    if present:
        after = versionlock.with_locks(before, dict.fromkeys(names, str(params["version"])))
    else:
        after = versionlock.without(before, names)
    return {"path": path, "before": before, "after": after, "others": others}


def show(text: str) -> str:
    """Text that any terminal takes."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def main() -> None:
    """Read the parameters, compare, write."""
    module = AnsibleModule(
        argument_spec={
            "names": {"type": "list", "elements": "str", "required": True},
            "version": {"type": "str", "default": ""},
            "state": {"choices": ["present", "absent"], "default": "present"},
        },
        required_if=[["state", "present", ["version"]]],
        supports_check_mode=True,
    )
    try:
        step = plan(module.params, module.check_mode)
        changed = step["before"] != step["after"]
        if changed and not module.check_mode:
            put(step["path"], step["after"])  # in one step: dnf may read it at any time
    except LockError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        what = "dnf's list of locked packages cannot be read or written"
        module.fail_json(msg=f"[NC-107] {what}: {error}. Fix that and run again.")
    shown = diff(step["path"], show(step["before"]), show(step["after"]))
    module.exit_json(changed=changed, path=step["path"], others=step["others"], diff=shown)


if __name__ == "__main__":
    main()
