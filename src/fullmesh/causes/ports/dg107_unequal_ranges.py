"""The nodes use different port ranges

A firewall opens one range of ports. If the kernel of a node takes its ports from another range, the
node listens on ports that the firewall blocks. Whether a job fails depends on which node connects:
in Gloo, the higher address connects to the lower one.

**Prove:** sysctl net.ipv4.ip_local_port_range

**Fix:** Set the same range on all nodes in /etc/sysctl.d, as role kernel_tuning does.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.ports.port_ranges import KEY
from fullmesh.causes.relations import SHUT, WALLS, has_kernel_ports_only
from fullmesh.observed.ports import KERNEL_RANGE
from fullmesh.result.findings import Finding, join_names


def rule_equal_port_ranges(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report different port ranges of nodes without a plan, since their firewalls open the same ports."""
    if not evidence.assumed:
        return
    held = {n: r for n in evidence.nodes if (r := evidence.port_range(n)) is not None}
    if len(set(held.values())) < 2:  # noqa: PLR2004 (two that differ)
        return
    counts = Counter(held.values()).most_common()
    usual = counts[0][0]
    if len(counts) > 1 and counts[0][1] == counts[1][1]:
        # With a tie, assume that the range other than the kernel's default was chosen.
        usual = next((r for r, n in counts if n == counts[0][1] and r != KERNEL_RANGE), usual)
    odd = [name for name, value in held.items() if value != usual]
    yield Finding(
        "DG-107",
        "L1",
        f"{join_names(odd)} uses a different port range than the other nodes",
        node=odd[0],
        peer=join_names([n for n in held if n not in odd]),
        port=str(held[odd[0]]),
        seen=held[odd[0]].sysctl,
        expected=usual.sysctl,
        fix=f"on {join_names(odd)}: sysctl -w {KEY}='{usual.sysctl}', and the same in /etc/sysctl.d",
    )


CAUSE = Cause(
    "DG-107",
    __doc__,
    find=rule_equal_port_ranges,
    needs=("sysctls",),
    weight=840,
    explains=(Explains((*SHUT, *WALLS), has_kernel_ports_only),),
    cases=(
        CauseCase("range-drift-bare", "pin another range on one of two nodes that have no plan"),
    ),
)
