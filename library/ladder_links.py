# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Second call of the verification on a node: connect to every listener of every peer."""

from __future__ import annotations

import resource
import time
from typing import TYPE_CHECKING

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.probe.handshake import PAYLOAD_LIMIT
from ansible.module_utils.fullmesh.probe.pairs import measure_all, probe_links
from ansible.module_utils.fullmesh.probe.ways import odd_ways
from ansible.module_utils.fullmesh.survey.net import neighbours

if TYPE_CHECKING:
    from ansible.module_utils.fullmesh.schema.ladder import Me

DOCUMENTATION = r"""
---
module: ladder_links
short_description: Connect to the listeners of all peers at once and name what became of every connection
description:
  - The verdict comes from the kernel's state of the socket at the deadline, not from a time-out of ours.
  - Runs on the nodes, and on the controller to prove that a port is shut to outsiders.
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
    description: This node's cluster address; empty when the source address does not matter.
    type: str
    default: ""
  targets:
    description: Listeners to reach, each with C(node), C(address), C(port), C(kind).
    type: list
    elements: dict
    required: true
  payload:
    description: Bytes to send there and back.
    type: int
    default: 65536
  seconds:
    description: Deadline of one try; what got no answer is tried twice.
    type: float
    default: 3.0
  bandwidth:
    description: Bytes for one measurement of the rate to each peer; 0 measures nothing.
    type: int
    default: 0
attributes:
  check_mode:
    description: Does the same; nothing is changed.
    support: full
author: [Fullmesh contributors]
"""

EXAMPLES = r"""
- name: Connect to the peers
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
    peer's clock in seconds and C(offset_error), C(reached) (how far this end came), C(lost) and C(segments).
  type: list
  elements: dict
  returned: always
neighbours:
  description: The peers' entries in the neighbour table after the probe, and how many entries there are.
  type: dict
  returned: always
ways:
  description: >-
    What the kernel decides about packets to and from the peers where it is not the ordinary, each with C(peer),
    C(direction), C(ports), C(error), C(dev), C(via), C(source), C(mark), C(uid), C(rule).
  type: list
  elements: dict
  returned: always
bandwidth:
  description: One record per peer that was measured, with C(mbit_s).
  type: list
  elements: dict
  returned: always
seconds:
  description: Time taken.
  type: float
  returned: always
"""

SPARE = 64  # descriptors that Python and Ansible have open already
WINDOW = 8192


def window() -> int:
    """Say how many connections may be under way at once, after asking for all that we may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or soft < hard:
        wanted = WINDOW + SPARE if hard == resource.RLIM_INFINITY else hard
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
        soft = max(soft, wanted)
    return max(16, min(WINDOW, soft - SPARE))


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "token": {"type": "str", "default": "", "no_log": True},
            "node": {"type": "str", "required": True},
            "address": {"type": "str", "default": ""},
            "targets": {"type": "list", "elements": "dict", "required": True},
            "payload": {"type": "int", "default": 65536},
            "seconds": {"type": "float", "default": 3.0},
            "bandwidth": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    want = module.params
    me: Me = {
        "node": want["node"],
        "address": want["address"],
        "token": want["token"],
        "payload": want["payload"],
    }
    begun = time.monotonic()
    links = probe_links(want["targets"], me, want["seconds"], window())
    spent = round(time.monotonic() - begun, 3)
    size = min(want["bandwidth"], PAYLOAD_LIMIT)
    rates = measure_all(links, want["targets"], me, size, want["seconds"]) if size else []
    seen = neighbours(sorted({str(target["address"]) for target in want["targets"]}))
    ways = odd_ways(want["address"], want["targets"], links)
    module.exit_json(
        changed=False, links=links, seconds=spent, bandwidth=rates, neighbours=seen, ways=ways
    )


if __name__ == "__main__":
    main()
