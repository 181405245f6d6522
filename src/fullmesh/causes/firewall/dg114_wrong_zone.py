"""The peers' packets arrive in a firewalld zone that does not open the ports

firewalld assigns packets to a zone by source address first, then by interface. It applies that
zone, and policies whose ingress zones include it or ANY. The peers' zone does not open the ports.
Another zone, or a policy for another zone, does.

**Prove:** firewall-cmd --get-active-zones && firewall-cmd --get-active-policies

**Fix:** Open the ports to the peers in a policy for ANY zone: ansible-playbook site.yml -i
INVENTORY --tags firewall

**Source:** firewalld.zones(5), firewalld.policies(5)
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.firewall.blocked_links import is_accepted_by_rich_rule, make_block_finding
from fullmesh.causes.firewall.blocking_rules import (
    BlockingRule,
    describe_direction,
)
from fullmesh.causes.relations import SHUT, has_same_blocked_ports
from fullmesh.observed.ports import is_port_listed
from fullmesh.result.findings import Finding, join_names


def explain_unused_policy(
    evidence: ClusterEvidence, rule: BlockingRule, zone: str
) -> tuple[str, Finding] | None:
    """Find a policy that opens the port to the sender, but does not apply to the packet's zone."""
    held = evidence.survey(rule.node).get("firewalld", {})
    for name, both in held.get("policies", {}).items():
        now = both["runtime"]
        fits = {"ANY", zone} & set(now["ingress"]) and "HOST" in now["egress"]
        wanted = is_accepted_by_rich_rule(
            now["rules"], rule.port, rule.packet.saddr, held.get("ipsets", {})
        )
        if wanted and not fits:
            bound = join_names(now["ingress"]) or "none"
            text = (
                f"the packets of {describe_direction(rule)} arrive in firewalld's zone {zone} on {rule.node}, "
                "which does not"
                f" open {rule.group[0].ports}. Policy {name} does, but it applies to other zones ({bound})"
            )
            fix = (
                f"{evidence.seen.apply('firewall')}, or by hand on {rule.node}: firewall-cmd --permanent"
                f" --policy={name} --add-ingress-zone={zone} && firewall-cmd --reload"
            )
            if evidence.assumed:
                fix = fix.partition("by hand ")[2]
            return name, make_block_finding(rule, "DG-114", text, fix, f"policy {name}")
    return None


def explain_wrong_zone(evidence: ClusterEvidence, rule: BlockingRule) -> Finding | None:
    """Find packets in a zone that does not open their port, while another zone or its policy does."""
    held = evidence.survey(rule.node).get("firewalld", {})
    zone = rule.stop.zone or held.get("default", "")
    if not rule.stop.table.endswith(" firewalld") or not zone:
        return None
    zones = held.get("zones", {})
    better = [
        name
        for name, both in zones.items()
        if name != zone
        and any(
            side and is_port_listed(side["ports"], rule.port)
            for side in (both["runtime"], both["permanent"])
        )
    ]
    if zone in zones and is_port_listed(zones[zone]["runtime"]["ports"], rule.port):
        return None
    passed = explain_unused_policy(evidence, rule, zone)
    if passed or not better:
        return passed[1] if passed else None
    text = (
        f"the packets of {describe_direction(rule)} arrive in firewalld's zone {zone} on {rule.node}, which does "
        "not open"
        f" {rule.group[0].ports}. Zone {better[0]} does"
    )
    sources = " ".join(evidence.address(b.source) for b in rule.group)
    fix = (
        f"{evidence.seen.apply('firewall')}, or by hand on {rule.node}: firewall-cmd --zone={better[0]} "
        f"--add-source=ADDRESS for {sources}"
    )
    if evidence.assumed:
        fix = fix.partition("by hand ")[2]
    return make_block_finding(rule, "DG-114", text, fix, f"zone {better[0]}")


CAUSE = Cause(
    "DG-114",
    __doc__,
    explain_block=explain_wrong_zone,
    weight=750,
    explains=(Explains((*SHUT, "VC-209"), has_same_blocked_ports),),
    cases=(
        CauseCase(
            "wrong-zone",
            "the policy that opens the ports to the peers applies to a zone that is not theirs",
            fields=LINK,
        ),
    ),
)
