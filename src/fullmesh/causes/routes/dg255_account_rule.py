"""A rule of a node blocks or misroutes the packets of some accounts

A rule can select a routing table by the account (ip rule, uidrange), as VPN clients do. Then the
probe connects, but a job of that account does not.

**Prove:** ip rule | grep uidrange && sudo -u ACCOUNT ip route get PEER

**Fix:** Remove the rule, or exempt the peers with a rule that has a smaller number and looks up
table main.

**Source:** measured: ip rule uidrange prohibit
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from fullmesh.causes.engine import LINK, Cause, CauseCase
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.firewall.packet_filter import (
    PacketVerdict,
    find_possible_stops,
    make_tcp_packet,
)
from fullmesh.causes.routes.decisions import (
    ACCOUNTS,
    ANYBODY,
    find_address_owner,
    find_broken_links,
    has_account_rule,
    list_odd_decisions,
)
from fullmesh.observed.ladder import PacketRoute
from fullmesh.result.findings import WARNING, Finding, join_names


def rule_account_routes(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report routing rules that refuse or misroute the packets of some accounts, but not the probe's."""
    for name in evidence.nodes:
        ordinary = {
            (w["peer"], w["direction"])
            for w in list_odd_decisions(evidence, name)
            if w["uid"] == ANYBODY
        }
        groups: dict[tuple[int, str], list[PacketRoute]] = {}
        for way in list_odd_decisions(evidence, name):
            if way["uid"] != ANYBODY and (way["peer"], way["direction"]) not in ordinary:
                groups.setdefault((way["uid"], way["rule"] or way["dev"]), []).append(way)
        for (uid, what), held in groups.items():
            peers = sorted({n for way in held if (n := find_address_owner(evidence, way["peer"]))})
            if not peers:
                continue
            verb = "refuses" if held[0]["error"] else f"sends over {what}"
            yield Finding(
                "DG-255",
                "L2",
                f"the kernel of {name} {verb} packets of account {uid} and neighbouring ids to {join_names(peers)}",
                node=name,
                peer=join_names(peers),
                port="all",
                direction=f"{name} -> {join_names(peers)}",
                seen=f"uid {uid}: {held[0]['error'] or 'dev ' + held[0]['dev']}, {what}",
                expected="the same route for all accounts",
                check=f"on {name}: ip rule | grep uidrange",
                fix=f"on {name}: remove that rule, or exempt the peers from it",
                severity=WARNING,
            )


def has_any_account_rule(evidence: ClusterEvidence, name: str) -> bool:
    """Return whether any rule of a node names an account. Searches the text of the rules only."""
    text = json.dumps(evidence.survey(name).get("nft", {}).get("rules", []))
    return any(f'"{key}"' in text for key in ACCOUNTS)


def rule_filtered_accounts(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report a firewall rule that blocks some accounts only, so that the probe's account connects."""
    for name in evidence.nodes:
        groups: dict[tuple[str, str], tuple[PacketVerdict, list[str]]] = {}
        if not has_any_account_rule(evidence, name):
            continue
        for peer in evidence.peers(name):
            ports = [r["port"] for r in evidence.records(name) if r["node"] == peer]
            if not ports or find_broken_links(evidence, name, peer).pairs:
                continue
            interface = evidence.get_cluster_interface(name)
            packet = make_tcp_packet(
                evidence.address(name), evidence.address(peer), ports[0], interface, outgoing=True
            )
            for stop in find_possible_stops(evidence.ruleset(name), packet):
                if has_account_rule(evidence, name, stop.table):
                    groups.setdefault((stop.table, stop.chain), (stop, []))[1].append(peer)
        for stop, peers in groups.values():
            yield Finding(
                "DG-255",
                "L2",
                f"a rule in chain {stop.chain} of table {stop.table} on {name} blocks packets of some accounts to"
                f" {join_names(peers)}, but not those of the probe",
                node=name,
                peer=join_names(peers),
                port="all",
                direction=f"{name} -> {join_names(peers)}",
                seen=f"table {stop.table} chain {stop.chain}: {stop.text} (the table checks skuid or skgid)",
                expected="the same for all accounts",
                check=f"on {name}: nft list table {stop.table}",
                fix=f"on {name}: remove that rule, or let it accept the peers",
                severity=WARNING,
            )


def rule_any_account_rule(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Run both rules of this cause."""
    yield from rule_account_routes(evidence)
    yield from rule_filtered_accounts(evidence)


CAUSE = Cause(
    "DG-255",
    __doc__,
    find=rule_any_account_rule,
    severity=WARNING,
    weight=290,
    cases=(
        CauseCase(
            "refused-account", "ip rule add uidrange 1000-1999 to PEER prohibit", fields=LINK
        ),
    ),
)
