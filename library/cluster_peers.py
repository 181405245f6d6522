# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Update the list of peers on a configured node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.commands import make_merged_runner, make_split_runner
from ansible.module_utils.fullmesh.firewall.call import FirewallRefusedError
from ansible.module_utils.fullmesh.name_resolution import HostsError
from ansible.module_utils.fullmesh.peer_list import PeerListError, update_peer_list
from ansible.module_utils.fullmesh.state.errors import UndoError

if TYPE_CHECKING:
    from ansible.module_utils.fullmesh.schema.peer_list import ClusterPeersParams

DOCUMENTATION = r"""
---
module: cluster_peers
short_description: Add or remove peers in one call
description:
  - Writes the list of peers into the firewall's sets, the hosts file, the environment of jobs and the launchers' lists
    of a configured node, if its roles have written them. The rest of the node does not change.
  - The firewall is armed as by C(peer_zone), whose V(confirmed) disarms it on a new connection.
  - The manifest is updated for these changes only.
options:
  shared:
    description: Data of all nodes, C(hosts), C(files) and C(members) (schema/peer_list.py).
    type: dict
    required: true
  own:
    description: Data of this node, C(address), C(own_names), C(lines) and C(firewall).
    type: dict
    required: true
  also:
    description: Files that a role wrote in this run for the same reason. They are updated in the manifest as well.
    type: list
    elements: path
    default: []
  token:
    description: The token that is needed to confirm the change of the firewall.
    type: str
    default: ""
attributes:
  check_mode:
    description: Shows the files that would be written.
    support: full
  diff_mode:
    description: Every file that differs.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Update the node's list of peers
  cluster_peers:
    shared: "{{ __peers['shared'] }}"
    own: "{{ __peers['own'][inventory_hostname] }}"
    token: "{{ __peers_token }}"
"""

RETURN = r"""
armed:
  description: The firewall's timer runs, so the change must be confirmed on a new connection.
  type: bool
  returned: always
joined:
  description: Nodes that this one did not know before.
  type: list
  elements: str
  returned: always
paths:
  description: Files that were or would be written, without the firewall's.
  type: list
  elements: str
  returned: always
notes:
  description: Warnings of the firewall, each with C(code) and C(text).
  type: list
  elements: dict
  returned: always
"""


def main() -> None:
    """Read the parameters, call and return the result."""
    module = AnsibleModule(
        argument_spec={
            "shared": {"type": "dict", "required": True},
            "own": {"type": "dict", "required": True},
            "also": {"type": "list", "elements": "path", "default": []},
            "token": {"type": "str", "default": "", "no_log": False},
        },
        supports_check_mode=True,
    )
    want: ClusterPeersParams = module.params
    try:
        result = update_peer_list(module, want, make_merged_runner(make_split_runner(module)))
    except (FirewallRefusedError, HostsError, PeerListError, UndoError, OSError, ValueError) as exc:
        module.fail_json(msg=str(exc))
    for note in result["notes"]:
        module.warn("[{code}] {text}".format(**note))
    # Ansible would send the arguments back: the whole list, once more for each node.
    module.exit_json(invocation={}, **result)


if __name__ == "__main__":
    main()
