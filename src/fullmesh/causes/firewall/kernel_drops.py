"""Blocked links that no known rule explains: the points at which their packets end, and the kernel's drop reasons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.firewall.blocking_rules import find_blocking_rule
from fullmesh.result.findings import Finding, join_names
from fullmesh.verify.blocked import FIREWALLED, BlockedLink, list_blocked_links

# The place on a node at which packets end: outgoing, incoming, or before its tap sees them.
OUT, IN, BEFORE = "out", "in", "before"


BOTH = (IN, OUT)


@dataclass(frozen=True)
class DropReasonMeaning:
    """A drop reason of the kernel (include/net/dropreason-core.h): its meaning, its place, and the next check."""

    what: str
    sides: tuple[str, ...]
    show: str


NFT = "nft list ruleset, and nft monitor trace with a rule that sets meta nftrace"


SIGNED = "ss -tinM"


QUEUE = "tc -s qdisc && ip -s link"


MEANS = {
    "NETFILTER_DROP": DropReasonMeaning("its own packet filter drops them", BOTH, NFT),
    "IP_RPFILTER": DropReasonMeaning(
        "rp_filter drops them: the route back uses another interface",
        (IN,),
        "ip route get SENDER && sysctl -a -r '\\.rp_filter$'",
    ),
    "OTHERHOST": DropReasonMeaning(
        "the frames are addressed to another machine's interface",
        (BEFORE,),
        "ip link show, and on the sender: ip neigh show",
    ),
    "IP_OUTNOROUTES": DropReasonMeaning("it has no route for them", (OUT,), "ip route get PEER"),
    "IP_INNOROUTES": DropReasonMeaning(
        "it has no route for incoming packets", (IN,), "ip route get PEER"
    ),
    "IP_INADDRERRORS": DropReasonMeaning(
        "their destination address is not its own", (IN,), "ip address && ip route"
    ),
    "IP_INVALID_SOURCE": DropReasonMeaning(
        "their source address is invalid there", (IN,), "ip route get SENDER"
    ),
    "IP_LOCAL_SOURCE": DropReasonMeaning(
        "their source address is one of its own", (IN,), "ip address"
    ),
    "XFRM_POLICY": DropReasonMeaning(
        "an IPsec policy forbids them", BOTH, "ip xfrm policy && ip xfrm state"
    ),
    "NEIGH_FAILED": DropReasonMeaning(
        "the peer's address gets no ARP reply", (OUT,), "ip neigh show"
    ),
    "NEIGH_QUEUEFULL": DropReasonMeaning(
        "too many packets wait for an ARP reply", (OUT,), "ip neigh show"
    ),
    "XDP": DropReasonMeaning("an XDP program drops them", (BEFORE,), "ip -d link show"),
    "TC_INGRESS": DropReasonMeaning(
        "a tc filter drops them", (IN,), "tc filter show dev CARD ingress"
    ),
    "TC_EGRESS": DropReasonMeaning(
        "a tc filter drops them", (OUT,), "tc filter show dev CARD egress"
    ),
    "BPF_CGROUP_EGRESS": DropReasonMeaning(
        "a BPF program of a cgroup drops them", (OUT,), "bpftool cgroup tree"
    ),
    "SOCKET_FILTER": DropReasonMeaning(
        "a filter of the socket or its cgroup drops them", (IN,), "bpftool cgroup tree"
    ),
    "SECURITY_HOOK": DropReasonMeaning(
        "a security module drops them", BOTH, "ausearch -m avc -ts recent"
    ),
    "TCP_MD5NOTFOUND": DropReasonMeaning(
        "connections must be signed (TCP-MD5) and are not", (IN,), SIGNED
    ),
    "TCP_MD5UNEXPECTED": DropReasonMeaning(
        "connections are signed (TCP-MD5) and must not be", (IN,), SIGNED
    ),
    "TCP_MD5FAILURE": DropReasonMeaning(
        "signatures of connections (TCP-MD5) are wrong", (IN,), SIGNED
    ),
    "TCP_AONOTFOUND": DropReasonMeaning(
        "connections must be signed (TCP-AO) and are not", (IN,), SIGNED
    ),
    "TCP_AOFAILURE": DropReasonMeaning(
        "signatures of connections (TCP-AO) are wrong", (IN,), SIGNED
    ),
    "TCP_LISTEN_OVERFLOW": DropReasonMeaning(
        "a listener's backlog is full", (IN,), "ss -ltn && sysctl net.core.somaxconn"
    ),
    "SOCKET_RCVBUFF": DropReasonMeaning(
        "a socket buffer is full", (IN,), "sysctl net.ipv4.tcp_rmem net.core.rmem_max"
    ),
    "SOCKET_BACKLOG": DropReasonMeaning(
        "a socket buffer is full", (IN,), "sysctl net.ipv4.tcp_rmem net.core.rmem_max"
    ),
    "PROTO_MEM": DropReasonMeaning(
        "TCP has no memory left", (IN,), "sysctl net.ipv4.tcp_mem && cat /proc/net/sockstat"
    ),
    "TCP_RFC7323_PAWS": DropReasonMeaning(
        "their TCP timestamps are older than earlier ones (one address, two machines?)",
        (IN,),
        "nstat -az | grep PAWS",
    ),
    "TCP_CSUM": DropReasonMeaning("their checksums are wrong", (IN,), "ethtool -k CARD"),
    "IP_CSUM": DropReasonMeaning("their checksums are wrong", (IN,), "ethtool -k CARD"),
    "QDISC_DROP": DropReasonMeaning("a queue of its interface drops them", (OUT,), QUEUE),
    "QDISC_OVERLIMIT": DropReasonMeaning("a queue of its interface is full", (OUT,), QUEUE),
    "CPU_BACKLOG": DropReasonMeaning(
        "a CPU does not keep up with incoming packets", (IN,), "cat /proc/net/softnet_stat"
    ),
    "PKT_TOO_BIG": DropReasonMeaning(
        "they are larger than its interface allows", (OUT,), "ip link show"
    ),
    "FULL_RING": DropReasonMeaning(
        "the ring of an interface is full", BOTH, "ethtool -S CARD && ethtool -g CARD"
    ),
}


def list_drop_points(block: BlockedLink) -> list[tuple[str, str]]:
    """List the nodes at which packets of a link may end, and the side, from the captures."""
    return {
        "leaving": [(block.source, OUT)],
        "target": [(block.target, IN), (block.target, OUT)],
        "source": [(block.source, IN)],
        "on_the_way": [(block.target, BEFORE)],
        "on_the_way_back": [(block.source, BEFORE)],
    }.get(block.place, [])


def list_unexplained_blocks(evidence: ClusterEvidence) -> Iterator[BlockedLink]:
    """List the blocked links that no rule in the two nodes' packet filters explains."""
    for block in list_blocked_links(evidence.seen):
        if block.verdict in FIREWALLED and not find_blocking_rule(evidence, block).stop.table:
            yield block


def group_by_drop_node(blocks: Sequence[BlockedLink]) -> dict[str, list[tuple[BlockedLink, str]]]:
    """Group the links by the nodes at which they may end, each with the side."""
    found: dict[str, list[tuple[BlockedLink, str]]] = {}
    for block in blocks:
        for name, side in list_drop_points(block):
            found.setdefault(name, []).append((block, side))
    return found


def make_drop_finding(
    code: str, name: str, blocks: Sequence[BlockedLink], cause: str, shown: tuple[str, str]
) -> Finding:
    """Make a finding about links that end at a node. *shown*: the value seen, and the next step."""
    seen, fix = shown
    pairs = tuple(dict.fromkeys((block.source, block.target) for block in blocks))
    peers = sorted({end for pair in pairs for end in pair} - {name})
    # A fault that stops incoming packets also stops replies to outgoing ones: incoming connections give the direction.
    asked = [pair for pair in pairs if pair[1] == name]
    also = "" if asked in ([], list(pairs)) else ", and the replies to its own,"
    sources, targets = (sorted({pair[place] for pair in asked or pairs}) for place in (0, 1))
    direction = f"{join_names(sources)} -> {join_names(targets)}"
    return Finding(
        code,
        "L2",
        f"packets of {direction}{also} end at {name}: {cause}",
        node=name,
        peer=join_names(peers),
        port=blocks[0].ports,
        direction=direction,
        seen=seen,
        expected="accepted",
        fix=fix,
        pairs=pairs,
        kinds=tuple(sorted({kind for block in blocks for kind in block.kinds})),
    )
