#!/usr/bin/python
# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Return the programs that configure a node's interfaces, and its routes to other networks."""

from __future__ import annotations

DOCUMENTATION = r"""
module: network_ways
short_description: Return the programs that configure interfaces, the default routes, name servers and neighbors
description:
  - Queries the kernel, NetworkManager, netplan, systemd-networkd and ifupdown, in one call. Changes nothing.
  - Sends two echo requests to the neighbors on each NIC without a default route, and lists those that answer.
attributes:
  check_mode: {support: full, description: Only reads.}
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Find the owner of the network configuration
  network_ways:
"""

RETURN = r"""
owners:
  description: Interface to the program that configures it, or empty.
  type: dict
  returned: always
defaults:
  description: The default routes, each with family, next hop, interface and whether it came with a lease.
  type: list
  elements: dict
  returned: always
leased:
  description: Interfaces with an address from a lease or a router.
  type: list
  elements: str
  returned: always
dns:
  description: The node's name servers.
  type: list
  elements: str
  returned: always
search:
  description: Search domains.
  type: list
  elements: str
  returned: always
session:
  description: Client, port, server and port of the ssh connection that carries this call.
  type: list
  elements: str
  returned: always
ports:
  description: Each NIC with its RDMA chip and physical port, and whether a bond, bridge or VLAN uses it.
  type: list
  elements: dict
  returned: always
neighbors:
  description: The hardware addresses that answered on NICs without a default route.
  type: list
  elements: dict
  returned: always
"""

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.commands import make_split_runner
from ansible.module_utils.fullmesh.network import ways
from ansible.module_utils.fullmesh.network.machine import NetworkNode


def main() -> None:
    """Survey the network and return the result."""
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    module.exit_json(changed=False, **ways.observe_network(NetworkNode(make_split_runner(module))))


if __name__ == "__main__":
    main()
