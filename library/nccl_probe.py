# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Load the NCCL library that jobs would use, and query its version and listening address."""

from __future__ import annotations

from typing import TypedDict

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.facts.nccl import (
    NcclEndpoint,
    NcclError,
    NcclLibrary,
    find_nccl_endpoint,
    find_nccl_library,
)

DOCUMENTATION = r"""
---
module: nccl_probe
short_description: Load an NCCL library and query it
description:
  - Needs no GPU and no driver. The library runs in a child process with a deadline.
options:
  path:
    description: The library. Empty uses the one that the dynamic linker finds.
    type: path
    default: ''
  version:
    description: The expected version, such as C(2.28.9). Empty accepts any.
    type: str
    default: ''
  endpoint:
    description: Also create a unique id and return the address and port that NCCL listens on.
    type: bool
    default: false
  env:
    description: Variables for the library, like NCCL_SOCKET_IFNAME.
    type: dict
    default: {}
  seconds:
    description: Deadline.
    type: int
    default: 20
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
- name: Verify the version of the library
  nccl_probe:
    version: 2.28.9
    endpoint: true
    env: {NCCL_SOCKET_IFNAME: "=eth1"}
  register: __nccl_probe
"""

RETURN = r"""
version:
  description: The library's version.
  type: str
  returned: success
path:
  description: The file that was loaded.
  type: str
  returned: success
endpoint:
  description: C(family), C(address) and C(port).
  type: dict
  returned: when asked for
"""

WORDS = {
    "missing": "[NC-105] NCCL cannot be loaded: {}. Check: the packages, `ldconfig -p | grep nccl`.",
    "deadline": "[NC-105] NCCL gave {}. Check: the node's load, `dmesg`.",
    "crashed": "[NC-105] NCCL crashed: {}. Fix: install the packages again.",
    "refused": "[NC-105] NCCL refused: {}. Fix: set NCCL_SOCKET_IFNAME to an interface that is up.",
}


class NcclProbeParams(TypedDict):
    """The parameters. DOCUMENTATION explains them."""

    path: str
    version: str
    endpoint: bool
    env: dict[str, str]
    seconds: int


class NcclProbeResult(NcclLibrary, total=False):
    """The library, and the address that it would listen on."""

    endpoint: NcclEndpoint


def probe_nccl(params: NcclProbeParams) -> tuple[NcclProbeResult, str]:
    """Query the library. Return the result and an error text, or ""."""
    library = find_nccl_library(params["path"], params["seconds"])
    found: NcclProbeResult = {"version": library["version"], "path": library["path"]}
    wanted = params["version"]
    if wanted and library["version"] != wanted:
        return found, (
            "[NC-104] {} is NCCL {}, but {} is pinned. Another library comes first. "
            "Check: ldconfig -p | grep nccl".format(library["path"], library["version"], wanted)
        )
    if params["endpoint"]:
        found["endpoint"] = find_nccl_endpoint(params["path"], params["env"], params["seconds"])
    return found, ""


def main() -> None:
    """Read the parameters, query the library, and return the result."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "default": ""},
            "version": {"type": "str", "default": ""},
            "endpoint": {"type": "bool", "default": False},
            "env": {"type": "dict", "default": {}},
            "seconds": {"type": "int", "default": 20},
        },
        supports_check_mode=True,
    )
    try:
        found, why = probe_nccl(module.params)
    except NcclError as error:
        module.fail_json(msg=WORDS[error.reason].format(error))
    if why:
        module.fail_json(msg=why, changed=False, **found)
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
