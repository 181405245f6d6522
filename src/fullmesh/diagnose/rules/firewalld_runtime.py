"""firewalld runs something else than what it keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fullmesh.diagnose.blocking_rules import BlockingRule, blocking_rules, direction, here, others
from fullmesh.diagnose.model import Look
from fullmesh.diagnose.rules.firewall import lets_in
from fullmesh.observed.ports import opens
from fullmesh.verify.model import WARNING, Finding, in_words

# What runs and what is kept of a zone or a policy (ZoneState, PolicyState), whose parts are looked at by name.
Both = Mapping[str, Any]
ZONE_PARTS = ("target", "ports", "services", "sources")
POLICY_PARTS = ("target", "ingress", "egress", "ports", "services", "rules")


def rule_runtime(look: Look) -> Iterator[Finding]:
    """What firewalld runs is not what it keeps: after a reload or a reboot the nodes behave differently."""
    shut = blocking_rules(look)
    for name in look.nodes:
        held = look.survey(name).get("firewalld", {})
        sets = held.get("ipsets", {})
        for zone, both in held.get("zones", {}).items():
            active = zone in held.get("active", {}) or zone == held.get("default")
            apart = differing(both, ZONE_PARTS) if active else []
            if apart and both["permanent"]:
                ports = both["permanent"]["ports"]
                hit = [w for w in shut if here(w, name) and opens(ports, w.port)]
                yield runtime_finding(look, (name, f"zone {zone}"), both, apart[0], hit)
        for policy, state in held.get("policies", {}).items():
            apart = differing(state, POLICY_PARTS)
            if apart and state["permanent"]:
                kept = state["permanent"]["rules"]
                hit = [
                    w for w in shut if here(w, name) and lets_in(kept, w.port, w.packet.saddr, sets)
                ]
                yield runtime_finding(look, (name, f"policy {policy}"), state, apart[0], hit)


def differing(both: Both, parts: Sequence[str]) -> list[str]:
    """Which parts of what is kept are not what runs. A rule may name its parts in another order."""
    kept, now = both["permanent"], both["runtime"]
    if not kept:
        return []

    def same_order(value: Any) -> Any:
        return sorted(sorted(one.split()) for one in value) if isinstance(value, list) else value

    return [key for key in parts if same_order(kept[key]) != same_order(now[key])]


def runtime_finding(
    look: Look, where: tuple[str, str], both: Both, key: str, hit: list[BlockingRule]
) -> Finding:
    """One zone or policy whose two sides differ, and the links that are shut for it."""
    name, what = where
    now, kept = only(both["runtime"][key], both["permanent"][key])
    reload = "firewall-cmd --reload"
    fix = f"on {name}: {reload if hit else f'firewall-cmd --runtime-to-permanent, or {reload}'}"
    return Finding(
        "DG-214",
        "L2",
        f"firewalld on {name} runs {what} with other {key} than it keeps",
        node=name,
        peer=others(hit[0]) if hit else "",
        port=hit[0].group[0].ports if hit else "",
        direction=direction(hit[0]) if hit else "",
        seen=f"runs {key}: {now}",
        expected=f"keeps {key}: {kept}",
        fix=fix if hit or look.assumed else f"{fix}; {look.seen.apply('firewall')}",
        severity="error" if hit else WARNING,
        pairs=tuple(pair for rule in hit for pair in rule.pairs),
        kinds=tuple(sorted({kind for rule in hit for kind in rule.kinds})),
    )


def only(now: Any, kept: Any) -> tuple[str, str]:
    """Both sides in words; of rules, which are long, those that the other side lacks."""
    if not isinstance(now, list):
        return now or "default", kept or "default"
    if not any(one.startswith("rule ") for one in (*now, *kept)):
        return in_words(now), in_words(kept)
    return (
        in_words([one for one in now if one not in kept]) or "none of these",
        in_words([one for one in kept if one not in now]) or "none of these",
    )


RULES = (rule_runtime,)
