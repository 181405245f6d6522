"""Rules next to firewalld, as nftables 1.0.6 and iptables 1.8.9 print them: find those that would drop peers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.fullmesh.firewall import blocking, foreign
from ansible.module_utils.fullmesh.netfilter import ruleset

DATA = Path(__file__).parent / "data/firewall"
OWN = {"4": "10.78.2.12", "6": "fd00::12"}


def read_recording(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


def build_arguments(*ports: str, peers: str = "10.78.2.11 10.78.2.13 fd00::11") -> dict[str, Any]:
    by_family: dict[str, list[str]] = {"4": [], "6": []}
    for address in peers.split():
        by_family["6" if ":" in address else "4"].append(address)
    return {"peers": by_family, "ports": list(ports), "own": OWN, "interface": "eth1"}


def rules() -> dict[str, Any]:
    found: dict[str, Any] = ruleset.parse_nft_json(read_recording("nft-1.0.6-beside.json"))
    ruleset.fill_xt_rules(found, "ip", read_recording("iptables-nft-1.8.9-beside.txt"))
    return found


def list_named(found: list[dict[str, Any]], sure: bool = True) -> set[tuple[str, str, str]]:
    return {(one["chain"], one["port"], one["sender"]) for one in found if one["sure"] is sure}


def test_a_drop_of_some_ports_for_one_peer_is_found() -> None:
    """Of 4096 ports and two peers one stretch is dropped for one of them; the rest passes."""
    found = blocking.find_peer_blockers(
        rules(), build_arguments("50000-52000/tcp", peers="10.78.2.11 10.78.2.13")
    )
    assert list_named([one for one in found if one["hook"] == "input"]) == {
        ("other", "50100/tcp", "10.78.2.13")
    }


def test_every_rule_is_named_once_with_its_place() -> None:
    found = blocking.find_peer_blockers(
        rules(), build_arguments("29400/tcp", peers="fd00::11 fd00::13")
    )
    places = {(one["hook"], one["chain"], one["word"]) for one in found if one["hook"] != "forward"}
    assert places == {("input", "first", "drop"), ("input", "second", "drop")}


def test_a_redirect_before_the_input_hook_is_found() -> None:
    found = blocking.find_peer_blockers(rules(), build_arguments("29500/tcp", peers="10.78.2.11"))
    seen = [(one["chain"], one["hook"], one["word"]) for one in found if one["hook"] != "forward"]
    assert seen == [("pre", "prerouting", "divert")]


def test_a_verdict_map_is_followed() -> None:
    one = list_named(
        blocking.find_peer_blockers(rules(), build_arguments("54000-54095/tcp", peers="10.78.2.99"))
    )
    assert ("other2", "54000/tcp", "10.78.2.99") in one
    other = list_named(
        blocking.find_peer_blockers(rules(), build_arguments("54000-54095/tcp", peers="10.78.2.11"))
    )
    assert not {place for place in other if place[0] == "other2"}


def test_iptables_multiport_is_understood() -> None:
    found = blocking.find_peer_blockers(
        rules(), build_arguments("53000-53200/tcp", peers="10.78.2.12")
    )
    one = next(one for one in found if one["table"] == "filter" and one["chain"] == "INPUT")
    assert one["port"] == "53000/tcp"
    assert one["line"].startswith("-A INPUT -s 10.78.2.12/32")
    assert one["handle"] is not None


def test_without_iptables_save_its_rules_are_not_sure() -> None:
    bare = ruleset.parse_nft_json(read_recording("nft-1.0.6-beside.json"))
    found = blocking.find_peer_blockers(
        bare, build_arguments("53000-53200/tcp", peers="10.78.2.12")
    )
    told = [one["sure"] for one in found if one["table"] == "filter" and one["chain"] == "INPUT"]
    assert told == [False]


def test_rates_are_uncertain_and_marks_do_not_matter() -> None:
    found = blocking.find_peer_blockers(rules(), build_arguments("4791/udp", peers="10.78.2.11"))
    assert list_named(found, sure=False) == {("other", "4791/udp", "10.78.2.11")}
    assert not {one["chain"] for one in found if one["sure"] and one["hook"] == "input"}


def test_forwarded_traffic_is_distinguished() -> None:
    found = blocking.find_peer_blockers(rules(), build_arguments("29500/tcp", peers="10.78.2.11"))
    assert [one["chain"] for one in found if one["hook"] == "forward"] == ["thru"]


@pytest.mark.parametrize("port", ["x/tcp", "54095-50000/tcp", "/tcp"])
def test_ports_that_cannot_be_read_are_no_free_passage(port: str) -> None:
    with pytest.raises(ValueError, match="is not a range of ports"):
        blocking.find_peer_blockers(rules(), build_arguments(port, peers="10.78.2.11"))


def test_docker_is_no_fault() -> None:
    found = blocking.find_peer_blockers(rules(), build_arguments("29500/tcp", "50000-54095/tcp"))
    assert not {one["chain"] for one in found} & {"DOCKER", "FORWARD", "PREROUTING"}


# --- single rules ---------------------------------------------------------------------------------


def chain(*expressions: list[dict[str, Any]], policy: str = "accept") -> dict[str, Any]:
    listed = [{"expr": parts, "handle": 9, "line": "x"} for parts in expressions]
    base = {"hook": "input", "prio": 0, "policy": policy, "dev": None, "rules": listed}
    base["type"] = "filter"
    return {"chains": {("inet", "t", "c"): base}, "sets": {}}


def match_field(field: str, right: Any, op: str = "==", protocol: str = "tcp") -> dict[str, Any]:
    left = {"payload": {"protocol": protocol, "field": field}}
    return {"match": {"op": op, "left": left, "right": right}}


DROP: dict[str, Any] = {"drop": None}


@pytest.mark.parametrize(
    ("match", "drops"),
    [
        (match_field("dport", 29500), True),
        (match_field("dport", 29501), False),
        (match_field("dport", 29500, "!="), False),
        (match_field("dport", {"range": [29000, 30000]}), True),
        (match_field("dport", {"set": [22, {"range": [29000, 30000]}]}), True),
        (match_field("dport", 1024, ">"), True),
        (match_field("dport", 29500, protocol="udp"), False),
        (match_field("dport", 29500, protocol="th"), True),
        (match_field("saddr", "10.78.2.11", protocol="ip"), True),
        (match_field("saddr", {"prefix": {"addr": "10.78.0.0", "len": 16}}, protocol="ip"), True),
        (match_field("saddr", {"prefix": {"addr": "10.78.0.0", "len": 16}}, "!=", "ip"), False),
        (match_field("saddr", "fd00::11", protocol="ip6"), False),
        (match_field("daddr", "10.78.2.12", protocol="ip"), True),
        (match_field("daddr", "224.0.0.251", protocol="ip"), False),
        (match_field("protocol", "tcp", protocol="ip"), True),
        ({"match": {"op": "==", "left": {"meta": {"key": "l4proto"}}, "right": 6}}, True),
        ({"match": {"op": "==", "left": {"meta": {"key": "l4proto"}}, "right": 17}}, False),
        ({"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "eth*"}}, True),
        ({"match": {"op": "!=", "left": {"meta": {"key": "iifname"}}, "right": "eth1"}}, False),
        ({"match": {"op": "==", "left": {"meta": {"key": "nfproto"}}, "right": "ipv6"}}, False),
        ({"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": "new"}}, True),
        ({"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": ["invalid"]}}, False),
        ({"match": {"op": "==", "left": {"meta": {"key": "mark"}}, "right": 1}}, False),
        ({"limit": {"rate": 3, "per": "second"}}, False),
        ({"xt": None}, False),
        ({"counter": {"packets": 0, "bytes": 0}}, True),
    ],
)
def test_one_condition(match: dict[str, Any], drops: bool) -> None:
    found = blocking.find_peer_blockers(
        chain([match, DROP]), build_arguments("29500/tcp", peers="10.78.2.11")
    )
    assert bool(list_named(found)) is drops


@pytest.mark.parametrize(
    ("rules_", "policy", "drops"),
    [
        ([[match_field("dport", 29500), {"accept": None}], [DROP]], "accept", False),
        ([[match_field("dport", 22), {"accept": None}]], "drop", True),
        ([[{"xt": None}, {"accept": None}]], "drop", False),  # unknown match
        ([[{"return": None}], [DROP]], "accept", False),
        ([[{"jump": {"target": "c"}}], [DROP]], "accept", True),  # a loop is no hang
        ([[{"reject": {"type": "tcp reset"}}]], "accept", True),
        ([[{"redirect": {"port": 1}}]], "accept", True),
        ([[{"log": None}], [{"counter": None}]], "accept", False),
    ],
)
def test_one_chain(rules_: list[list[dict[str, Any]]], policy: str, drops: bool) -> None:
    found = blocking.find_peer_blockers(
        chain(*rules_, policy=policy), build_arguments("29500/tcp", peers="10.78.2.11")
    )
    assert bool(list_named(found)) is drops


def test_an_ingress_chain_of_another_card_does_not_matter() -> None:
    found = {"chains": {}, "sets": {}}  # type: dict[str, Any]
    base = dict(chain([DROP])["chains"]["inet", "t", "c"], hook="ingress")
    for device in ("eth0", ["eth1", "eth2"]):
        found["chains"]["netdev", "t", str(device)] = dict(base, dev=device)
    assert {
        one[0] for one in list_named(blocking.find_peer_blockers(found, build_arguments("1/tcp")))
    } == {"['eth1', 'eth2']"}


def test_many_peers_and_a_large_set_need_few_packets() -> None:
    peers = " ".join(f"10.1.{n // 250}.{n % 250 + 1}" for n in range(1000))
    blocked = [f"192.168.{n // 250}.{n % 250}" for n in range(10000)]
    found = chain([match_field("saddr", "@blocked", protocol="ip"), DROP])
    found["sets"]["inet", "t", "blocked"] = ruleset.MatchValues(blocked)
    want = build_arguments("50000-54095/tcp", peers=peers)
    cuts = blocking.collect_bounds(found, list(found["chains"]))
    assert len(blocking.build_sample_packets(want, "4", cuts)) == 1
    assert blocking.find_peer_blockers(found, want) == []


def test_a_rule_that_logs_is_read_like_any_other() -> None:
    """``nft -j`` calls the text of a log statement "prefix", as it does the length of a network."""
    log = {"log": {"prefix": "peers: ", "level": "info"}}
    drop = [match_field("saddr", "10.1.0.1", protocol="ip"), DROP]
    want = build_arguments("50000-54095/tcp", peers="10.1.0.1")
    told = list_named(blocking.find_peer_blockers(chain([log, *drop]), want))
    assert told
    assert told == list_named(blocking.find_peer_blockers(chain(drop), want))


# --- iptables' own words --------------------------------------------------------------------------

SAVED = """\
*filter
:INPUT DROP [0:0]
:GUARD - [0:0]
-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT
-A INPUT -s 10.78.0.0/16 ! -i eth0 -p tcp -m tcp --dport 50000:54095 -m comment --comment "a -j b" -j GUARD
-A INPUT -p tcp -m tcp --dport 29500 -m state --state NEW -j ACCEPT
-A GUARD -p tcp -m tcp --tcp-flags FIN,SYN,RST,ACK SYN -j LOG --log-prefix "x "
-A GUARD -m set --match-set good src -j ACCEPT
-A GUARD -j REJECT --reject-with icmp-port-unreachable
COMMIT
"""


def test_the_old_tables_are_read_like_the_new_ones() -> None:
    found = ruleset.parse_iptables_save(SAVED, "ip")
    told = blocking.find_peer_blockers(
        found, build_arguments("29400/tcp", "29500/tcp", peers="10.78.2.11")
    )
    assert [(one["line"], one["port"]) for one in told] == [("policy drop", "29400/tcp")]
    for table in ("good", "other"):
        found["sets"]["ip", "filter", table] = ruleset.MatchValues(["10.78.2.11"])
    one = list_named(
        blocking.find_peer_blockers(
            found, build_arguments("50000-54095/tcp", peers="10.78.2.11 10.78.2.13")
        )
    )
    assert one == {("GUARD", "50000/tcp", "10.78.2.13")}


# --- a node ---------------------------------------------------------------------------------------

ADDRESSES = (
    "2: eth1    inet 10.78.2.12/24 brd 10.78.2.255 scope global eth1\\       valid_lft forever\n"
)
WANT = {
    "peers": ["10.78.2.11", "10.78.2.12", "10.78.2.13"],
    "ports": ["29500/tcp", "50000-54095/tcp"],
}


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "net").mkdir()
    legacy = foreign.read_legacy_iptables
    monkeypatch.setattr(foreign, "read_legacy_iptables", lambda run: legacy(run, str(tmp_path)))
    monkeypatch.setattr(foreign.firewalld, "query_libnftables", lambda command: "")
    return tmp_path


def node(**answers: str) -> Callable[[list[str]], tuple[int, str]]:
    told = {"nft -j list ruleset": read_recording("nft-1.0.6-beside.json")}
    told["nft -a list ruleset"] = read_recording("nft-1.0.6-beside.txt")
    told["iptables-nft-save"] = read_recording("iptables-nft-1.8.9-beside.txt")
    told["ip -o addr show"] = ADDRESSES
    told |= answers

    def run(argv: list[str]) -> tuple[int, str]:
        line = " ".join(argv)
        return (0, told[line]) if line in told else (127, "not found")

    return run


def test_the_fault_names_table_chain_handle_line_and_the_command(proc: Path) -> None:
    faults, notes = foreign.check_foreign_rules(node(), WANT, False)
    text = next(one for one in faults if "chain other " in one)
    assert text.startswith("[PF-124] table inet mine, chain other (hook input), handle ")
    assert "drops 50100/tcp from the peer 10.78.2.13" in text
    assert "`ip saddr @bad tcp dport 50100-50110 drop`" in text
    assert "`nft delete rule inet mine other handle " in text
    assert any("leads elsewhere" in one for one in faults)
    assert {note["code"] for note in notes} == {"PF-205"}


def test_an_uncertain_verdict_is_a_note(proc: Path) -> None:
    want = dict(WANT, ports=["4791/udp"])
    faults, notes = foreign.check_foreign_rules(node(), want, False)
    assert faults == []
    assert "PF-206" in {note["code"] for note in notes}


def test_the_nodes_own_address_is_no_sender(proc: Path) -> None:
    faults, _ = foreign.check_foreign_rules(node(), dict(WANT, ports=["53000-53200/tcp"]), False)
    assert not any("10.78.2.12" in one for one in faults)


TWO_LINKS = """\
2: eth1    inet 10.1.0.12/16 brd 10.1.255.255 scope global eth1
3: eth2    inet 10.2.0.12/16 brd 10.2.255.255 scope global eth2
"""
OF_TWO = {
    "peers": ["10.1.0.11", "10.1.0.12", "10.2.0.11", "10.2.0.12"],
    "ports": ["29500/tcp"],
}


def a_table(*expressions: dict[str, Any]) -> str:
    """One rule of the user's in the input hook, as ``nft -j`` prints it."""
    place = {"family": "inet", "table": "mine"}
    base = {"name": "in", "hook": "input", "prio": 0, "policy": "accept"}
    line = {"chain": "in", "handle": 4, "expr": list(expressions)}
    return json.dumps({"nftables": [{"chain": place | base}, {"rule": place | line}]})


def by_card(name: str) -> dict[str, Any]:
    return {"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": name}}


FROM_SECOND = match_field("saddr", {"prefix": {"addr": "10.2.0.0", "len": 16}}, protocol="ip")


@pytest.mark.parametrize(
    ("rule", "sender"),
    [
        ([by_card("eth1"), DROP], "10.1.0.11"),
        ([by_card("eth2"), DROP], "10.2.0.11"),
        ([by_card("eth3"), DROP], ""),
        ([by_card("eth1"), FROM_SECOND, DROP], ""),  # against spoofing, and right
        ([by_card("eth2"), FROM_SECOND, DROP], "10.2.0.11"),
        ([match_field("saddr", "10.2.0.12", protocol="ip"), DROP], ""),  # our own
        ([match_field("daddr", "10.2.0.12", protocol="ip"), DROP], "10.2.0.11"),
        ([DROP], "10.1.0.11"),
    ],
)
def test_each_link_is_checked_for_its_own_peers(
    proc: Path, rule: list[dict[str, Any]], sender: str
) -> None:
    told = {"ip -o addr show": TWO_LINKS, "nft -j list ruleset": a_table(*rule)}
    faults, notes = foreign.check_foreign_rules(node(**told), OF_TWO, False)
    assert len(faults) == bool(sender)
    assert all(f"from the peer {sender}:" in one for one in faults)
    assert notes == []


def test_a_peer_outside_our_networks_may_use_any_link(proc: Path) -> None:
    rule = a_table(by_card("eth1"), match_field("saddr", "10.9.0.1", protocol="ip"), DROP)
    told = {"ip -o addr show": TWO_LINKS, "nft -j list ruleset": rule}
    want = OF_TWO | {"peers": [*OF_TWO["peers"], "10.9.0.1"]}
    faults, notes = foreign.check_foreign_rules(node(**told), want, False)
    assert (faults, [note["code"] for note in notes]) == ([], ["PF-206"])
    told["ip -o addr show"] = TWO_LINKS.splitlines()[0]
    faults, _ = foreign.check_foreign_rules(node(**told), want, False)
    assert "from the peer 10.9.0.1:" in faults[0]


def test_a_node_without_address_is_checked_for_all(proc: Path) -> None:
    told = {"ip -o addr show": "", "nft -j list ruleset": a_table(DROP)}
    assert len(foreign.check_foreign_rules(node(**told), OF_TWO, False)[0]) == 1


def test_the_old_tables_count_too(proc: Path) -> None:
    (proc / "net/ip_tables_names").write_text("filter\n", encoding="utf-8")
    bare = {"nft -j list ruleset": json.dumps({"nftables": []})}
    want = dict(WANT, ports=["29400/tcp"])
    saved = SAVED.replace(":INPUT DROP", ":INPUT ACCEPT")
    rule = "-A INPUT -p tcp -m tcp --dport 29400 -j DROP"
    saved = saved.replace("COMMIT", rule + "\nCOMMIT")
    faults, _ = foreign.check_foreign_rules(
        node(**bare, **{"iptables-legacy-save": saved}), want, False
    )
    assert len(faults) == 1
    assert "in iptables' old tables drops 29400/tcp" in faults[0]
    assert "`iptables-legacy -t filter -D INPUT -p tcp -m tcp --dport 29400 -j DROP`" in faults[0]
    faults, notes = foreign.check_foreign_rules(node(**bare), want, False)
    assert [note["code"] for note in notes] == ["PF-207"]
    assert faults == []


def test_a_policy_has_a_next_step_of_its_own(proc: Path) -> None:
    want = dict(WANT, ports=["29400/tcp"])
    faults, _ = foreign.check_foreign_rules(node(), want, False)
    assert "policy drop" in faults[0]
    assert "Let the peers pass in that chain, or set its policy to accept" in faults[0]


def test_ufw_is_ignored_if_it_will_be_removed(proc: Path) -> None:
    text = "*filter\n:INPUT DROP [0:0]\n:ufw-before-input - [0:0]\n-A INPUT -j ufw-before-input\nCOMMIT\n"
    found = ruleset.parse_iptables_save(text, "ip")
    assert list_named(blocking.find_peer_blockers(found, build_arguments("29500/tcp")))
    foreign.remove_ufw_rules(found)
    assert not list_named(blocking.find_peer_blockers(found, build_arguments("29500/tcp")))
