"""Diagnosis: packets through a node's rules."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.module_utils.fullmesh.firewall import blocking
from diagnosis_cases import as_read, match, packet, sent

from fullmesh.causes.firewall import packet_filter


def ruleset(
    *rules_: list[dict[str, Any]], policy: str = "accept", sets: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    place = {"family": "inet", "table": "t"}
    chain = {**place, "name": "in", "type": "filter", "hook": "input", "prio": 0, "policy": policy}
    return {
        "chains": [chain],
        "rules": [
            {**place, "chain": "in", "handle": i, "expr": list(r)} for i, r in enumerate(rules_, 1)
        ],
        "sets": sets or [],
    }


SADDR = {"payload": {"protocol": "ip", "field": "saddr"}}


DPORT = {"payload": {"protocol": "tcp", "field": "dport"}}


DROP, ACCEPT = {"drop": None}, {"accept": None}


@pytest.mark.parametrize(
    ("held", "verdict"),
    [
        (ruleset([DROP]), "drop"),
        (ruleset(policy="drop"), "drop"),
        (ruleset([ACCEPT], [DROP]), "accept"),
        (ruleset([match(DPORT, 50001), DROP]), "drop"),
        (ruleset([match(DPORT, 50002), DROP]), "accept"),
        (ruleset([match(DPORT, 50001, "!="), DROP]), "accept"),
        (ruleset([match(DPORT, {"range": [50000, 50010]}), DROP]), "drop"),
        (ruleset([match(DPORT, {"set": [1, {"range": [50000, 50010]}]}), DROP]), "drop"),
        (ruleset([match(DPORT, 50000, ">"), DROP]), "drop"),
        (ruleset([match(SADDR, {"prefix": {"addr": "10.0.0.0", "len": 24}}), DROP]), "drop"),
        (ruleset([match(SADDR, {"prefix": {"addr": "10.9.0.0", "len": 24}}), DROP]), "accept"),
        (ruleset([match(SADDR, "10.0.0.1"), {"reject": {"type": "tcp reset"}}]), "reject"),
        (ruleset([match({"meta": {"key": "iifname"}}, "eth*"), DROP]), "drop"),
        (ruleset([match({"meta": {"key": "iifname"}}, "eth0"), DROP]), "accept"),
        (
            ruleset([match({"ct": {"key": "state"}}, ["established", "related"], "in"), DROP]),
            "accept",
        ),
        (ruleset([match({"ct": {"key": "state"}}, "new", "in"), DROP]), "drop"),
        (
            ruleset([match({"payload": {"protocol": "udp", "field": "dport"}}, 50001), DROP]),
            "accept",
        ),
        (ruleset([match({"meta": {"key": "mark"}}, 7), DROP]), "accept"),
        (ruleset([{"limit": {"rate": 1}}, DROP]), "accept"),
        (ruleset([match(SADDR, "@peers"), DROP]), "accept"),
        (
            ruleset(
                [match(SADDR, "@peers"), DROP],
                sets=[{"family": "inet", "table": "t", "name": "peers", "elem": ["10.0.0.1"]}],
            ),
            "drop",
        ),
        (ruleset([{"vmap": {"key": DPORT, "data": {"set": [[50001, {"drop": None}]]}}}]), "drop"),
    ],
)
def test_a_packet_meets_the_rule(held: dict[str, Any], verdict: str) -> None:
    assert sent(held).verdict == verdict


def test_chains_jump_and_come_back() -> None:
    held = ruleset([{"jump": {"target": "deep"}}], [DROP])
    held["rules"].append(
        {"family": "inet", "table": "t", "chain": "deep", "handle": 9, "expr": [{"return": None}]}
    )
    assert sent(held).handle == 2
    held["rules"][-1]["expr"] = [{"jump": {"target": "deep"}}]  # a circle that nft would refuse
    assert sent(held).verdict in ("drop", "accept")


def test_a_doubtful_rule_is_remembered() -> None:
    held = ruleset([match({"numgen": {"mode": "random", "mod": 100}}, 20, "<"), DROP])
    assert sent(held).doubts


def hooked(hook: str, *rules_: list[dict[str, Any]], kind: str = "filter") -> dict[str, Any]:
    held = ruleset(*rules_)
    held["chains"][0].update(hook=hook, type=kind)
    return held


STATE = {"ct": {"key": "state"}}


LOCAL = match({"fib": {"result": "type", "flags": ["daddr"]}}, "local")


SPORT = {"payload": {"protocol": "tcp", "field": "sport"}}


REDIRECT = {"redirect": {"port": 1}}


@pytest.mark.parametrize(
    ("held", "first", "back"),
    [
        (hooked("output", [match(SPORT, 50001), DROP]), "accept", "drop"),
        (hooked("input", [match(SPORT, 50001), DROP]), "accept", "accept"),
        (hooked("output", [match(DPORT, 40000), DROP]), "accept", "drop"),
        (hooked("output", [match(STATE, ["established"], "in"), DROP]), "accept", "drop"),
        (hooked("postrouting", [DROP]), "accept", "drop"),
        (hooked("prerouting", [DROP]), "drop", "accept"),
        (hooked("forward", [DROP]), "accept", "accept"),
        (
            hooked("output", [match({"meta": {"key": "oifname"}}, "eth1"), DROP]),
            "accept",
            "drop",
        ),
        # nat chains see the first packet of a connection only, nft(8)
        (hooked("prerouting", [match(DPORT, 50001), REDIRECT], kind="nat"), "divert", "accept"),
        (hooked("output", [DROP], kind="nat"), "accept", "accept"),
        (hooked("prerouting", [LOCAL, DROP]), "drop", "accept"),
        (hooked("output", [LOCAL, DROP]), "accept", "accept"),
    ],
)
def test_an_answer_meets_rules_of_its_own(held: dict[str, Any], first: str, back: str) -> None:
    assert sent(held).verdict == first
    assert sent(held, packet_filter.make_reply_packet(packet(), 40000)).verdict == back


@pytest.mark.parametrize("perhaps", [[{"limit": {"rate": 1}}, ACCEPT], [{"queue": {"num": 0}}]])
def test_a_rule_that_passes_some_is_named_if_peers_are_blocked(
    perhaps: list[dict[str, Any]],
) -> None:
    """Only a blocked link has met the drop. Before an attempt, nothing is known."""
    held = ruleset(perhaps, [match(DPORT, 50001), DROP])
    assert sent(held).handle == 2
    want = {"peers": {"4": ["10.0.0.1"]}, "own": {"4": "10.0.0.2"}, "interface": "eth1"}
    found = blocking.find_peer_blockers(as_read(held), {**want, "ports": ["50001/tcp"]})
    assert [(one["handle"], one["sure"]) for one in found] == [(2, False)]


def test_docker_redirects_published_ports_only() -> None:
    """Its chain in the output hook begins with ``fib daddr type local``; a peer's address is not."""
    docker = hooked(
        "output", [LOCAL, match(DPORT, 50001), {"dnat": {"addr": "172.17.0.2"}}], kind="nat"
    )
    assert sent(docker, packet(outgoing=True)).verdict == "accept"


def test_a_rule_behind_thirty_thousand_others_is_found() -> None:
    held = ruleset(*([match(SADDR, f"192.0.2.{n % 250}"), DROP] for n in range(30000)), [DROP])
    assert sent(held).handle == 30001


def test_chains_that_loop_end_without_a_verdict() -> None:
    jumps: list[dict[str, Any]] = [{"jump": {"target": "in"}}]
    held = ruleset(*([jumps] * 40), policy="drop")
    want = {"peers": {"4": ["10.0.0.1"]}, "own": {}, "interface": "eth1", "ports": ["50001/tcp"]}
    assert [one["sure"] for one in blocking.find_peer_blockers(as_read(held), want)] == [False]


def test_the_zone_is_the_last_certain_chain_of_the_packet() -> None:
    held = ruleset(
        [match(DPORT, 1), {"jump": {"target": "filter_IN_other"}}],
        [{"jump": {"target": "filter_IN_policy_mine"}}],
        [{"goto": {"target": "filter_IN_public"}}],
    )
    for number, name in enumerate(("other", "policy_mine", "public", "public_allow"), 10):
        place = {"family": "inet", "table": "t"}
        chain = f"filter_IN_{name}"
        held["chains"].append({**place, "name": chain})
        deeper = [{"jump": {"target": f"{chain}_allow"}}] if name == "public" else [{"log": None}]
        held["rules"].append({**place, "chain": chain, "handle": number, "expr": deeper})
    assert sent(held).zone == "public"


def test_an_accept_in_one_table_does_not_save_from_another() -> None:
    held = ruleset([ACCEPT])
    other = {
        "family": "inet",
        "table": "late",
        "name": "c",
        "type": "filter",
        "hook": "input",
        "prio": 10,
    }
    held["chains"].append({**other, "policy": "accept"})
    held["rules"].append(
        {"family": "inet", "table": "late", "chain": "c", "handle": 3, "expr": [DROP]}
    )
    stop = sent(held)
    assert (stop.verdict, stop.table, stop.handle) == ("drop", "inet late", 3)
    assert packet_filter.is_accepted_by_table(as_read(held), packet(), "inet t")
    assert not packet_filter.is_accepted_by_table(as_read(held), packet(), "inet late")
