# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Make every node's names resolve to its cluster address, and verify it with the resolver."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.name_resolution import (
    HOSTS,
    HostsError,
    configure_hosts_file,
    restore_hosts_file,
)
from ansible.module_utils.fullmesh.state.errors import UndoError

DOCUMENTATION = r"""
---
module: cluster_hosts
short_description: Manage a block of /etc/hosts, and resolve every name in it
description:
  - Writes the block first in the file and removes its names from all other lines (such as C(127.0.1.1)).
  - Then calls getaddrinfo for each name, as Gloo does, and fails unless the cluster address comes first.
options:
  hosts:
    description: The lines, each with C(address) and C(names). Needed with V(present).
    type: list
    elements: dict
  address:
    description: This node's own cluster address, whose line also gets O(own_names). Needed with V(present).
    type: str
  state:
    description:
      - V(absent) restores the file from the role's undo point. If others have changed it since, only the block is
        removed, and the names that it replaced are restored.
    type: str
    choices: [present, absent]
    default: present
  own_names:
    description: The node's host name and fully qualified name.
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Shows the new file. Names are only resolved if the file is already right.
    support: full
  diff_mode:
    description: The whole file.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Write and resolve the names
  cluster_hosts:
    hosts: [{address: 10.0.0.11, names: [node1]}]
    address: 10.0.0.11
    own_names: [node1.example.org, node1]
"""

RETURN = r"""
names:
  description: Every name and the addresses that it resolves to, in order.
  type: dict
  returned: when the names were resolved
cloud_init:
  description: The file and value that make cloud-init rewrite /etc/hosts at boot, or empty.
  type: str
  returned: state is present
"""


def main() -> None:
    """Read the parameters, call and return the result."""
    module = AnsibleModule(
        argument_spec={
            "hosts": {"type": "list", "elements": "dict"},
            "address": {"type": "str"},
            "own_names": {"type": "list", "elements": "str", "default": []},
            "state": {"choices": ["present", "absent"], "default": "present"},
        },
        required_if=[("state", "present", ("hosts", "address"))],
        supports_check_mode=True,
    )
    try:
        if module.params["state"] == "absent":
            module.exit_json(**restore_hosts_file(module.check_mode))
        result = configure_hosts_file(module.params, module.check_mode)
    except (HostsError, UndoError, OSError) as exc:
        module.fail_json(msg=str(exc))
    if result["cloud_init"]:
        module.warn(
            "[NR-105] cloud-init will overwrite {} at the next boot ({}). Fix: set manage_etc_hosts: false, "
            "or put these lines into its template in /etc/cloud/templates.".format(
                HOSTS, result["cloud_init"]
            )
        )
    module.exit_json(**result)


if __name__ == "__main__":
    main()
