# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Download hash-pinned wheels for another Python once, and bundle them. Runs on the controller."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.wheelhouse import DownloadError, preview_wheels, provide_wheels

DOCUMENTATION = r"""
---
module: wheelhouse
short_description: Download hash-pinned wheels for another Python once, and bundle them
description:
  - Runs on the controller (C(delegate_to) localhost). Downloads only wheels that the cache lacks.
  - Only one run at a time uses a cache. A second one waits.
  - The bundle is an uncompressed tar of the wheels that the nodes do not have.
options:
  requirements:
    description: The lock file, every line with a version and a hash.
    type: path
    required: true
  key:
    description: Names this set of wheels.
    type: str
    required: true
  python:
    description: The nodes' Python, such as C(3.11).
    type: str
    required: true
  platforms:
    description: pip's platform names, newest first.
    type: list
    elements: str
    required: true
  cache:
    description: Directory on the controller.
    type: path
    required: true
  index:
    description: A package index to try if pip's own configuration does not have everything. Empty for none.
    type: str
    default: ''
  wheels:
    description: A directory of wheels that replaces all indexes. Empty for none.
    type: str
    default: ''
  have:
    description: SHA-256 of wheels that need not go into the bundle.
    type: list
    elements: str
    default: []
  seconds:
    description: Deadline of the download.
    type: int
    default: 1800
attributes:
  check_mode:
    description: Downloads nothing and reports the result.
    support: full
  diff_mode:
    description: There is nothing to compare.
    support: none
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Download the wheels once per cluster
  wheelhouse:
    requirements: torch-2.13.0-cpu.txt
    key: py311
    python: "3.11"
    platforms: [manylinux_2_28_x86_64]
    cache: .cache/wheels
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
key:
  description: The name of the set.
  type: str
  returned: always
bundle:
  description: The tar, or empty if the nodes have everything.
  type: str
  returned: always
bundle_bytes:
  description: Its size.
  type: int
  returned: always
manifest:
  description: Size of the bundle, size of a piece, SHA-256 of every piece, for the module that shares them.
  type: dict
  returned: always
installed_bytes:
  description: Size of the unpacked wheels.
  type: int
  returned: always
wheels:
  description: File name to SHA-256.
  type: dict
  returned: always
"""


def main() -> None:
    """Read the parameters, provide, and return the result."""
    texts: dict[str, object] = {"type": "list", "elements": "str"}
    module = AnsibleModule(
        argument_spec={
            "requirements": {"type": "path", "required": True},
            "key": {"type": "str", "required": True, "no_log": False},
            "python": {"type": "str", "required": True},
            "platforms": dict(texts, required=True),
            "cache": {"type": "path", "required": True},
            "index": {"type": "str", "default": ""},
            "wheels": {"type": "str", "default": ""},
            "have": dict(texts, default=[]),
            "seconds": {"type": "int", "default": 1800},
        },
        supports_check_mode=True,
    )
    try:
        result = (
            preview_wheels(module.params) if module.check_mode else provide_wheels(module.params)
        )
    except DownloadError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=f"[TR-106] The cache on the controller cannot be used: {error}.")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
