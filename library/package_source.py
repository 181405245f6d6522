# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Remove Fullmesh's package source if another file names the same repository."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypedDict

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.answer import diff_file
from ansible.module_utils.fullmesh.files import read_text_or_empty
from ansible.module_utils.fullmesh.packages import sources

if TYPE_CHECKING:
    from ansible.module_utils.fullmesh.answer import Diff

DOCUMENTATION = r"""
---
module: package_source
short_description: Remove Fullmesh's package source if another file names the same repository
description:
  - apt reads no source at all if two of them name one repository with different keys. If another file names a
    repository that Fullmesh added, Fullmesh's file is removed. apt and dnf are not called, since they would refuse.
options:
  path:
    description: Fullmesh's file, for apt or dnf.
    type: path
    required: true
attributes:
  check_mode:
    description: Reports whether it would be removed.
    support: full
  diff_mode:
    description: The file.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Remove a duplicate package source
  package_source:
    path: /etc/apt/sources.list.d/fullmesh-nccl.sources
"""

RETURN = r"""
duplicates:
  description: Other files that name the same repository.
  type: list
  elements: str
  returned: always
"""


class SourceRemovalPlan(TypedDict):
    """Whether the file is removed, and the other files."""

    changed: bool
    duplicates: list[str]
    diff: Diff


def plan_source_removal(path: str, root: str = "/") -> SourceRemovalPlan:
    """Return whether the file is removed, because of which files, and its content."""
    duplicates = sorted({one["path"] for one in sources.find_duplicate_sources(path, root)})
    text = read_text_or_empty(path) if duplicates else ""
    return {
        "changed": bool(duplicates),
        "duplicates": duplicates,
        "diff": diff_file(path, text, ""),
    }


def main() -> None:
    """Read the parameter, compare, remove the file."""
    module = AnsibleModule(
        argument_spec={"path": {"type": "path", "required": True}}, supports_check_mode=True
    )
    path = module.params["path"]
    result = plan_source_removal(path)
    if result["changed"] and not module.check_mode:
        os.unlink(path)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
