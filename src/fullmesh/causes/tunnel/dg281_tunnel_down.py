"""The interface of the WireGuard tunnel is missing or down

With role wireguard (docs/encryption.md), the cluster address of the node is on this
interface. Without it, the node has no cluster address, and no job reaches it.

**Prove:** ip -br address show fullmesh-wg; systemctl status wg-quick@fullmesh-wg

**Fix:** systemctl restart wg-quick@fullmesh-wg. If it fails, journalctl -u wg-quick@fullmesh-wg
has the reason.

**Source:** measured: ip link del, ip link set down, and a stopped unit
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import KERNELS, LINKS, WALLS, has_root_node, has_same_node
from fullmesh.causes.tunnel.sessions import get_tunnel, is_tunnel_up
from fullmesh.result.findings import Finding, join_names
from fullmesh.verify.node import list_node_links


def rule_tunnel_down(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report nodes on which the tunnel is configured, but its interface is missing or down."""
    for name in evidence.nodes:
        state = get_tunnel(evidence, name)
        if state is None or is_tunnel_up(state):
            continue
        interface = evidence.plan["wireguard"]["interface"]
        unit = f"wg-quick@{interface}"
        what = "is down" if state["public_key"] else "does not exist"
        yield Finding(
            "DG-281",
            "L1",
            f"the tunnel's interface {interface} of {name} {what}",
            node=name,
            peer=join_names(evidence.peers(name)),
            port="all",
            seen=f"{interface} {what}",
            expected=f"{interface} is up with {evidence.address(name)}",
            check=f"on {name}: systemctl status {unit}; journalctl -u {unit}",
            fix=f"on {name}: systemctl restart {unit}",
            pairs=list_node_links(evidence.seen, name),
        )


CAUSE = Cause(
    "DG-281",
    __doc__,
    find=rule_tunnel_down,
    needs=("tunnel",),
    weight=1095,
    explains=(
        Explains(
            (*LINKS, *WALLS, *KERNELS, "DG-138", "DG-139", "DG-140", "DG-141", "DG-283", "VC-213"),
            has_root_node,
        ),
        Explains(("DG-155", "DG-156"), has_root_node),
        Explains(
            (
                *("DG-123", "DG-134", "DG-136", "VC-102", "VC-106", "VC-121", "VC-122"),
                *("VC-601", "VC-603", "DG-120"),
            ),
            has_same_node,
        ),
        Explains(("DG-126",)),
    ),
    # tests/e2e/test_wireguard.py injects it: the labs of the other causes have no tunnel
    cases=(
        CauseCase("tunnel-gone", "ip link del fullmesh-wg", by="recorded"),
        CauseCase("tunnel-down", "ip link set fullmesh-wg down", by="recorded"),
    ),
)
