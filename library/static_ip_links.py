# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Configure the cluster interfaces with their owners' files, as a transaction, and verify the result."""

from __future__ import annotations

import json

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.commands import make_split_runner
from ansible.module_utils.fullmesh.network import carried
from ansible.module_utils.fullmesh.network.links import StaticIpLinks
from ansible.module_utils.fullmesh.network.machine import LinkError, NetworkNode
from ansible.module_utils.fullmesh.state.errors import UndoError
from ansible.module_utils.fullmesh.transaction import engine

DOCUMENTATION = r"""
---
module: static_ip_links
short_description: Give interfaces static addresses in a transaction, and verify them
description:
  - Finds the program that configures each interface, renders its files, checks them, arms a timer that reverts
    everything, and lets the node apply the change independently of the connection, which it may cut.
  - A second call with C(state=proved), over a new connection, reads the kernel's state, contacts the peers, and returns
    more bytes than any MTU allows. If that answer arrives, a third call with C(state=confirmed) disarms the timer.
  - If an interface already has the wanted state, and its new files would not drop anything, it is adopted without a
    restart.
options:
  links:
    description: The links of the cluster plan (C(interface), C(addresses), C(mac), C(mtu) ...).
    type: list
    elements: dict
    default: []
  state:
    description:
      - V(present) arms and starts the change. V(proved) verifies it. V(confirmed) disarms. V(restored) waits until the
        node has reverted the change, or starts that now. V(absent) arms and starts the undo. V(verified) only reads.
    type: str
    choices: [present, proved, confirmed, restored, absent, verified]
    default: present
  provider:
    description: The program that should configure the interfaces. V(auto) detects it.
    type: str
    choices: [auto, networkmanager, netplan, networkd, ifupdown]
    default: auto
  check_duplicates:
    description: Probe the link for duplicates of each new IPv4 address first (RFC 5227).
    type: bool
    default: true
  wait_seconds:
    description: How long an address may take to appear and pass the duplicate check.
    type: int
    default: 30
  rollback_seconds:
    description: Without a confirmation within this time, the node reverts everything.
    type: int
    default: 60
  peers:
    description:
      - Cluster addresses of other nodes. With V(present) they are contacted before the change, see C(answered). With
        V(proved) they are those of nodes that are up, and one of them in addition to the master must be reachable.
    type: list
    elements: str
    default: []
  master:
    description: The master's address, only with V(proved). If it is one of O(peers), it must be reachable.
    type: str
    default: ""
  token:
    description:
      - The run's token. A confirmation or restore needs the token of the armed change, so that a late run cannot end
        another one's change. The caller chooses it, because the answer to the arming call may get lost.
    type: str
    default: ''
attributes:
  check_mode:
    description: Detects, renders, validates, and writes nothing.
    support: full
  diff_mode:
    description: The files, and the kernel's differences.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Arm the rollback and start the change
  static_ip_links:
    links: "{{ static_ip_links }}"
  register: __static_ip_applied

- name: Verify the change on the node
  static_ip_links:
    links: "{{ static_ip_links }}"
    state: proved

- name: Disarm the rollback
  static_ip_links:
    state: confirmed
"""

RETURN = r"""
providers:
  description: The program that configures each interface.
  type: dict
  returned: state is present
files:
  description: Fullmesh's files that are or would be on the node.
  type: list
  elements: str
  returned: state is present
paths:
  description: Every file that changes, including files of other programs.
  type: list
  elements: str
  returned: state is present or absent
interfaces:
  description: Every interface whose state changes.
  type: list
  elements: str
  returned: state is present
adopted:
  description: Interfaces that already had the wanted state, so only their files were written.
  type: list
  elements: str
  returned: state is present
lacking:
  description: Descriptions of the kernel's differences before the change.
  type: list
  elements: str
  returned: state is present or verified
remembered:
  description: The role has an undo point of an earlier change.
  type: bool
  returned: state is present
needed:
  description: A change is needed. Like V(changed), for a task that must not count as changed.
  type: bool
  returned: state is present, absent or verified
armed:
  description: The timer runs, so the change must be confirmed on a new connection.
  type: bool
  returned: state is present or absent
moves_to:
  description: The address for the new connection, or empty if it stays the same.
  type: str
  returned: state is present or absent
answered:
  description: The O(peers) that answered before the change.
  type: list
  elements: str
  returned: state is present
silent:
  description: The O(peers) that did not answer before the change and need not answer afterwards.
  type: list
  elements: str
  returned: state is present
fresh:
  description: False if the connection is older than the change and proves nothing. Call again over a new one.
  type: bool
  returned: state is proved
ballast:
  description: A text that is larger than a packet of any MTU.
  type: str
  returned: state is proved
lost:
  description: >-
    Commands for other owners' addresses, routes and rules on the links that the kernel rejects with the new
    addresses.
  type: list
  elements: str
  returned: state is proved
tried:
  description: A short description of the change.
  type: str
  returned: state is present or absent
report:
  description: The files that the node has restored, the reason, and after how many seconds.
  type: dict
  returned: state is restored
"""


def main() -> None:
    """Read the parameters, call and return the result."""
    module = AnsibleModule(
        argument_spec={
            "links": {"type": "list", "elements": "dict", "default": []},
            "state": {
                "choices": ["present", "proved", "confirmed", "restored", "absent", "verified"],
                "default": "present",
            },
            "provider": {
                "choices": ["auto", "networkmanager", "netplan", "networkd", "ifupdown"],
                "default": "auto",
            },
            "check_duplicates": {"type": "bool", "default": True},
            "wait_seconds": {"type": "int", "default": 30},
            "rollback_seconds": {"type": "int", "default": 60},
            "peers": {"type": "list", "elements": "str", "default": []},
            "master": {"type": "str", "default": ""},
            "token": {"type": "str", "default": "", "no_log": False},
        },
        supports_check_mode=True,
    )
    call = StaticIpLinks(NetworkNode(make_split_runner(module)), module.params, module.check_mode)
    try:
        result = getattr(call, module.params["state"])()
    except (LinkError, UndoError, engine.RollbackError, OSError, ValueError, KeyError) as exc:
        module.fail_json(msg=str(exc))
    if result.get("lost"):
        module.warn(carried.describe_lost_state(result["lost"]))
    module.exit_json(**json.loads(json.dumps(result)))


if __name__ == "__main__":
    main()
