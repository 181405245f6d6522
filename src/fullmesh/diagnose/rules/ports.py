"""The range of ports that the kernel gives out: pinned alike, large enough, not used up, not crossed by fixed ports."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.foreign_text import parse_decimal
from fullmesh.model.ports import compute_smallest_size
from fullmesh.observed.ports import KERNEL_RANGE, PortRange, parse_port_range, parse_port_ranges
from fullmesh.result.findings import Finding, join_names
from fullmesh.verify.node import list_node_links

KEY = "net.ipv4.ip_local_port_range"
RESERVED = "net.ipv4.ip_local_reserved_ports"
JOB = re.compile(
    r"torchrun|torch[._]distributed|torch\.distributed|pt_main|pt_elastic|deepspeed|accelerate|horovod|mpirun"
)
FULL = 0.8  # of the range; what is left is used up by the next start (measured: restarts fail from here on)


def rule_equal_port_ranges(look: ClusterEvidence) -> Iterator[Finding]:
    """Nodes without a plan take their ports from one range: the firewall's holes are the same everywhere."""
    if not look.assumed:
        return
    held = {n: r for n in look.nodes if (r := look.port_range(n)) is not None}
    if len(set(held.values())) < 2:  # noqa: PLR2004 (two that differ)
        return
    counts = Counter(held.values()).most_common()
    usual = counts[0][0]
    if len(counts) > 1 and counts[0][1] == counts[1][1]:
        # As many of one as of the other: the kernel's default is the one that nobody chose.
        usual = next((r for r, n in counts if n == counts[0][1] and r != KERNEL_RANGE), usual)
    odd = [name for name, value in held.items() if value != usual]
    yield Finding(
        "DG-107",
        "L1",
        f"{join_names(odd)} takes its ports from another range than the other nodes",
        node=odd[0],
        peer=join_names([n for n in held if n not in odd]),
        port=str(held[odd[0]]),
        seen=held[odd[0]].sysctl,
        expected=usual.sysctl,
        fix=f"on {join_names(odd)}: sysctl -w {KEY}='{usual.sysctl}', and the same in /etc/sysctl.d",
    )


def find_reserved_overlap(look: ClusterEvidence, name: str, held: PortRange) -> str:
    """What is reserved of a node's range; of nodes with a plan the ladder says it (VC-108)."""
    words = look.sysctl(name, RESERVED) if look.assumed else ""
    return words if any(span.shared(held) for span in parse_port_ranges(words)) else ""


def rule_port_range_size(look: ClusterEvidence) -> Iterator[Finding]:
    """The range holds what the ranks of a node need, restarts included."""
    for name in look.nodes:
        held = look.port_range(name)
        ranks = int(look.plan["nodes"][name]["local_ranks"])
        need = compute_smallest_size(ranks, 1)
        if held is None:
            continue
        reserved = find_reserved_overlap(look, name, held)
        free = len(held) - sum(span.shared(held) for span in parse_port_ranges(reserved))
        if free >= need:
            continue
        unreserve = f"; find the file that sets {RESERVED}: grep -r reserved_ports /etc/sysctl.d"
        yield Finding(
            "DG-109",
            "L1",
            f"{name} has {free} ports to give out, {ranks} rank(s) need {need}",
            node=name,
            port=str(held),
            seen=held.sysctl + (f", of which {RESERVED} has {reserved}" if reserved else ""),
            expected=look.plan["data_ports"]["sysctl"]
            if not look.assumed
            else f"at least {need} ports",
            fix=suggest_range_fix(look, name) + (unreserve if reserved else ""),
            # neither its connections nor its listeners get one, or which of them get the few is chance
            pairs=list_node_links(look.seen, name),
        )


def suggest_range_fix(look: ClusterEvidence, name: str) -> str:
    """The command that gives a node its range back."""
    data = look.plan["data_ports"]
    wanted = KERNEL_RANGE.sysctl if look.assumed else str(data["sysctl"])
    by_hand = f"on {name}: sysctl -w {KEY}='{wanted}'"
    return by_hand if look.assumed else f"{by_hand}; {look.seen.apply('tuning')}"


def rule_exhausted_ports(look: ClusterEvidence) -> Iterator[Finding]:
    """There are free ports in the range: TIME_WAIT of earlier runs holds them for a minute."""
    for name in look.nodes:
        held, sockets = look.port_range(name), look.survey(name).get("sockets")
        if held is None or not sockets:
            continue
        size = len(held)
        if sockets["in_range"] < FULL * size:
            continue
        waiting = sockets["time_wait"]
        yield Finding(
            "DG-110",
            "L1",
            f"{sockets['in_range']} of {name}'s {size} ports are in use, so new listeners and connections fail",
            node=name,
            port=str(held),
            seen=f"{sockets['in_range']} in use, {waiting} sockets in TIME_WAIT",
            expected=f"less than {FULL:.0%} in use",
            fix=(
                f"on {name}: ss -tan | awk '{{print $1}}' | sort | uniq -c; wait a minute, or "
                f"{suggest_range_fix(look, name)}"
            ),
        )


def rule_master_port_in_range(look: ClusterEvidence) -> Iterator[Finding]:
    """MASTER_PORT lies where the kernel gives ports to anybody: sooner or later somebody has it."""
    if look.master not in look.nodes:
        return
    held = look.variable(look.master, "MASTER_PORT")
    pool = look.port_range(look.master)
    port = parse_decimal(held[0]) if held else None
    if held is None or port is None or pool is None or port not in pool:
        return
    reserved = parse_port_ranges(look.sysctl(look.master, RESERVED))
    if any(port in span for span in reserved):
        return
    yield Finding(
        "DG-112",
        "L1",
        f"MASTER_PORT {port} on {look.master} lies inside the range that its kernel gives out, so anybody may have it",
        node=look.master,
        port=f"{port}/tcp",
        seen=f"MASTER_PORT={port} from {held[1]}, range {pool.sysctl}",
        expected="a port outside the range, such as 29500",
        fix=f"set MASTER_PORT=29500 in {held[1]} on every node, or on {look.master}: sysctl -w"
        f" {RESERVED}={port}",
    )


def rule_container_ports(look: ClusterEvidence) -> Iterator[Finding]:
    """A container with a job in it has a network of its own, and that never inherits the pinned range."""
    for name in look.nodes:
        mine = look.port_range(name)
        for space in look.survey(name).get("namespaces", []):
            job = next((c for c in space["commands"] if JOB.search(c)), "")
            theirs = space["port_range"]
            if not job or mine is None or parse_port_range(theirs) == mine:
                continue
            yield Finding(
                "DG-108",
                "L1",
                f"a job in a network namespace of its own on {name} takes its ports from another range than {name}",
                node=name,
                port=theirs.replace(" ", "-"),
                seen=f"{theirs} (pid {space['pid']}: {job[:80]})",
                expected=mine.sysctl,
                fix=f"start the container with --network=host, or with --sysctl {KEY}='{mine.sysctl}'",
            )


RULES = (
    rule_equal_port_ranges,
    rule_port_range_size,
    rule_exhausted_ports,
    rule_master_port_in_range,
    rule_container_ports,
)
