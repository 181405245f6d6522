"""A queue of a node limits the rate of its cluster NIC, or loses or delays packets

Traffic shaping (tc tbf, htb, cake, netem, police) limits, drops or delays packets before they reach
the cable. Shaping scripts, libvirt and container network plugins leave such queues behind. Small
packets pass and large transfers stall, so it looks like packet loss or a wrong MTU.

**Prove:** tc -s qdisc show dev INTERFACE && tc -s class show dev INTERFACE && tc filter show dev
INTERFACE ingress

**Fix:** tc qdisc del dev INTERFACE root. Then find the program that adds the queue: grep -rl 'tc
qdisc' /etc /usr/local

**Source:** tc(8), measured: tbf and htb at 2 Mbit/s
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import LINK, RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.quality.link_quality import SLOW_MBIT, compute_rate_floor, read_measured_rates
from fullmesh.causes.relations import KERNELS, SHUT, WHOLE_JOB, has_lossy_end, has_root_node
from fullmesh.observed.survey import ShapedQueue
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names

USUAL_MBIT = 1000.0  # a limit below is named if the speed of the interface is not known
BELOW_SPEED = 0.9  # of the interface's speed: a limit above has no effect
DELAY_MS, LONG_DELAY_MS = 1.0, 10.0
LOSS_LEAST = 0.0001  # share of packets


def list_queues(evidence: ClusterEvidence, name: str) -> list[ShapedQueue]:
    """List the queues that slow the node down, the slowest first.

    A queue for some packets only counts if a link of the node suffers.
    """
    interface = evidence.find_nic(name, evidence.get_cluster_interface(name))
    speed = float(interface["speed"]) if interface else 0.0
    limit = BELOW_SPEED * speed if speed else USUAL_MBIT
    held = [
        one
        for one in evidence.survey(name).get("queues", [])
        if 0 < one["rate"] < limit or one["loss"] >= LOSS_LEAST or one["delay"] >= DELAY_MS
    ]
    sure = [one for one in held if one["every"]]
    chosen = sure or (held if has_slow_link(evidence, name) else [])
    return sorted(chosen, key=lambda one: (one["rate"] or limit, -one["loss"], -one["delay"]))


def has_slow_link(evidence: ClusterEvidence, name: str) -> bool:
    """Return whether a link of a node is slow, late or lossy."""
    rates = read_measured_rates(evidence)
    if any(name in way and rate < SLOW_MBIT for way, rate in rates.items()):
        return True
    return any(
        name in (source, r["node"])
        and (bool(r["remark"]) or bool(r.get("lost")) or r["verdict"] not in ("open", "refused"))
        for source in evidence.nodes
        for r in evidence.records(source)
        if r["kind"] != "outside"
    )


def is_grave(evidence: ClusterEvidence, name: str, one: ShapedQueue) -> bool:
    """Return whether no job can work well with a queue: it loses packets, or is slower than any cluster network."""
    slow = 0 < one["rate"] < compute_rate_floor(evidence, name, 0.0, 0)
    return slow or one["loss"] >= LOSS_LEAST or one["delay"] >= LONG_DELAY_MS


def describe_effect(one: ShapedQueue) -> str:
    """Describe the effect of a queue."""
    verb = "sends" if one["side"] == "egress" else "receives"
    words = [f"{verb} at most {one['rate']:g} Mbit/s"] if one["rate"] else []
    words += [f"loses {one['loss']:.2%} of the packets"] if one["loss"] else []
    words += [f"delays packets by {one['delay']:g} ms"] if one["delay"] else []
    return " and ".join(words)


def rule_shaped_interfaces(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report queues that limit the rate of a cluster interface, or that lose or delay its packets."""
    for name in evidence.nodes:
        held = list_queues(evidence, name)
        peers = [peer for peer in evidence.peers(name) if peer in evidence.nodes]
        if not held or not peers:
            continue
        one = held[0]
        outgoing = one["side"] == "egress"
        some = "" if one["every"] else ", of the packets that a filter selects"
        yield Finding(
            "DG-191",
            "L2",
            f"{one['card']} of {name} {describe_effect(one)}: traffic shaping (tc {one['what']}){some}",
            node=name,
            peer=join_names(peers),
            port="all",
            direction=f"{name} -> {join_names(peers)}"
            if outgoing
            else f"{join_names(peers)} -> {name}",
            seen=f"tc {one['what']} on {one['card']} ({one['side']}): {describe_effect(one)}",
            expected="no limit below the speed of the interface",
            check=f"on {name}: tc -s qdisc show dev {one['card']}; tc filter show dev {one['card']} ingress",
            fix=f"on {name}: tc qdisc del dev {one['card']} {'root' if outgoing else 'ingress'}",
            severity=ERROR if is_grave(evidence, name, one) else WARNING,
            pairs=tuple((name, peer) if outgoing else (peer, name) for peer in peers),
        )


def is_error(root: Finding, _other: Finding) -> bool:
    """Return whether the root is grave enough to make a job fail."""
    return root.severity == ERROR


CAUSE = Cause(
    "DG-191",
    __doc__,
    find=rule_shaped_interfaces,
    needs=("queues",),
    weight=965,
    hidden=True,
    explains=(
        Explains(("DG-138", "DG-139", "DG-158", "VC-208", "VC-209"), has_root_node),
        Explains((*SHUT, *KERNELS, "DG-115", "VC-207"), has_lossy_end),
        Explains(("VC-309", *WHOLE_JOB), is_error),
    ),
    cases=(
        CauseCase("shaped", "tc tbf or htb at 2 Mbit/s on the node's eth1", fields=LINK),
        CauseCase("impaired", "tc netem loses or delays packets", by=RECORDED, fields=LINK),
    ),
)
