# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Write several small files and their directories in one round trip."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.file_set import (
    KeyRefusedError,
    apply_file_changes,
    diff_file_change,
    list_missing_directories,
    plan_file_changes,
)

DOCUMENTATION = r"""
---
module: write_files
short_description: Write several small files and their directories in one round trip
description:
  - Every file is replaced in one step (written to a temporary file, then renamed), so that no partial file is read.
  - Missing directories above a file are created with mode 0755.
  - Check mode also works on a new machine, where C(template) fails because the directory is missing.
options:
  files:
    description: The files, each with C(path), C(content) and C(mode) (octal text, default C(0644)).
    type: list
    elements: dict
    required: true
    suboptions:
      path:
        description: Absolute path.
        type: path
        required: true
      content:
        description: The whole text.
        type: str
      url:
        description:
          - Instead of C(content). The address of the key that signs a repository, also with C(file://).
          - An existing key with one of the fingerprints is kept.
        type: str
      fingerprints:
        description:
          - Required with C(url). Accepted fingerprints of the key. V(any) if the user names the key.
          - An empty list refuses every key, and the message shows the fingerprint seen.
        type: list
        elements: str
      mode:
        description: Octal text.
        type: str
        default: '0644'
  directories:
    description: Directories that should exist even if they are empty.
    type: list
    elements: path
    default: []
  absent:
    description: Files that should not exist.
    type: list
    elements: path
    default: []
  code:
    description: An error code that begins the message of a failure.
    type: str
    default: ''
  key_code:
    description: Used instead of O(code) for a key with an unexpected fingerprint.
    type: str
    default: ''
  key_setting:
    description: The setting with the fingerprints, for the message of O(key_code).
    type: str
    default: ''
attributes:
  check_mode:
    description: Reports the files that would be written, and writes nothing.
    support: full
  diff_mode:
    description: One entry for each file that differs.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Write the environment
  write_files:
    files:
      - path: /etc/fullmesh/example.asc
        url: https://mirror.example/example.asc
        fingerprints: [EB693B3035CD5710E231E123A4B469963BF863CC]
      - path: /etc/fullmesh/env
        content: "{{ lookup('ansible.builtin.template', 'env.j2') }}"
    absent: [/etc/profile.d/fullmesh.sh]
  register: __cluster_env_files
"""

RETURN = r"""
paths:
  description: Paths that were or would be written, created or removed.
  type: list
  elements: str
  returned: always
"""


def describe_refused_key(error: KeyRefusedError, params: Mapping[str, Any]) -> str:
    """Return the message for a rejected key."""
    return (
        "[{key_code}] {}. Fix: compare the fingerprint seen with the one that the vendor publishes. If they are "
        "equal, set {key_setting} to it, as a list.".format(error, **params)
    )


def main() -> None:
    """Read the parameters, compare, write the differences."""
    file_spec: dict[str, object] = {
        "path": {"type": "path", "required": True},
        "content": {"type": "str"},
        "url": {"type": "str"},
        "fingerprints": {"type": "list", "elements": "str"},
        "mode": {"type": "str", "default": "0644"},
    }
    one_of: dict[str, object] = {
        "required_one_of": [["content", "url"]],
        "mutually_exclusive": [["content", "url"]],
        "required_together": [["url", "fingerprints"]],
    }
    module = AnsibleModule(
        argument_spec={
            "files": dict(one_of, type="list", elements="dict", options=file_spec, required=True),
            "directories": {"type": "list", "elements": "path", "default": []},
            "absent": {"type": "list", "elements": "path", "default": []},
            "code": {"type": "str", "default": ""},
            "key_code": {"type": "str", "default": "", "no_log": False},
            "key_setting": {"type": "str", "default": "", "no_log": False},
        },
        supports_check_mode=True,
    )
    files, absent = module.params["files"], module.params["absent"]
    try:
        steps = plan_file_changes(files, absent)
    except KeyRefusedError as error:
        module.fail_json(msg=describe_refused_key(error, module.params))
    except (OSError, ValueError) as error:
        code = module.params["code"]
        module.fail_json(msg=f"[{code}] {error}." if code else str(error))
    folders = list_missing_directories(
        module.params["directories"] + [os.path.dirname(item["path"]) for item in files]
    )
    if not module.check_mode:
        apply_file_changes(module, folders, steps)
    changed = folders + [step["path"] for step in steps]
    module.exit_json(
        changed=bool(changed), paths=changed, diff=[diff_file_change(s) for s in steps]
    )


if __name__ == "__main__":
    main()
