"""a program or filter (XDP, tc, BPF) stands where the packets of a link end

An XDP program sees what a card receives before any tap or packet filter; filters of tc stand between tap and packet
filter; BPF programs of a control group see what its processes send and get. None of them is in nft's list. That one
drops the packets is not proved: it is the only one known who could.

**Prove:** ip -d link show CARD; tc filter show dev CARD ingress; bpftool net; bpftool cgroup tree

**Fix:** ip link set dev CARD xdp off, tc filter del, or a rule for the peers in whatever loads it.

**Source:** measured: native XDP on veth drops without any reason or counter (kernel 6.18)
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.firewall.kernel_drops import (
    BEFORE,
    BOTH,
    IN,
    OUT,
    group_by_drop_node,
    list_unexplained_blocks,
    make_drop_finding,
)
from fullmesh.causes.relations import LINKS, WALLS, is_return_path
from fullmesh.result.findings import Finding

# Where a program stands, and which packets of a link it sees.
STANDS = {"xdp": BEFORE, "tc ingress": IN, "tc egress": OUT}


def rule_packet_hooks(evidence: ClusterEvidence) -> Iterator[Finding]:
    """A program or a filter stands at the card of the node where packets end."""
    for name, held in group_by_drop_node(list(list_unexplained_blocks(evidence))).items():
        card = evidence.cluster_card(name)
        sides = {side for _, side in held}
        standing = [
            hook
            for hook in evidence.survey(name).get("hooks", [])
            if (hook["card"] == card and STANDS.get(hook["at"]) in sides)
            or (hook["at"].startswith("cgroup ") and sides & set(BOTH))
        ]
        if not standing:
            continue
        first = standing[0]
        seen_at = (STANDS[first["at"]],) if first["at"] in STANDS else BOTH
        blocks = [block for block, side in held if side in seen_at]
        place = f"{first['card']} ({first['at']})" if first["card"] else first["at"]
        yield make_drop_finding(
            "DG-181",
            name,
            blocks,
            f"a program or filter at its {place} sees them there, and no rule of the packet filters stops them",
            (
                "; ".join(f"{hook['at']} {hook['card']}: {hook['what']}" for hook in standing),
                f"on {name}: ip -d link show {card}; tc filter show dev {card} ingress; bpftool net; find who loads it"
                " (systemctl), then take it away or let the peers through",
            ),
        )


CAUSE = Cause(
    "DG-181",
    __doc__,
    find=rule_packet_hooks,
    needs=("hooks",),
    weight=930,
    explains=(Explains((*LINKS, *WALLS, "DG-180", "DG-138", "DG-139"), is_return_path),),
    cases=(CauseCase("xdp", "an XDP program at the card that drops the data range", fields=LINK),),
)
