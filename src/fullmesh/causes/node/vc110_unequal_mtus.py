"""The MTUs differ (warning)

Different MTUs on the hosts alone are harmless. If the path between two hosts has a smaller MTU than
both ends, large packets vanish (VC-208).

**Prove:** ip -br link && ping -c 1 -M do -s 8972 PEER

**Fix:** Set one MTU on all nodes and switches.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import has_root_node
from fullmesh.result.findings import WARNING, Finding, join_names
from fullmesh.verify.model import ClusterObservations


def rule_equal_mtus(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the cluster interface has the same MTU on all nodes."""
    nics = {name: seen.facts(name).get("interface", {}) for name in seen.plan["nodes"]}
    sizes = {name: int(nic["mtu"]) for name, nic in nics.items() if nic.get("mtu")}
    if len(set(sizes.values())) > 1:
        usual = Counter(sizes.values()).most_common(1)[0][0]
        odd = [name for name, size in sizes.items() if size != usual]
        yield Finding(
            "VC-110",
            "L1",
            f"the MTU of {join_names(odd)} differs from the others'",
            node=odd[0],
            seen=str(sizes[odd[0]]),
            expected=str(usual),
            fix="set mtu in fullmesh_links, alike on all nodes and switches",
            severity=WARNING,
        )


CAUSE = Cause(
    "VC-110",
    __doc__,
    find=rule_equal_mtus,
    severity=WARNING,
    weight=520,
    explains=(Explains(("DG-139",), has_root_node),),
)
