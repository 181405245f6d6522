# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Second call of the verification on a node: connect to every listener of every peer."""

from __future__ import annotations

import resource
import time
from typing import TYPE_CHECKING

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.fullmesh.probe.handshake import PAYLOAD_LIMIT
from ansible.module_utils.fullmesh.probe.job_account import as_job
from ansible.module_utils.fullmesh.probe.pairs import measure_all, probe_links
from ansible.module_utils.fullmesh.probe.sweep import condense, sweep, target_of
from ansible.module_utils.fullmesh.probe.ways import odd_ways
from ansible.module_utils.fullmesh.survey.net import neighbours

if TYPE_CHECKING:
    from ansible.module_utils.fullmesh.schema.ladder import Me, Probe, SweepTarget, Target

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
    default: []
  sweep:
    description:
      - Instead of O(targets). Listeners of many peers in the order of a schedule, each with C(block) as well.
      - The answer has in C(links) what deviates only, and counts the rest in C(swept).
    type: list
    elements: dict
    default: []
  at_once:
    description: Connections of O(sweep) that are in the making together.
    type: int
    default: 16
  budget:
    description: Seconds after which no more of O(sweep) are begun.
    type: float
    default: 60.0
  master:
    description: The node against whose clock this one's is held, with O(sweep).
    type: str
    default: ""
  payload:
    description: Bytes to send there and back.
    type: int
    default: 65536
  seconds:
    description: Deadline of one try; what got no answer is tried twice.
    type: float
    default: 3.0
  as_job:
    description: Try some of the listeners that were reached once more as the account that runs jobs. Needs root.
    type: bool
    default: false
  job_user:
    description: That account; empty to look at the units of jobs and at ranks that run.
    type: str
    default: ""
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
swept:
  description: >-
    What O(sweep) came to: C(asked), C(tried), C(peers) that these are of, C(rtt_us) by block, C(ms), C(more)
    (places of what deviates beyond C(links), by verdict) and C(clock) against the master's.
  type: dict
  returned: when O(sweep) was given
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
as_job:
  description: >-
    What the account of jobs met: C(account), C(uid), C(tried) listeners, C(links) that are not open for it, C(error).
  type: dict
  returned: when O(as_job) was given and the account is known
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
            "targets": {"type": "list", "elements": "dict", "default": []},
            "sweep": {"type": "list", "elements": "dict", "default": []},
            "at_once": {"type": "int", "default": 16},
            "budget": {"type": "float", "default": 60.0},
            "master": {"type": "str", "default": ""},
            "payload": {"type": "int", "default": 65536},
            "seconds": {"type": "float", "default": 3.0},
            "as_job": {"type": "bool", "default": False},
            "job_user": {"type": "str", "default": ""},
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
    said: Probe = {
        "links": [],
        "bandwidth": [],
        "neighbours": {"count": 0, "entries": {}},
        "seconds": 0.0,
    }
    targets: list[Target] = want["targets"]
    if want["sweep"]:
        rows: list[SweepTarget] = want["sweep"]
        found, tried = sweep(rows, me, want["seconds"], want["at_once"], want["budget"])
        said["links"], said["swept"] = condense(rows, tried, found, want["master"])
        odd = {record["node"] for record in said["links"]}
        targets = [target_of(row) for row in rows if row["node"] in odd]
    else:
        said["links"] = probe_links(targets, me, want["seconds"], window())
        if want["as_job"]:
            met = as_job(targets, said["links"], me, want["seconds"], want["job_user"])
            if met:
                said["as_job"] = met
    said["seconds"] = round(time.monotonic() - begun, 3)
    size = min(want["bandwidth"], PAYLOAD_LIMIT)
    if size:
        said["bandwidth"] = measure_all(said["links"], targets, me, size, want["seconds"])
    said["neighbours"] = neighbours(sorted({str(target["address"]) for target in targets}))
    said["ways"] = odd_ways(want["address"], targets, said["links"])
    # Ansible would send the arguments back, which are the largest part by far and the controller's own.
    module.exit_json(changed=False, invocation={}, **said)


if __name__ == "__main__":
    main()
