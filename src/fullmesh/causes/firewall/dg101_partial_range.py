"""A firewall opens only a part of the data range

Gloo and NCCL use any port of the range, so a job works or hangs by chance. Fullmesh tests ports at
both ends of the range, evenly between them, and on both sides of every boundary that a rule sets.

**Prove:** nft list ruleset | grep dport && sysctl net.ipv4.ip_local_port_range

**Fix:** Open the whole range to the peers, or pin the kernel's range to the ports that are open.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.firewall.blocked_links import make_block_finding, suggest_rule_fix
from fullmesh.causes.firewall.blocking_rules import (
    BlockingRule,
    describe_direction,
)
from fullmesh.causes.relations import SHUT, has_same_blocked_ports
from fullmesh.result.findings import Finding
from fullmesh.verify.blocked import (
    DATA_KINDS,
)


def format_port_stretches(ports: Sequence[tuple[int, bool]]) -> str:
    """Format tested ports as ``50000-51000 open, 51001-54095 shut``."""
    found: list[list[int | bool]] = []
    for port, good in sorted(ports):
        if found and found[-1][2] is good:
            found[-1][1] = port
        else:
            found.append([port, port, good])
    return ", ".join(
        f"{first}-{last} {'open' if good else 'shut'}" for first, last, good in found[:8]
    )


def explain_partial_range(evidence: ClusterEvidence, rule: BlockingRule) -> Finding | None:
    """Find a data range of which only a part is blocked: jobs fail now and then."""
    first = rule.group[0]
    data = evidence.plan["data_ports"]
    tried = [
        (r["port"], r["verdict"] == "open")
        for r in evidence.records(first.source)
        if r["node"] == first.target
        and r["kind"] in DATA_KINDS
        and data["first"] <= r["port"] <= data["last"]
    ]
    if len({good for _, good in tried}) != 2:  # noqa: PLR2004 (open and shut)
        return None
    # it stops some packets of any port, so the next try would show another picture
    if not rule.stop.sure or first.place == "by_chance":
        return None
    text = (
        f"{rule.node} opens only a part of the data range for {describe_direction(rule)}: "
        f"{format_port_stretches(tried)}"
    )
    found = make_block_finding(
        rule, "DG-101", text, suggest_rule_fix(evidence, rule), f"{data['firewalld']}/tcp open"
    )
    return replace(found, seen=f"{format_port_stretches(tried)}; {found.seen}")


CAUSE = Cause(
    "DG-101",
    __doc__,
    explain_block=explain_partial_range,
    weight=710,
    explains=(Explains((*SHUT, "VC-209"), has_same_blocked_ports),),
    cases=(
        CauseCase(
            "range-half",
            "the only input chain drops a part of the data range, such as its upper half",
            fields=LINK,
        ),
    ),
)
