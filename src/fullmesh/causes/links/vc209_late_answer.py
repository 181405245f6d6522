"""A listener answered late, or the link is slow

The link is open, but the answer came late. If the node was busy, it is a warning. If a single
connection is slow as well, the finding has its rate and is an error.

**Prove:** uptime on the node, and tc qdisc show

**Fix:** Repeat the command when the node is less busy. On a slow link, remove the limit.
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause
from fullmesh.observed.ladder import SLOW
from fullmesh.result.findings import WARNING, Finding, join_names
from fullmesh.verify.blocked import OPEN, get_link_records
from fullmesh.verify.model import ClusterObservations


def find_slow_links(seen: ClusterObservations) -> Iterator[Finding]:
    """Report links that pass large packets, but so slowly that a job would hang."""
    for source in seen.plan["nodes"]:
        slow: dict[str, str] = {}
        for r in get_link_records(seen, source):
            if r["verdict"] == OPEN and r["remark"].startswith(SLOW):
                slow.setdefault(r["node"], r["remark"])
        for peer, remark in slow.items():
            yield Finding(
                "VC-209",
                "L2",
                f"{source} -> {peer}: {remark}",
                node=source,
                peer=peer,
                direction=f"{source} -> {peer}",
                seen=remark,
                expected="64 KiB there and back at once",
                check=f"on both: tc qdisc show; ethtool {seen.plan['nodes'][source]['interface'] or 'INTERFACE'}",
                fix="remove the limit on the nodes, the switch or the hypervisor",
                pairs=((source, peer),),
            )


def rule_late_answers(seen: ClusterObservations) -> Iterator[Finding]:
    """Report open links that are slow, and those whose listener answered late because its machine is busy."""
    yield from find_slow_links(seen)
    for source in seen.plan["nodes"]:
        slow = sorted(
            {
                r["node"]
                for r in get_link_records(seen, source)
                if r["verdict"] == OPEN and r["remark"] and not r["remark"].startswith(SLOW)
            }
        )
        if slow:
            yield Finding(
                "VC-209",
                "L2",
                f"{join_names(slow)} accepted the connections of {source} but answered late. The links are open",
                node=slow[0],
                peer=source,
                direction=f"{source} -> {join_names(slow)}",
                seen="no complete answer in time",
                expected="an answer",
                check=f"on {slow[0]}: uptime",
                fix="run the verification again when the node is less busy",
                severity=WARNING,
                pairs=tuple((source, peer) for peer in slow),
            )


CAUSE = Cause("VC-209", __doc__, find=rule_late_answers, severity=WARNING)
