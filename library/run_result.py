# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Keep the result of a verification on the controller."""

import json
import os

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
---
module: run_result
short_description: Write runs/<time>/result.json in one step
description:
  - Makes the directory, writes the file whole or not at all, and points C(latest) at it. Runs on the controller.
options:
  directory:
    description: Where runs are kept.
    type: path
    required: true
  run:
    description: Name of this run.
    type: str
    required: true
  result:
    description: The result.
    type: dict
    required: true
attributes:
  check_mode:
    description: Writes the file as well; a verification is a report about the nodes and changes none.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Keep the result
  run_result:
    directory: runs
    run: 20260102T030405
    result: "{{ __result }}"
  delegate_to: localhost
"""

RETURN = r"""
path:
  description: The file.
  type: str
  returned: always
"""


def point_at(directory: str, run: str) -> None:
    """Let ``latest`` name the newest run."""
    link = os.path.join(directory, "latest")
    fresh = link + ".new"
    if os.path.lexists(fresh):
        os.unlink(fresh)
    os.symlink(run, fresh)
    os.replace(fresh, link)


def write_result(directory: str, run: str, text: str) -> str:
    """Write the file and return its path."""
    folder = os.path.join(directory, run)
    if not os.path.isdir(folder):
        os.makedirs(folder)
    path = os.path.join(folder, "result.json")
    with open(path + ".new", "w") as stream:
        stream.write(text)
    os.replace(path + ".new", path)
    point_at(directory, run)
    return path


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "run": {"type": "str", "required": True},
            "result": {"type": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    want = module.params
    text = json.dumps(want["result"], indent=2, sort_keys=False) + "\n"
    try:
        path = write_result(want["directory"], want["run"], text)
    except OSError as exc:
        module.fail_json(msg=f"the result could not be written to {want['directory']}: {exc}")
    module.exit_json(changed=False, path=path)


if __name__ == "__main__":
    main()
