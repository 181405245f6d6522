"""firewalld's runtime and permanent settings differ

firewalld keeps its running settings apart from its permanent ones. After a reload or reboot only
the permanent settings apply, so links that work now may break then.

**Prove:** diff <(firewall-cmd --list-all-zones) <(firewall-cmd --permanent --list-all-zones)

**Fix:** firewall-cmd --runtime-to-permanent to keep the running settings, or firewall-cmd --reload
to discard them.

**Source:** firewall-cmd(1)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.firewall.blocked_links import is_accepted_by_rich_rule
from fullmesh.causes.firewall.blocking_rules import (
    BlockingRule,
    describe_direction,
    describe_peers,
    group_blocking_rules,
    is_inbound_block,
)
from fullmesh.causes.relations import SHUT, has_same_blocked_ports
from fullmesh.observed.ports import is_port_listed
from fullmesh.result.findings import WARNING, Finding, join_names

# The running and permanent state of a zone or a policy (ZoneState, PolicyState), whose parts are read by name.
Both = Mapping[str, Any]


ZONE_PARTS = ("target", "ports", "services", "sources")


POLICY_PARTS = ("target", "ingress", "egress", "ports", "services", "rules")


def rule_firewalld_runtime(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find nodes whose running and permanent firewalld settings differ: a reload or reboot changes them."""
    shut = group_blocking_rules(evidence)
    for name in evidence.nodes:
        held = evidence.survey(name).get("firewalld", {})
        sets = held.get("ipsets", {})
        for zone, both in held.get("zones", {}).items():
            active = zone in held.get("active", {}) or zone == held.get("default")
            apart = find_drifted_parts(both, ZONE_PARTS) if active else []
            if apart and both["permanent"]:
                ports = both["permanent"]["ports"]
                hit = [
                    w for w in shut if is_inbound_block(w, name) and is_port_listed(ports, w.port)
                ]
                yield make_runtime_finding(evidence, (name, f"zone {zone}"), both, apart[0], hit)
        for policy, state in held.get("policies", {}).items():
            apart = find_drifted_parts(state, POLICY_PARTS)
            if apart and state["permanent"]:
                kept = state["permanent"]["rules"]
                hit = [
                    w
                    for w in shut
                    if is_inbound_block(w, name)
                    and is_accepted_by_rich_rule(kept, w.port, w.packet.saddr, sets)
                ]
                yield make_runtime_finding(
                    evidence, (name, f"policy {policy}"), state, apart[0], hit
                )


def find_drifted_parts(both: Both, parts: Sequence[str]) -> list[str]:
    """List the permanent settings that differ from the running ones. A rule may name its parts in another order."""
    kept, now = both["permanent"], both["runtime"]
    if not kept:
        return []

    def same_order(value: Any) -> Any:
        return sorted(sorted(one.split()) for one in value) if isinstance(value, list) else value

    return [key for key in parts if same_order(kept[key]) != same_order(now[key])]


def make_runtime_finding(
    evidence: ClusterEvidence, where: tuple[str, str], both: Both, key: str, hit: list[BlockingRule]
) -> Finding:
    """Make a finding about one zone or policy whose two sides differ, and the links blocked by it."""
    name, what = where
    now, kept = describe_both_sides(both["runtime"][key], both["permanent"][key])
    reload = "firewall-cmd --reload"
    fix = f"on {name}: {reload if hit else f'firewall-cmd --runtime-to-permanent, or {reload}'}"
    return Finding(
        "DG-214",
        "L2",
        f"firewalld on {name} runs {what} with other {key} than its permanent settings have",
        node=name,
        peer=describe_peers(hit[0]) if hit else "",
        port=hit[0].group[0].ports if hit else "",
        direction=describe_direction(hit[0]) if hit else "",
        seen=f"runs {key}: {now}",
        expected=f"keeps {key}: {kept}",
        fix=fix if hit or evidence.assumed else f"{fix}; {evidence.seen.apply('firewall')}",
        severity="error" if hit else WARNING,
        pairs=tuple(pair for rule in hit for pair in rule.pairs),
        kinds=tuple(sorted({kind for rule in hit for kind in rule.kinds})),
    )


def describe_both_sides(now: Any, kept: Any) -> tuple[str, str]:
    """Describe both sides. Of rules, which are long, only those that the other side lacks."""
    if not isinstance(now, list):
        return now or "default", kept or "default"
    if not any(one.startswith("rule ") for one in (*now, *kept)):
        return join_names(now), join_names(kept)
    return (
        join_names([one for one in now if one not in kept]) or "none of these",
        join_names([one for one in kept if one not in now]) or "none of these",
    )


CAUSE = Cause(
    "DG-214",
    __doc__,
    find=rule_firewalld_runtime,
    needs=("firewalld",),
    severity=WARNING,
    weight=770,
    explains=(Explains((*SHUT, "DG-114", "DG-101", "DG-105", "DG-175"), has_same_blocked_ports),),
    cases=(
        CauseCase(
            "runtime-differs",
            "firewall-cmd --permanent ... without --reload, or the other way round, in an active zone or policy",
        ),
    ),
)
