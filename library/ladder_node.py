# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""First call of the verification on a node: look at it, ask NCCL, open the listeners."""

from typing import TYPE_CHECKING

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh_detach import BASE, make_run_directory
from ansible.module_utils.fullmesh_listeners import start_listeners
from ansible.module_utils.fullmesh_observe import observe, observe_nccl
from ansible.module_utils.fullmesh_sockets import family_of

DOCUMENTATION = r"""
---
module: ladder_node
short_description: Look at a node as a distributed job sees it, and open the listeners for a link test
description:
  - Reads addresses, names, limits, kernel settings and versions; lets the system's NCCL choose its address.
  - Leaves a detached process behind that listens for ladder_links and ends by itself after O(lifetime) seconds.
    It serves only those who know O(token).
options:
  run:
    description: Name of this verification; letters, digits, - and _.
    type: str
    required: true
  token:
    description: The secret of this verification.
    type: str
    required: true
  node:
    description: Name of this node in the plan.
    type: str
    required: true
  address:
    description: This node's cluster address.
    type: str
    required: true
  interface:
    description: Interface of the plan, used when the address is not there.
    type: str
    default: ""
  hosts:
    description: The plan's list of addresses with their names.
    type: list
    elements: dict
    default: []
  python:
    description: Interpreter of the jobs.
    type: str
    required: true
  samples:
    description: How many listeners get their port from the kernel.
    type: int
    default: 3
  named:
    description: Fixed ports to listen on, each with C(kind) and C(port).
    type: list
    elements: dict
    default: []
  outside:
    description: Open one more listener on a port that peers must not reach.
    type: bool
    default: false
  allowed:
    description: Ranges (first and last port) that the extra listener must keep out of.
    type: list
    elements: list
    default: []
  listen:
    description: Open the listeners.
    type: bool
    default: true
  nccl:
    description: Ask the system's NCCL.
    type: bool
    default: true
  lifetime:
    description: Seconds after which the listeners end by themselves.
    type: int
    default: 120
attributes:
  check_mode:
    description: Does the same; nothing lasting is left on the node.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Look at the node and open the listeners
  ladder_node:
    run: 20260102T030405
    token: "{{ __token }}"
    node: node1
    address: 192.0.2.11
    python: /opt/fullmesh/venv/bin/python
  register: __node
"""

RETURN = r"""
facts:
  description: Addresses, interface, names, limits, sysctls, versions, clock.
  type: dict
  returned: always
nccl:
  description: What the system's NCCL answered; C(reason) is empty or one of missing, deadline, crashed, refused.
  type: dict
  returned: always
ports:
  description: The listeners, each with C(kind) (sample, master, rendezvous, outside), C(port), C(error), C(holder).
  type: list
  elements: dict
  returned: always
tapped:
  description: Handshakes are watched on the wire.
  type: bool
  returned: always
"""

if TYPE_CHECKING:
    from typing import Any


def open_ports(want: "dict[str, Any]") -> "dict[str, Any]":
    """Open the listeners, or say that none were wanted."""
    if not want["listen"]:
        return {"ports": [], "tapped": False}
    make_run_directory(want["run"])
    opened: "dict[str, Any]" = start_listeners(
        {
            "run": want["run"],
            "base": BASE,
            "token": want["token"],
            "node": want["node"],
            "address": want["address"],
            "interface": want["device"],
            "samples": want["samples"],
            "named": want["named"],
            "outside": want["outside"],
            "allowed": want["allowed"],
            "lifetime": want["lifetime"],
            "peers": [str(host["address"]) for host in want["hosts"]],
        }
    )
    return opened


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "run": {"type": "str", "required": True},
            "token": {"type": "str", "required": True, "no_log": True},
            "node": {"type": "str", "required": True},
            "address": {"type": "str", "required": True},
            "interface": {"type": "str", "default": ""},
            "hosts": {"type": "list", "elements": "dict", "default": []},
            "python": {"type": "str", "required": True},
            "samples": {"type": "int", "default": 3},
            "named": {"type": "list", "elements": "dict", "default": []},
            "outside": {"type": "bool", "default": False},
            "allowed": {"type": "list", "elements": "list", "default": []},
            "listen": {"type": "bool", "default": True},
            "nccl": {"type": "bool", "default": True},
            "lifetime": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    want = module.params
    try:
        facts = observe(want)
        want["device"] = facts["addresses"].get(want["address"], "")
        opened = open_ports(want)
    except (OSError, ValueError) as exc:
        module.fail_json(msg=f"[VC-213] the listeners could not be started: {exc}.")
    asked = want["nccl"] and want["device"]
    nccl = observe_nccl(want["device"], family_of(want["address"])) if asked else {}
    module.exit_json(changed=False, facts=facts, nccl=nccl, **opened)


if __name__ == "__main__":
    main()
