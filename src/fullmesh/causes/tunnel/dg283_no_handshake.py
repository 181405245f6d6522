"""Two nodes have no WireGuard session, although their keys match

Each node sends a packet to each peer every 25 s, so a session without a recent handshake means that
the UDP packets do not arrive. Usually a firewall between the nodes, or a security group in a cloud,
blocks the UDP port. A broken link between the nodes has the same effect.

**Prove:** ping the address of the other node's link. tcpdump -ni NIC udp port 29820 on both nodes,
and wg show fullmesh-wg latest-handshakes

**Fix:** Let the UDP port of wireguard_port pass between the nodes, in both directions. Role
peer_firewall opens it on the nodes themselves. If ping fails as well, repair the link.

**Source:** measured: nft drop of the port at one end
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import KERNELS, LINKS, WALLS, has_same_links
from fullmesh.causes.tunnel.sessions import (
    describe_age,
    get_endpoint,
    has_right_key,
    has_session,
    list_tunnel_ends,
)
from fullmesh.result.findings import Finding


def rule_handshakes(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report each pair of nodes without a session, once."""
    ends = {(end.name, end.other): end for end in list_tunnel_ends(evidence)}
    for (name, other), end in ends.items():
        back = ends[(other, name)]
        if name > other or not (has_right_key(end) and has_right_key(back)):
            continue
        if has_session(end) and has_session(back):
            continue
        port = evidence.plan["wireguard"]["port"]
        near, far = get_endpoint(evidence, name), get_endpoint(evidence, other)
        yield Finding(
            "DG-283",
            "L2",
            f"{name} and {other} have no session in the tunnel: UDP port {port} does not pass between {near} and {far}",
            node=other,
            peer=name,
            port=f"{port}/udp",
            direction=f"{name} <-> {other}",
            seen=f"handshakes: {describe_age(end)}",
            expected="a handshake every 120 s",
            check=f"on {other}: ping -c 3 {near}; tcpdump -ni any udp port {port}",
            fix=f"let UDP port {port} pass between {near} and {far}, also in firewalls outside of the nodes",
            pairs=((name, other), (other, name)),
        )


CAUSE = Cause(
    "DG-283",
    __doc__,
    find=rule_handshakes,
    needs=("tunnel",),
    weight=1050,
    explains=(Explains((*LINKS, *WALLS, *KERNELS, "DG-138", "DG-139", "DG-141"), has_same_links),),
    cases=(
        CauseCase("no-handshake", "nft drop of the UDP port", by="recorded", fields=LINK),
        CauseCase("old-handshake", "the same, after a session", by="recorded", fields=LINK),
    ),
)
