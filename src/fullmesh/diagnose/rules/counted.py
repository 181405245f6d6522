"""What a kernel counted while it was probed: packets that something beside the packet filter threw away."""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.diagnose.rules.decisions import ALL_KINDS, find_broken_links
from fullmesh.result.findings import Finding, join_names

# Counter -> what throws packets away, and what shows it (xfrm_proc.rst, snmp_counter.rst of the kernel).
XFRM = "ip xfrm policy; ip xfrm state; ip xfrm monitor"
MEANS = {
    "Xfrm.XfrmOutPolBlock": ("an IPsec policy forbids what leaves", XFRM),
    "Xfrm.XfrmInPolBlock": ("an IPsec policy forbids what comes in", XFRM),
    "Xfrm.XfrmOutPolDead": ("an IPsec policy that has run out holds what leaves", XFRM),
    "Xfrm.XfrmOutNoStates": (
        "an IPsec policy wants encryption, and there are no keys for it",
        XFRM,
    ),
    "Xfrm.XfrmInTmplMismatch": (
        "an IPsec policy wants encryption, and what comes in has none",
        XFRM,
    ),
    "Xfrm.XfrmInNoStates": ("encrypted packets come in for which there is no key", XFRM),
    "Xfrm.XfrmInNoPols": ("no IPsec policy allows what comes in", XFRM),
    "Xfrm.XfrmAcquireError": ("an IPsec policy wants encryption, and nobody can make keys", XFRM),
    "TcpExt.TCPMD5NotFound": ("connections must be signed (TCP-MD5) and are not", "ss -tinM"),
    "TcpExt.TCPMD5Unexpected": ("connections are signed (TCP-MD5) and must not be", "ss -tinM"),
    "TcpExt.TCPMD5Failure": ("signatures of connections (TCP-MD5) are wrong", "ss -tinM"),
    "TcpExt.TCPAORequired": ("connections must be signed (TCP-AO) and are not", "ss -tin"),
    "TcpExt.TCPAOKeyNotFound": ("connections are signed (TCP-AO) with an unknown key", "ss -tin"),
    "TcpExt.TCPMinTTLDrop": ("packets come in with a smaller TTL than a socket accepts", "ss -tin"),
    "TcpExt.TCPRcvQDrop": (
        "there is no room for what comes in",
        "sysctl net.ipv4.tcp_rmem net.ipv4.tcp_mem",
    ),
}
QUEUE = "Queue."
ABOVE = {QUEUE: "the queue of {0} is too short or too slow"}


def explain_counter(name: str) -> tuple[str, str]:
    """What a counter says, and what shows more; empty for one that says nothing."""
    if name.startswith(QUEUE):
        card = name[len(QUEUE) :].split(" ", maxsplit=1)[0]
        return ABOVE[QUEUE].format(name[len(QUEUE) :]), f"tc -s qdisc show dev {card}"
    return MEANS.get(name, ("", ""))


def list_grown_counters(look: ClusterEvidence, name: str) -> list[tuple[str, int, str, str]]:
    """The counters of a node that grew and mean something: name, by how much, what, command."""
    held = look.seen.nodes.get(name, {}).get("started", {}).get("listeners", {})
    found = []
    for counter, grown in held.get("counters", {}).items():
        what, command = explain_counter(counter)
        other = counter.startswith(QUEUE) and look.cluster_card(name) not in counter.split(" ")[0]
        if grown > 0 and what and not other:
            found.append((counter, grown, what, command))
    return found


def count_late_connections(
    look: ClusterEvidence, one: str, other: str
) -> dict[tuple[str, str], int]:
    """How many connections between two nodes were made and then got stuck, by direction."""
    found = {}
    for source, target in ((one, other), (other, one)):
        late = [r for r in look.records(source) if r["node"] == target and r["remark"]]
        if late:
            found[(source, target)] = sum(r["verdict"] == "open" for r in late)
    return {pair: count for pair, count in found.items() if count}


def find_dropping_links(
    look: ClusterEvidence, name: str, peer: str, grown: int
) -> tuple[tuple[str, str], ...]:
    """The links of a node that are broken, or late with more packets thrown away than connections are late.

    A busy machine is late as well, and a queue may drop a packet now and then without any harm.
    """
    broken = find_broken_links(look, name, peer).pairs
    late = count_late_connections(look, name, peer)
    return broken or (tuple(late) if late and grown >= sum(late.values()) else ())


def rule_drop_counters(look: ClusterEvidence) -> Iterator[Finding]:
    """A node with broken links counted packets that it threw away."""
    for name in look.nodes:
        counted = list_grown_counters(look, name)
        if not counted:
            continue
        _, grown, what, command = max(counted, key=lambda one: one[1])
        pairs = tuple(
            pair
            for peer in look.peers(name)
            if peer in look.nodes
            for pair in find_dropping_links(look, name, peer, grown)
        )
        if not pairs:
            continue
        peers = sorted({end for pair in pairs for end in pair} - {name})
        yield Finding(
            "DG-158",
            "L2",
            f"the kernel of {name} threw {grown} packets away: {what}",
            node=name,
            peer=join_names(peers),
            port="all",
            direction=f"{join_names(peers)} <-> {name}",
            seen=", ".join(f"{one[0]} +{one[1]}" for one in counted),
            expected="none",
            fix=f"on {name}: {command}",
            pairs=pairs,
            kinds=ALL_KINDS,
        )


RULES = (rule_drop_counters,)
