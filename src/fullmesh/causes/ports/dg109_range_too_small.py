"""The port range is too small for the ranks

A rank needs a listening port for every process group and a port for every connection. After a
restart, some ports stay in TIME_WAIT for a minute. If the range is too small, ranks fail with
'Address already in use' or 'Cannot assign requested address', or without any message.

**Prove:** sysctl net.ipv4.ip_local_port_range

**Fix:** Use a larger range. Fullmesh's default has 4096 ports.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.ports.port_ranges import RESERVED, suggest_range_fix
from fullmesh.causes.relations import (
    RANGES,
    SHUT,
    WALLS,
    has_kernel_ports_only,
    has_same_node,
    is_out_of_ports,
)
from fullmesh.model.ports import compute_smallest_size
from fullmesh.observed.ports import PortRange, parse_port_ranges
from fullmesh.result.findings import Finding
from fullmesh.verify.node import list_node_links


def find_reserved_overlap(evidence: ClusterEvidence, name: str, held: PortRange) -> str:
    """Return the reserved ports of a node's range. If the node has a plan, VC-108 reports them."""
    words = evidence.sysctl(name, RESERVED) if evidence.assumed else ""
    return words if any(span.shared(held) for span in parse_port_ranges(words)) else ""


def rule_port_range_size(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report a range with too few ports for the ranks of a node, restarts included."""
    for name in evidence.nodes:
        held = evidence.port_range(name)
        ranks = int(evidence.plan["nodes"][name]["local_ranks"])
        need = compute_smallest_size(ranks, 1)
        if held is None:
            continue
        reserved = find_reserved_overlap(evidence, name, held)
        free = len(held) - sum(span.shared(held) for span in parse_port_ranges(reserved))
        if free >= need:
            continue
        yield Finding(
            "DG-109",
            "L1",
            f"{name} has {free} free ports, but {ranks} rank(s) need {need}",
            node=name,
            port=str(held),
            seen=held.sysctl + (f", of which {RESERVED} has {reserved}" if reserved else ""),
            expected=evidence.plan["data_ports"]["sysctl"]
            if not evidence.assumed
            else f"at least {need} ports",
            check=f"on {name}: grep -r reserved_ports /etc/sysctl.d  # the file that sets {RESERVED}"
            if reserved
            else "",
            fix=suggest_range_fix(evidence, name),
            # no connection and no listener gets a port, or it is random which of them do
            pairs=list_node_links(evidence.seen, name),
        )


CAUSE = Cause(
    "DG-109",
    __doc__,
    find=rule_port_range_size,
    needs=("sysctls",),
    weight=1020,
    explains=(
        Explains(("VC-204",), is_out_of_ports),
        Explains(("DG-110", "VC-108", *RANGES), has_same_node),
        Explains(("DG-107",)),
        Explains((*SHUT, *WALLS), has_kernel_ports_only),
    ),
    cases=(CauseCase("range-small", "sysctl -w net.ipv4.ip_local_port_range='50000 50009'"),),
)
