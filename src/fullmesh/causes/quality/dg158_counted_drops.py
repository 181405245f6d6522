"""A node's kernel drops packets outside its packet filter

Apart from nftables, IPsec policies (for example, of a VPN that is only half removed), tc queues and
TCP signatures can drop packets. The kernel counts these drops per network namespace. Fullmesh
reports each counter that grew during the probe.

**Prove:** cat /proc/net/xfrm_stat && tc -s qdisc && nstat -az | grep -iE 'drop|filter|md5|ao'

**Fix:** Remove the cause that the counter names: ip xfrm policy delete, tc qdisc del, or the
program that requires signatures.

**Source:** measured: XfrmOutPolBlock, XfrmInPolBlock, drops of pfifo
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.quality.drop_counters import MEANS
from fullmesh.causes.relations import KERNELS, LINKS, WALLS, is_return_path
from fullmesh.causes.routes.decisions import ALL_KINDS, find_broken_links
from fullmesh.result.findings import Finding, join_names

QUEUE = "Queue."


ABOVE = {QUEUE: "the queue of {0} is too short or too slow"}


def explain_counter(name: str) -> tuple[str, str]:
    """Return the meaning of a counter and a command that shows more. Both are empty for other counters."""
    if name.startswith(QUEUE):
        interface = name[len(QUEUE) :].split(" ", maxsplit=1)[0]
        return ABOVE[QUEUE].format(name[len(QUEUE) :]), f"tc -s qdisc show dev {interface}"
    return MEANS.get(name, ("", ""))


def list_grown_counters(evidence: ClusterEvidence, name: str) -> list[tuple[str, int, str, str]]:
    """List the known counters of a node that grew: name, growth, meaning, command."""
    held = evidence.seen.nodes.get(name, {}).get("started", {}).get("listeners", {})
    found = []
    for counter, grown in held.get("counters", {}).items():
        what, command = explain_counter(counter)
        other = (
            counter.startswith(QUEUE)
            and evidence.get_cluster_interface(name) not in counter.split(" ")[0]
        )
        if grown > 0 and what and not other:
            found.append((counter, grown, what, command))
    return found


def count_late_connections(
    evidence: ClusterEvidence, one: str, other: str
) -> dict[tuple[str, str], int]:
    """Count the connections between two nodes that opened and then stalled, by direction."""
    found = {}
    for source, target in ((one, other), (other, one)):
        late = [r for r in evidence.records(source) if r["node"] == target and r["remark"]]
        if late:
            found[(source, target)] = sum(r["verdict"] == "open" for r in late)
    return {pair: count for pair, count in found.items() if count}


def find_dropping_links(
    evidence: ClusterEvidence, name: str, peer: str, grown: int
) -> tuple[tuple[str, str], ...]:
    """List the links of a node that are broken, or that are late with more drops than late connections.

    A busy machine is late as well, and a queue may drop a packet now and then without any harm.
    """
    broken = find_broken_links(evidence, name, peer).pairs
    late = count_late_connections(evidence, name, peer)
    return broken or (tuple(late) if late and grown >= sum(late.values()) else ())


def rule_drop_counters(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report drop counters of a node with broken links."""
    for name in evidence.nodes:
        counted = list_grown_counters(evidence, name)
        if not counted:
            continue
        _, grown, what, command = max(counted, key=lambda one: one[1])
        pairs = tuple(
            pair
            for peer in evidence.peers(name)
            if peer in evidence.nodes
            for pair in find_dropping_links(evidence, name, peer, grown)
        )
        if not pairs:
            continue
        peers = sorted({end for pair in pairs for end in pair} - {name})
        yield Finding(
            "DG-158",
            "L2",
            f"the kernel of {name} dropped {grown} packets: {what}",
            node=name,
            peer=join_names(peers),
            port="all",
            direction=f"{join_names(peers)} <-> {name}",
            seen=", ".join(f"{one[0]} +{one[1]}" for one in counted),
            expected="none",
            check=f"on {name}: {command}",
            fix=f"on {name}: remove the policy, queue limit or setting that the counter names",
            pairs=pairs,
            kinds=ALL_KINDS,
        )


CAUSE = Cause(
    "DG-158",
    __doc__,
    find=rule_drop_counters,
    weight=950,
    explains=(Explains((*LINKS, *WALLS, *KERNELS, "DG-138", "DG-139"), is_return_path),),
    cases=(
        CauseCase("ipsec", "ip xfrm policy add … dir out action block", fields=LINK),
        CauseCase(
            "queue", "tc qdisc add dev eth1 root pfifo limit 0 or bfifo limit 100", fields=LINK
        ),
    ),
)
