"""the kernel of a node says why it throws the packets of a link away

The kernel names a reason for every packet that it throws away (tracepoint skb:kfree_skb, since 5.17). While the probe
runs as root it is watched in an instance of tracefs of our own. Where packets of a link end at a node, no rule is
known to stop them, and a reason fits, the reason is said. The event has no addresses: on a busy node the packets of
somebody else may be among them.

**Prove:** cd /sys/kernel/tracing; echo 1 > events/skb/kfree_skb/enable; cat trace_pipe

**Fix:** What the reason names.

**Source:** measured: NETFILTER_DROP at nft_do_chain, OTHERHOST, QDISC_DROP, NEIGH_FAILED (kernel 6.18)
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

TRIES = 2  # a connection that gets no answer is tried that often, so its packets are thrown away as often at least


def has_own_kernel(evidence: ClusterEvidence, name: str) -> bool:
    """Whether no other node has this kernel: containers of one machine all see what it throws away for any of them."""
    boots = [str(evidence.seen.facts(one).get("boot") or one) for one in evidence.nodes]
    return boots.count(str(evidence.seen.facts(name).get("boot") or name)) == 1


def list_kernel_drops(evidence: ClusterEvidence, name: str) -> list[PacketDrop]:
    """What the kernel of a node threw away while the probe ran, and why."""
    if not has_own_kernel(evidence, name):
        return []
    return (
        evidence.seen.nodes.get(name, {}).get("started", {}).get("listeners", {}).get("drops", [])
    )


def rule_drop_reasons(evidence: ClusterEvidence) -> Iterator[Finding]:
    """The kernel of the node where packets end says why it throws packets away."""
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
            f"{meaning.what}, as its kernel says ({first['reason']}, {first['count']} packets while the probe ran)",
            (
                ", ".join(f"{one['reason']} {one['count']} at {one['place']}" for one in fitting),
                f"on {name}: {meaning.show.replace('CARD', evidence.cluster_card(name))}",
            ),
        )


CAUSE = Cause(
    "DG-180",
    __doc__,
    find=rule_drop_reasons,
    weight=900,
    explains=(Explains((*LINKS, *WALLS, "DG-138", "DG-139"), is_return_path),),
    cases=(
        CauseCase("reason", "its packet filter, with a rule that no paper evaluates", by=RECORDED),
    ),
)
