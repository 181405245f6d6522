"""A node's kernel reports why it drops the packets of a link

Since 5.17 the kernel gives a reason for every packet that it drops (tracepoint skb:kfree_skb). If
the probe runs as root, Fullmesh records these events in its own tracefs instance. It reports a
reason if packets of a link end at the node, no known rule stops them, and the reason fits. The
events have no addresses, so on a busy node they may include packets of other programs.

**Prove:** echo 1 > /sys/kernel/tracing/events/skb/kfree_skb/enable && cat
/sys/kernel/tracing/trace_pipe

**Fix:** Change the setting that the reason names.

**Source:** measured: NETFILTER_DROP at nft_do_chain, OTHERHOST, QDISC_DROP, NEIGH_FAILED (kernel
6.18)
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.firewall.kernel_drops import (
    MEANS,
    group_by_drop_node,
    list_unexplained_blocks,
    make_drop_finding,
)
from fullmesh.causes.relations import LINKS, WALLS, is_return_path
from fullmesh.observed.ladder import PacketDrop
from fullmesh.result.findings import Finding

TRIES = (
    2  # a connection without a reply is tried that often, so at least so many packets are dropped
)


def has_own_kernel(evidence: ClusterEvidence, name: str) -> bool:
    """Return whether no other node has this kernel. Containers on one machine see each other's drops."""
    boots = [str(evidence.seen.facts(one).get("boot") or one) for one in evidence.nodes]
    return boots.count(str(evidence.seen.facts(name).get("boot") or name)) == 1


def list_kernel_drops(evidence: ClusterEvidence, name: str) -> list[PacketDrop]:
    """List the packets that a node's kernel dropped during the probe, by reason."""
    if not has_own_kernel(evidence, name):
        return []
    return (
        evidence.seen.nodes.get(name, {}).get("started", {}).get("listeners", {}).get("drops", [])
    )


def rule_drop_reasons(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find kernel drop reasons on the nodes at which packets end."""
    for name, held in group_by_drop_node(list(list_unexplained_blocks(evidence))).items():
        sides = {side for _, side in held}
        fitting = [
            one
            for one in list_kernel_drops(evidence, name)
            if one["reason"] in MEANS
            and one["count"] >= TRIES
            and sides & set(MEANS[one["reason"]].sides)
        ]
        if not fitting:
            continue
        first = max(fitting, key=lambda one: one["count"])
        meaning = MEANS[first["reason"]]
        blocks = [block for block, side in held if side in meaning.sides]
        yield make_drop_finding(
            "DG-180",
            name,
            blocks,
            f"{meaning.what}, as its kernel reports ({first['reason']}, {first['count']} packets during the probe)",
            (
                ", ".join(f"{one['reason']} {one['count']} at {one['place']}" for one in fitting),
                f"on {name}: {meaning.show.replace('CARD', evidence.get_cluster_interface(name))}",
            ),
        )


CAUSE = Cause(
    "DG-180",
    __doc__,
    find=rule_drop_reasons,
    weight=900,
    explains=(Explains((*LINKS, *WALLS, "DG-138", "DG-139"), is_return_path),),
    cases=(
        CauseCase(
            "reason", "its packet filter, with a rule that Fullmesh cannot evaluate", by=RECORDED
        ),
    ),
)
