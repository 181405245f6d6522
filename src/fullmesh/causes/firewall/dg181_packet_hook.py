"""A program or filter (XDP, tc, BPF) is attached at the point at which a link's packets end

An XDP program sees incoming packets before any capture or packet filter. A tc filter sees them
between capture and packet filter. A BPF program of a cgroup sees the packets of its processes. nft
lists none of them. Fullmesh has no proof that this program drops the packets. It is the only
candidate that it found.

**Prove:** ip -d link show INTERFACE && tc filter show dev INTERFACE ingress && bpftool net &&
bpftool cgroup tree

**Fix:** ip link set dev INTERFACE xdp off, or tc filter del. Or allow the peers in the program that
attaches it.

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

# Attachment point -> the packets of a link that a program sees there.
STANDS = {"xdp": BEFORE, "tc ingress": IN, "tc egress": OUT}


def rule_packet_hooks(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find programs and filters on the interface of a node at which packets end."""
    for name, held in group_by_drop_node(list(list_unexplained_blocks(evidence))).items():
        interface = evidence.get_cluster_interface(name)
        sides = {side for _, side in held}
        standing = [
            hook
            for hook in evidence.survey(name).get("hooks", [])
            if (hook["card"] == interface and STANDS.get(hook["at"]) in sides)
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
            f"a program or filter on its {place} sees them there, and no packet filter rule stops them",
            (
                "; ".join(f"{hook['at']} {hook['card']}: {hook['what']}" for hook in standing),
                f"on {name}: ip -d link show {interface} && tc filter show dev {interface} ingress && bpftool net. Then"
                " find the service that loads it, and remove it or let the peers through",
            ),
        )


CAUSE = Cause(
    "DG-181",
    __doc__,
    find=rule_packet_hooks,
    needs=("hooks",),
    weight=930,
    explains=(Explains((*LINKS, *WALLS, "DG-180", "DG-138", "DG-139"), is_return_path),),
    cases=(
        CauseCase("xdp", "an XDP program on the interface that drops the data range", fields=LINK),
    ),
)
