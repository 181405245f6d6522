# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Run the second call of the verification on a node: connect to every listener of every peer."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.probe.second_call import connect_to_peers
from ansible.module_utils.fullmesh.schema.ladder_arguments import LADDER_LINKS

DOCUMENTATION = r"""
---
module: ladder_links
short_description: Connect to the listeners of all peers at once and classify every connection
description:
  - The verdict comes from the kernel's state of the socket at the deadline, not from a client-side timeout.
  - Runs on the nodes, and on the controller to prove that a port is closed to outsiders.
options:
  token:
    description: The secret of this verification. Empty for an outsider.
    type: str
    default: ""
  node:
    description: Name of this node in the plan.
    type: str
    required: true
  address:
    description: This node's cluster address. Empty if the source address does not matter.
    type: str
    default: ""
  targets:
    description: Listeners to reach, each with C(node), C(address), C(port), C(kind).
    type: list
    elements: dict
    default: []
  sweep:
    description:
      - Instead of O(targets). Listeners of many peers in the order of a schedule, each with C(block) as well.
      - In the answer, C(links) lists unexpected results only. C(swept) counts the others.
    type: list
    elements: dict
    default: []
  rdma:
    description:
      - Pairs of an RDMA device of this node and one of a peer, which exchange messages. Each has C(node), C(address)
        and C(tcp_port) of a listener of the peer, C(device), C(port) and C(gid) of both ends (prefix C(peer_)), and
        C(spare), whether it is only tried if no other pair of the device works.
    type: list
    elements: dict
    default: []
  rdma_seconds:
    description: Seconds after the start of the call at which O(rdma) ends. Later pairs are reported as not tried.
    type: float
    default: 20.0
  rails:
    description:
      - Listeners of peers on the plan's rails. Each has C(rail), C(own) (the address to connect from) and the keys of
        O(targets).
    type: list
    elements: dict
    default: []
  at_once:
    description: Maximum of simultaneous connections in progress for O(sweep).
    type: int
    default: 16
  budget:
    description: Seconds after which no further connections of O(sweep) are started.
    type: float
    default: 60.0
  master:
    description: With O(sweep), the node whose clock is the reference.
    type: str
    default: ""
  payload:
    description: Bytes to send there and back.
    type: int
    default: 65536
  seconds:
    description: Deadline of one try. Targets without an answer are tried twice.
    type: float
    default: 3.0
  as_job:
    description: Repeat some of the successful connections as the account that runs jobs. Needs root.
    type: bool
    default: false
  job_user:
    description: That account. Empty to find it from job units and running ranks.
    type: str
    default: ""
  bandwidth:
    description: Bytes for one rate measurement per peer. 0 for none.
    type: int
    default: 0
  run:
    description: Name of the verification whose lease ends this call as well.
    type: str
    default: ""
  attached:
    description: Set by ask_nodes if the controller is at the other end of standard input for the whole time.
    type: bool
    default: false
attributes:
  check_mode:
    description: Works as usual, since nothing is changed.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Test the links to the peers
  ladder_links:
    token: "{{ __token }}"
    node: node1
    address: 192.0.2.11
    targets:
      - {node: node2, address: 192.0.2.12, port: 50012, kind: sample}
  register: __links
"""

RETURN = r"""
links:
  description: >-
    One record per target: C(verdict) (open, refused, rejected, dropped, no_route, reset, wrong_source, someone_else,
    mtu_black_hole), C(remark), C(errno), C(ms), C(rtt_ms), C(source), C(neighbour), C(attempts), C(offset) of the
    peer's clock in seconds and C(offset_error), C(reached) (the last stage), C(lost) and C(segments).
  type: list
  elements: dict
  returned: always
neighbours:
  description: The peers' entries in the neighbour table after the probe, and how many entries there are.
  type: dict
  returned: always
swept:
  description: >-
    The totals of O(sweep), C(asked), C(tried), C(peers) of these, C(rtt_us) by block, C(ms), C(more) (positions of
    unexpected results beyond C(links), by verdict) and C(clock) against the master's.
  type: dict
  returned: when O(sweep) was given
ways:
  description: >-
    Unusual routing decisions for packets to and from the peers. Each has C(peer), C(direction), C(ports), C(error),
    C(dev), C(via), C(source), C(mark), C(uid), C(rule).
  type: list
  elements: dict
  returned: always
rdma:
  description: >-
    C(pairs), one record per pair of O(rdma), each with C(own) and C(peer), the outcome at both ends (C(step), C(error),
    C(count)), C(mtu) and C(peer_mtu). C(counters), the error counters that grew meanwhile.
  type: dict
  returned: when O(rdma) was given
rails:
  description: >-
    C(links), one record per listener of O(rails), with C(verdict), C(remark), C(errno), the interface C(dev) and the
    hardware address C(mac) that the kernel uses, C(error) (no route) and C(refused) (it drops the peer's packets).
    C(duplicates), other machines with an address of this node. C(queues), traffic shaping. C(heard), the neighbors on
    interfaces with a failed link.
  type: dict
  returned: when O(rails) was given
bandwidth:
  description: One record per peer that was measured, with C(mbit_s).
  type: list
  elements: dict
  returned: always
as_job:
  description: >-
    The results of the job account. It has C(account), C(uid), C(tried) listeners, C(links) that are not open for it,
    C(error), and C(login), the limits of its logins.
  type: dict
  returned: when O(as_job) was given and the account is known
networks:
  description: >-
    The networks of containers in which ranks run. Each has C(pid), C(command), C(addresses), C(tried) listeners,
    C(links) that are not open from there, and C(seen_as), the address that peers see.
  type: list
  elements: dict
  returned: when O(as_job) was given and there are any
seconds:
  description: Time taken.
  type: float
  returned: always
"""


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=LADDER_LINKS, supports_check_mode=True)
    said = connect_to_peers(**module.params)
    # Ansible would send the arguments back, which are the largest part by far and the controller's own.
    module.exit_json(changed=False, invocation={}, **said)


if __name__ == "__main__":
    main()
