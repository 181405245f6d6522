"""No port of the range is free

Sockets in TIME_WAIT (after fast restarts) or a program that leaks connections use all ports of the
range.

**Prove:** ss -tan | awk '{print $1}' | sort | uniq -c

**Fix:** Wait a minute, use a larger range, or find the program that holds the connections (ss
-tanp).

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.ports.port_ranges import suggest_range_fix
from fullmesh.causes.relations import (
    RANGES,
    SHUT,
    WALLS,
    has_kernel_ports_only,
    has_same_node,
    is_out_of_ports,
)
from fullmesh.result.findings import Finding

FULL = 0.8  # of the range (measured: the next start needs the rest, so restarts fail)


def rule_exhausted_ports(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report a range without free ports. TIME_WAIT of earlier runs holds ports for a minute."""
    for name in evidence.nodes:
        held, sockets = evidence.port_range(name), evidence.survey(name).get("sockets")
        if held is None or not sockets:
            continue
        size = len(held)
        if sockets["in_range"] < FULL * size:
            continue
        waiting = sockets["time_wait"]
        yield Finding(
            "DG-110",
            "L1",
            f"{sockets['in_range']} of {name}'s {size} ports are in use, so new listeners and connections fail",
            node=name,
            port=str(held),
            seen=f"{sockets['in_range']} in use, {waiting} sockets in TIME_WAIT",
            expected=f"less than {FULL:.0%} in use",
            check=f"on {name}: ss -tan | awk '{{print $1}}' | sort | uniq -c",
            fix=f"wait a minute, or {suggest_range_fix(evidence, name)}",
        )


CAUSE = Cause(
    "DG-110",
    __doc__,
    find=rule_exhausted_ports,
    needs=("sysctls", "sockets"),
    weight=1010,
    explains=(
        Explains(("VC-204",), is_out_of_ports),
        Explains(("VC-108", *RANGES), has_same_node),
        Explains((*SHUT, *WALLS), has_kernel_ports_only),
    ),
    cases=(
        CauseCase(
            "range-full",
            "a small range (64 ports) filled with sockets in TIME_WAIT or connections inside it",
        ),
    ),
)
