"""A node has no entry, or an old key, of another node in the WireGuard tunnel

The other node made a new key, for example after a new installation, or is missing in the
configuration. Its packets are dropped without a reply, because nothing proves who sent them.

**Prove:** compare wg show fullmesh-wg public-key on one node with wg show fullmesh-wg allowed-ips
on the other

**Fix:** Run ./fullmesh apply for all nodes without --limit. It reads the present keys, and writes
them on all nodes.

**Source:** measured: a node with a new key
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import KERNELS, LINKS, WALLS, has_same_links
from fullmesh.causes.tunnel.sessions import has_right_key, list_tunnel_ends
from fullmesh.result.findings import Finding


def rule_peer_keys(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report each node that does not have the present key of another one."""
    for end in list_tunnel_ends(evidence):
        if has_right_key(end):
            continue
        interface = evidence.plan["wireguard"]["interface"]
        seen = end.entry["public_key"] if end.entry else "no entry"
        what = "has an old key" if end.entry else "has no entry"
        yield Finding(
            "DG-282",
            "L2",
            f"{end.name} {what} of {end.other} in the tunnel, so it drops the packets of {end.other}",
            node=end.name,
            peer=end.other,
            port="all",
            direction=f"{end.name} <-> {end.other}",
            seen=seen,
            expected=end.theirs["public_key"],
            check=f"on {end.name}: wg show {interface} allowed-ips",
            fix=evidence.seen.apply("network"),
            pairs=((end.name, end.other), (end.other, end.name)),
        )


CAUSE = Cause(
    "DG-282",
    __doc__,
    find=rule_peer_keys,
    needs=("tunnel",),
    weight=1060,
    explains=(
        Explains(
            (*LINKS, *WALLS, *KERNELS, "DG-138", "DG-139", "DG-141", "DG-283"), has_same_links
        ),
    ),
    cases=(
        CauseCase("peer-key", "a new key on one node", by="recorded", fields=LINK),
        CauseCase("no-peer", "wg set fullmesh-wg peer KEY remove", by="recorded", fields=LINK),
    ),
)
