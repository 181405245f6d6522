# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Give the cluster interfaces their addresses through whoever owns them, as a transaction, and read them back."""

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
short_description: Give interfaces static addresses in a transaction, and read them back
description:
  - Finds out who owns each interface, renders its files, checks them, arms a timer that puts everything back, and
    lets the node apply the change detached from our connection, which may go with it.
  - A second call with C(state=proved), over a new connection, reads the kernel back, asks the peers, and answers with
    more than any MTU holds. When that has arrived, a third one with C(state=confirmed) disarms the timer.
  - An interface that is already as wanted, and has nothing that its new files drop, is adopted; nothing brings it up
    anew.
options:
  links:
    description: The links of the cluster plan (C(interface), C(addresses), C(mac), C(mtu) ...).
    type: list
    elements: dict
    default: []
  state:
    description:
      - V(present) arms and starts the change. V(proved) proves it. V(confirmed) disarms. V(restored) waits until the
        node has put itself back, or lets it do so now. V(absent) arms and starts the undo. V(verified) only reads.
    type: str
    choices: [present, proved, confirmed, restored, absent, verified]
    default: present
  provider:
    description: Who shall own the interfaces; V(auto) asks the node.
    type: str
    choices: [auto, networkmanager, netplan, networkd, ifupdown]
    default: auto
  check_duplicates:
    description: Ask the link for a duplicate of each new IPv4 address first (RFC 5227).
    type: bool
    default: true
  wait_seconds:
    description: How long an address may take to be there and checked for duplicates.
    type: int
    default: 30
  rollback_seconds:
    description: When nobody confirms within this time, the node puts everything back.
    type: int
    default: 60
  peers:
    description:
      - Cluster addresses of other nodes. With V(present) they are asked before the change, see C(answered). With
        V(proved) they are those of nodes that are up, and one of them besides the master has to be reached.
    type: list
    elements: str
    default: []
  master:
    description: The master's address, only with V(proved). When it is one of O(peers), it has to be reached.
    type: str
    default: ""
  token:
    description:
      - Of this run. Who confirms or restores has to show the one that the change was armed with, so that a late run
        ends no other one's change. The caller's choice, because the answer to the call that arms may get lost.
    type: str
    default: ''
attributes:
  check_mode:
    description: Detects, renders, validates, and writes nothing.
    support: full
  diff_mode:
    description: The files, and what the kernel lacks.
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
  description: Who owns each interface.
  type: dict
  returned: state is present
files:
  description: The files of ours that stand, or would stand, on the node.
  type: list
  elements: str
  returned: state is present
paths:
  description: Every file that changes, ours and those of others.
  type: list
  elements: str
  returned: state is present or absent
interfaces:
  description: Every interface whose state changes.
  type: list
  elements: str
  returned: state is present
adopted:
  description: Interfaces that were as wanted before; only the files were written.
  type: list
  elements: str
  returned: state is present
lacking:
  description: What the kernel lacked before, in words.
  type: list
  elements: str
  returned: state is present or verified
remembered:
  description: There is an undo point of the role, of an earlier change.
  type: bool
  returned: state is present
needed:
  description: Something has to change; V(changed), for a task that must not count as one.
  type: bool
  returned: state is present, absent or verified
armed:
  description: The timer runs; somebody has to come back on a new connection and confirm.
  type: bool
  returned: state is present or absent
moves_to:
  description: The address at which our connection has to come back; empty where it stays.
  type: str
  returned: state is present or absent
answered:
  description: Those of O(peers) that answered before the change.
  type: list
  elements: str
  returned: state is present
silent:
  description: Those of O(peers) that did not answer before the change, of whom no answer is asked afterwards.
  type: list
  elements: str
  returned: state is present
fresh:
  description: False when the connection is older than the change and proves nothing; ask again over a new one.
  type: bool
  returned: state is proved
ballast:
  description: A text that no single packet of any MTU holds.
  type: str
  returned: state is proved
lost:
  description: >-
    Commands for what others had on the links (addresses, routes, rules), that the kernel does not take any more with
    the new addresses.
  type: list
  elements: str
  returned: state is proved
tried:
  description: The change in a few words.
  type: str
  returned: state is present or absent
report:
  description: What the node has put back, why, and after how many seconds.
  type: dict
  returned: state is restored
"""


def main() -> None:
    """Read the parameters, call, answer."""
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
