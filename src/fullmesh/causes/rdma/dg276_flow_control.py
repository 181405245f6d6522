"""The flow control of RoCE differs between nodes

RoCE needs the same priorities everywhere: PFC pauses a priority before its packets are lost, ECN
slows the senders of a priority, and the DSCP value of a packet chooses its priority. If one node
differs, its packets use a queue that is not protected. The job then works while the network is idle,
and is slow or loses connections under load.

**Prove:** dcb pfc show dev INTERFACE && dcb app show dev INTERFACE. With NVIDIA's driver: mlnx_qos -i
INTERFACE

**Fix:** Set the values of the other nodes on the named one (dcb, mlnx_qos), in a unit that runs at
each boot. Fullmesh does not set them.

**Source:** Linux, include/uapi/linux/dcbnl.h, and NVIDIA, RoCE configuration guide
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.result.findings import WARNING, Finding, join_names
from fullmesh.verify.rdma_pairs import list_job_ports

NAMES = {
    "pfc": "the priorities with PFC",
    "dscp": "the priorities of DSCP values",
    "ecn": "the priorities with ECN",
    "traffic class": "the traffic class",
}


def rule_flow_control(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find values that differ between the nodes on the same device. Nodes whose drivers show none are left out."""
    held: dict[tuple[str, str], dict[str, str]] = {}
    for node in evidence.nodes:
        for port in list_job_ports(evidence.survey(node)):
            for name, value in port.get("flow_control", {}).items():
                held.setdefault((name, port["device"]), {})[node] = value
    differing: dict[tuple[str, str], list[str]] = {}
    for (name, device), values in held.items():
        usual = Counter(values.values()).most_common(1)[0][0]
        for node, value in values.items():
            if value != usual and name in NAMES:
                what = f"{device}: {NAMES[name]}: {value[:200]} (others: {usual[:200]})"
                differing.setdefault((node, name), []).append(what)
    for node in evidence.nodes:
        names = [name for name in NAMES if (node, name) in differing]
        if names:
            yield Finding(
                "DG-276",
                "L1",
                f"{join_names([NAMES[name] for name in names])} of {node}'s RoCE ports differ from those of the other"
                " nodes",
                node=node,
                seen="; ".join(line for name in names for line in differing[node, name]),
                expected="the same flow control on all nodes and switches",
                fix=f"on {node}: set the values of the other nodes (dcb, or mlnx_qos with NVIDIA's driver)",
                severity=WARNING,
            )


CAUSE = Cause(
    "DG-276",
    __doc__,
    find=rule_flow_control,
    needs=("rdma",),
    severity=WARNING,
    weight=40,
    cases=(
        CauseCase(
            "roce-flow-control", "PFC is on for priority 3 on one of two nodes only", by=RECORDED
        ),
    ),
)
