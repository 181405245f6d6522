"""A fixed port is inside the range that the kernel assigns

The kernel may assign any port of its range to any outgoing connection. If a fixed port is in that
range, another program sometimes holds it, and the job fails with EADDRINUSE at random.

**Prove:** sysctl net.ipv4.ip_local_port_range net.ipv4.ip_local_reserved_ports

**Fix:** Choose a port outside the range, or reserve it in net.ipv4.ip_local_reserved_ports.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.ports.port_ranges import RESERVED
from fullmesh.foreign_text import parse_decimal
from fullmesh.observed.ports import parse_port_ranges
from fullmesh.result.findings import Finding


def rule_master_port_in_range(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report a MASTER_PORT in the kernel's range. Sooner or later another program uses it."""
    if evidence.master not in evidence.nodes:
        return
    held = evidence.variable(evidence.master, "MASTER_PORT")
    pool = evidence.port_range(evidence.master)
    port = parse_decimal(held[0]) if held else None
    if held is None or port is None or pool is None or port not in pool:
        return
    reserved = parse_port_ranges(evidence.sysctl(evidence.master, RESERVED))
    if any(port in span for span in reserved):
        return
    yield Finding(
        "DG-112",
        "L1",
        f"MASTER_PORT {port} on {evidence.master} is inside the range that its kernel assigns, so any"
        " program may hold it",
        node=evidence.master,
        port=f"{port}/tcp",
        seen=f"MASTER_PORT={port} from {held[1]}, range {pool.sysctl}",
        expected="a port outside the range, such as 29500",
        fix=f"set MASTER_PORT=29500 in {held[1]} on every node, or on {evidence.master}: sysctl -w"
        f" {RESERVED}={port}",
    )


CAUSE = Cause(
    "DG-112",
    __doc__,
    find=rule_master_port_in_range,
    weight=530,
    explains=(Explains(("DG-128",)),),
    cases=(CauseCase("port-in-range", "MASTER_PORT=50004 in the job's environment on every node"),),
)
