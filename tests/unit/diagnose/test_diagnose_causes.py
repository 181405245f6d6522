"""Diagnosis: recorded faults get their names."""

from __future__ import annotations

import copy
import json
from typing import Any, ClassVar

import pytest
from causes.cases import CHANGES, RECORDED
from causes.changes import (
    Break,
    add_listener,
    add_rule,
    block_links,
    block_reply_links,
    change_route,
    get_node,
    get_survey,
    make_gpus,
    replace_firewalld,
    run_rank,
    set_survey_part,
    set_wrong_master_name,
    use_other_family,
)
from diagnosis_cases import HEALTHY
from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World
from records import diagnose_answers as judged
from records import load_diagnosis as load

from fullmesh.causes.firewall.blocked_links import is_accepted_by_rich_rule
from fullmesh.diagnose import inventory, show
from fullmesh.observed.ladder import BY_CHANCE
from fullmesh.verify import blocked


def test_a_diagnosis_names_known_defects_of_versions() -> None:
    world = copy.deepcopy(load("healthy"))
    for answer in world["nodes"].values():
        answer["node"]["facts"]["versions"]["torch"] = "2.7.0+cpu"
    (found,) = judged(world)["findings"]
    assert (found["code"], found["severity"]) == ("VC-119", "warning")


def test_a_healthy_cluster_has_no_finding() -> None:
    found = judged(copy.deepcopy(HEALTHY))
    assert found["findings"] == []
    assert (found["verdict"], found["exit_code"]) == ("ok", 0)
    assert {"what": "kernel log", "node": EL}.items() <= found["not_looked_at"][0].items()


def move_lookups_to_the_last_call(world: World) -> None:
    """Move the name lookups into the last call, as if they had run during the probe."""
    for name in (EL, UB):
        facts = get_node(world, name)["node"]["facts"]
        looked = {
            key: facts["survey"].pop(key)
            for key in ("reverse", "own_answers", "master_answers")
            if key in facts["survey"]
        }
        get_node(world, name)["started"]["names"] = {
            "names": facts.pop("names"),
            "survey": {**looked, "unknown": [{"what": "own answers", "why": "a test"}]},
        }


@pytest.mark.parametrize(
    "change", [set_wrong_master_name, use_other_family, set_survey_part("own_answers", ["::2"])]
)
def test_names_of_the_last_call_are_judged_too(change: Break) -> None:
    world = copy.deepcopy(HEALTHY)
    change(world)
    at_once = judged(copy.deepcopy(world))
    move_lookups_to_the_last_call(world)
    late = judged(world)
    assert at_once["findings"]
    assert late["findings"] == at_once["findings"]
    assert {"node": UB, "what": "own answers", "why": "a test"} in late["not_looked_at"]


def test_missing_names_are_reported_as_unknown() -> None:
    world = copy.deepcopy(HEALTHY)
    move_lookups_to_the_last_call(world)
    get_node(world)["started"].pop("names")
    found = judged(world)
    assert found["findings"] == []
    missed = {(one["node"], one["what"]) for one in found["not_looked_at"]}
    assert (UB, "names") in missed
    assert (EL, "names") not in missed


def enlarge_cluster(count: int, family: str = "ipv4") -> World:
    """Return the recorded nodes under more names, with links between all of them."""
    world = copy.deepcopy(HEALTHY)
    template, record = get_node(world, UB), get_node(world, EL)["links"]["links"][0]
    names = [f"n{i}" for i in range(count)]
    old = {name: world["plan"]["nodes"][name]["address"] for name in (EL, UB)}
    address = {
        n: f"10.78.5.{i + 50}" if family == "ipv4" else f"fd78::{i + 50:x}"
        for i, n in enumerate(names)
    }
    plan = inventory.guess_plan({n: {"ansible_host": address[n]} for n in names}, names)
    plan |= {"assumed": True, "guessed": True, "faults": []}
    nodes = {}
    for index, name in enumerate(names):
        text = (
            json.dumps(template).replace(old[UB], address[name]).replace(old[EL], address[names[0]])
        )
        one = json.loads(text.replace("02:e4:6c:8b:af:90", f"02:00:00:00:00:{index:02x}"))
        one["node"]["facts"]["names"]["plan"] = {n: [address[n]] for n in names}
        one["node"]["facts"]["names"]["hostname"] = name
        one["node"]["facts"]["survey"].pop("firewalld")
        one["node"]["facts"]["survey"]["environment"] = {"values": {}, "files": {}}
        one["links"]["neighbours"]["entries"] = {}
        one["links"]["links"] = [
            {**record, "node": peer, "address": address[peer], "source": address[name]}
            for peer in names
            if peer != name
        ]
        nodes[name] = one
    return {"plan": plan, "nodes": nodes}


@pytest.mark.parametrize("family", ["ipv4", "ipv6"])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 12])
def test_healthy_clusters_of_any_size_have_no_finding(count: int, family: str) -> None:
    assert judged(enlarge_cluster(count, family))["findings"] == []


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_faults_are_named(name: str) -> None:
    code, where = RECORDED[name]
    found = judged(load(name))
    assert [(f["code"], f["node"]) for f in found["findings"]] == [(code, where)]


def with_policies(state: str) -> World:
    """Return a cluster whose second node has a policy for the peers, in the form of a lab node's survey.

    *state*: healthy, the range missing at runtime (runtime), missing at runtime and in the files
    (both), or a policy for another zone than that of the peers (ingress).
    """
    held = json.dumps(load("policies")[state])
    world = copy.deepcopy(HEALTHY)
    for name, recorded in ((EL, "10.78.1.11"), (UB, "10.78.1.12")):
        held = held.replace(recorded, world["plan"]["nodes"][name]["address"])
    get_survey(world).update(json.loads(held))
    if state != "healthy":
        block_links("rejected")(world)
    return world


@pytest.mark.parametrize(
    ("state", "code", "words", "fix"),
    [
        ("runtime", "DG-214", "runs policy fullmesh-job with other rules", "firewall-cmd --reload"),
        ("both", "VC-202", "table inet firewalld, zone public", "--tags firewall"),
        (
            "ingress",
            "DG-114",
            "Policy fullmesh-job does, but it applies to other zones (internal)",
            "firewall-cmd --permanent --policy=fullmesh-job --add-ingress-zone=public",
        ),
    ],
)
def test_a_policy_that_blocks_peers_is_found(state: str, code: str, words: str, fix: str) -> None:
    [found] = judged(with_policies(state))["findings"]
    assert (found["code"], found["node"], found["peer"]) == (code, UB, EL)
    assert words in found["cause"]
    assert fix in found["fix"]


def test_a_policy_that_equals_its_file_is_no_finding() -> None:
    assert judged(with_policies("healthy"))["findings"] == []


RULE = 'rule family="ipv4" source {} port port="50000-54095" protocol="tcp" {}'


@pytest.mark.parametrize(
    ("rule_", "open_"),
    [
        (RULE.format('ipset="peers"', "accept"), True),
        (RULE.format('ipset="others"', "accept"), False),
        (RULE.format('address="10.0.0.0/24"', "accept"), True),
        (RULE.format('NOT address="10.0.0.0/24"', "accept"), False),
        (RULE.format('ipset="peers"', "drop"), False),
        ('rule family="ipv4" source ipset="peers" accept', True),
        ('rule family="ipv4" source ipset="peers" service name="ssh" accept', False),
        ('rule port port="50000" protocol="tcp" accept', False),
        ('rule port port="50010" protocol="tcp" accept', True),
    ],
)
def test_a_rich_rule_admits_the_matching_source_only(rule_: str, open_: bool) -> None:
    sets = {"peers": ["10.0.0.11", "10.0.0.12"], "others": ["192.0.2.0/24"]}
    assert is_accepted_by_rich_rule([rule_], 50010, "10.0.0.11", sets) is open_


def test_the_zone_is_named_not_the_policy_that_it_calls() -> None:
    [found] = judged(load("zone-reject"))["findings"]
    assert found["cause"].endswith(
        "chain filter_IN_fullmesh of table inet firewalld, zone fullmesh"
    )


def test_a_reject_rule_is_named_even_without_an_answer() -> None:
    """ICMP answers are rate limited, and those to the other direction may have used up the limit (seen in the lab)."""
    world = load("zone-reject")
    hit = [
        link
        for name in world["nodes"]
        for link in get_node(world, name)["links"]["links"]
        if link["verdict"] == "rejected"
    ]
    assert hit
    for link in hit:
        link.update(verdict="dropped", errno="", remark="")
    [found] = judged(world)["findings"]
    assert (found["code"], found["node"]) == RECORDED["zone-reject"]
    assert "no ICMP answer came" in found["cause"]


def test_reverse_path_filter_is_named_if_nothing_arrived() -> None:
    """It also ignores ARP requests, as seen in the lab after the peer's neighbor entry had expired."""
    world = load("rp-filter")
    for name in world["nodes"]:
        get_node(world, name)["started"]["listeners"]["counters"]["TcpExt.IPReversePathFilter"] = 0
    [found] = judged(world)["findings"]
    assert (found["code"], found["node"]) == RECORDED["rp-filter"]
    assert "no packets let in" in found["seen"]


def test_two_faults_on_two_nodes_are_both_named() -> None:
    found = judged(load("two"))
    assert {f["code"] for f in found["findings"]} == {"VC-108", "DG-113"}
    assert {f["node"] for f in found["findings"]} == {EL, UB}


@pytest.mark.parametrize(
    ("one", "other"),
    [("backlog", "shm"), ("between", "world size"), ("second table", "master port")],
)
def test_faults_of_different_kinds_do_not_hide_each_other(one: str, other: str) -> None:
    world = copy.deepcopy(HEALTHY)
    for name in (one, other):
        CHANGES[name][2](world)
    assert {f["code"] for f in judged(world)["findings"]} == {CHANGES[one][0], CHANGES[other][0]}


@pytest.mark.parametrize(
    ("answer", "causes"),
    [
        ({"error": "ENETUNREACH"}, {"VC-106"}),
        ({"error": "EINVAL", "rule": "blackhole 10.78.5.11"}, {"VC-106", "DG-155"}),
    ],
)
def test_without_its_interface_a_node_has_no_route(
    answer: dict[str, str], causes: set[str]
) -> None:
    world = copy.deepcopy(HEALTHY)
    get_node(world)["node"]["facts"]["interface"]["up"] = False
    block_reply_links("no_route", answer["error"])(world)
    change_route(**answer)(world)
    assert {f["code"] for f in judged(world)["findings"]} == causes


ANSWERS = {"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "sport"}}}}


def test_a_source_port_rule_blocks_queries_from_that_port() -> None:
    world = copy.deepcopy(HEALTHY)
    for record in get_node(world)["links"]["links"]:
        if record["port"] >= 52000:
            record.update(verdict="dropped", reached="asked")
    match = {"match": {**ANSWERS["match"], "right": {"range": [52000, 54095]}}}
    replace_firewalld(world)
    add_rule("surprise", match, {"drop": None})(world)
    for name in (EL, UB):
        get_node(world, name)["node"]["tapped"] = False
    [found] = judged(world)["findings"]
    assert (found["code"], found["node"]) == ("DG-101", UB)
    assert found["pairs"] == [[UB, EL], [EL, UB]]
    assert f"It also stops packets of {EL} -> {UB}" in found["cause"]


@pytest.mark.parametrize("hook", ["input", "output"])
def test_a_rule_for_later_packets_is_named_in_both_directions(hook: str) -> None:
    """The other direction looks open, because its first packet passes. It never gets an answer."""
    world = copy.deepcopy(HEALTHY)
    asks = UB if hook == "input" else EL
    for record in get_node(world, asks)["links"]["links"]:
        record.update(verdict="dropped", reached="asked")
    for name in (EL, UB):
        get_node(world, name)["node"]["tapped"] = False
    state = {"op": "in", "left": {"ct": {"key": "state"}}, "right": "established"}
    replace_firewalld(world)
    add_rule("surprise", {"match": state}, {"drop": None}, hook=hook)(world)
    [found] = judged(world)["findings"]
    assert (found["code"], found["node"]) == ("VC-201", UB)
    assert sorted(found["pairs"]) == sorted([[UB, EL], [EL, UB]])


def test_loss_of_small_packets_is_no_mtu_black_hole() -> None:
    """Seen with a rule that passes three packets a second: some connections stall, others never start."""
    world = copy.deepcopy(HEALTHY)
    for number, record in enumerate(get_node(world, EL)["links"]["links"]):
        record["verdict"] = "dropped" if number % 2 else "mtu_black_hole"
    for name in (EL, UB):
        get_node(world, name)["node"]["tapped"] = False
    replace_firewalld(world)
    assert "VC-208" in [one["code"] for one in judged(world)["findings"]]
    add_rule("surprise", {"limit": {"rate": 3, "per": "second", "inv": True}}, {"drop": None})(
        world
    )
    found = judged(world)["findings"]
    assert (found[0]["code"], found[0]["node"]) == ("VC-201", UB)
    assert "VC-208" not in [one["code"] for one in found]


def test_first_packets_that_are_lost_count_by_connections() -> None:
    def lost(count: int) -> list[str]:
        world = copy.deepcopy(HEALTHY)
        for number, record in enumerate(get_node(world, EL)["links"]["links"]):
            record.update(lost=int(number < count), segments=400)
        return [one["code"] for one in judged(world)["findings"]]

    tried = sum(record["node"] == UB for record in get_node(HEALTHY, EL)["links"]["links"])
    assert lost(tried // 5 + 1) == ["DG-138"]
    assert lost(tried // 5 - 1) == []


def test_chance_is_no_proof_of_a_range_or_an_account() -> None:
    """Seen with a rule that drops six of ten SYNs: consecutive tests give different results."""
    world = copy.deepcopy(HEALTHY)
    CHANGES["the account of the probe alone"][2](world)
    assert [one["code"] for one in judged(world)["findings"]] == ["DG-184"]
    for record in get_node(world)["links"]["links"]:
        record["remark"] = f"{BY_CHANCE}, so not counted: 50001"
    codes_now = [one["code"] for one in judged(world)["findings"]]
    assert "DG-184" not in codes_now
    assert codes_now


@pytest.mark.parametrize(
    ("answered", "heard", "place"),
    [
        ([], [], "target"),
        ([1, 2, 3, 4, 5, 6], [], "on_the_way_back"),
        ([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6], "source"),
        ([1, 2, 3, 4], [1, 2, 3], "source"),
        ([1, 2], [1, 2], "target"),  # a rate limit that passes the third packet
    ],
)
def test_a_node_that_blocks_replies_blocks_them_for_all(
    answered: list[int], heard: list[int], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {
        ("b", "asked"): [1, 2, 3, 4, 5, 6],
        ("b", "answered"): answered,
        ("a", "answered"): heard,
    }

    def on_wire(_: object, watcher: str, what: str, _pair: str, ports: list[int]) -> bool:
        return bool(set(ports) & set(seen[watcher, what]))

    class Quiet:
        nodes: ClassVar[dict[str, Any]] = {}

        def address(self, name: str) -> str:
            return name

        def facts(self, _: str) -> dict[str, Any]:
            return {}

    monkeypatch.setattr(blocked, "is_seen_on_wire", on_wire)
    assert blocked.trace_packets(Quiet(), "a", "b", [1, 2, 3, 4, 5, 6]) == place


def test_an_unreachable_node_does_not_hide_a_fault_of_another() -> None:
    world = enlarge_cluster(3)
    world["nodes"]["n2"] = {"node": {"unreachable": True, "msg": "timed out"}}
    world["nodes"]["n1"]["node"]["facts"]["survey"]["shm"] = {"size": 1 << 20, "free": 1 << 20}
    assert {(f["code"], f["node"]) for f in judged(world)["findings"]} == {
        ("DG-201", "n2"),
        ("DG-248", "n1"),
    }


def test_an_unexplained_failure_shows_all_facts() -> None:
    world = copy.deepcopy(HEALTHY)
    block_links()(world)
    for name in (EL, UB):
        get_survey(world, name).pop("nft")
        get_node(world, name)["node"]["tapped"] = False
    (finding,) = judged(world)["findings"]
    assert finding["code"] == "VC-201"
    assert finding["direction"] == "el1 -> ubuntu1"
    assert "50000-54095/tcp" in finding["port"]
    assert "dropped" in finding["seen"]
    assert "could not be watched" in finding["cause"]


def test_a_rule_that_stops_answers_is_the_same_finding() -> None:
    (finding,) = judged(load("range-drop"))["findings"]
    assert sorted(map(tuple, finding["pairs"])) == [(EL, UB), (UB, EL)]
    assert "nft delete rule inet fault c handle" in finding["fix"]


def test_a_job_on_two_nodes_may_hold_its_port() -> None:
    world = copy.deepcopy(HEALTHY)
    add_listener("python3 -m torch.distributed.run train.py")(world)
    for rank, name in enumerate((EL, UB)):
        run_rank(rank, name)(world)
    assert judged(world)["findings"] == []


def test_a_missing_rank_of_a_running_job_is_named() -> None:
    world = copy.deepcopy(HEALTHY)
    run_rank(0, EL)(world)
    (finding,) = judged(world)["findings"]
    assert "rank 1 runs nowhere" in finding["cause"]


def test_link_local_answers_for_the_own_name_are_ignored() -> None:
    world = copy.deepcopy(HEALTHY)
    get_survey(world)["environment"]["values"].pop("GLOO_SOCKET_IFNAME")
    get_node(world)["node"]["facts"]["addresses"]["fe80::1"] = "eth1"
    get_survey(world)["own_answers"] = ["fe80::1", "10.78.5.12"]
    assert judged(world)["findings"] == []


def test_shared_memory_is_for_ranks_with_gpus() -> None:
    world = copy.deepcopy(HEALTHY)
    world["plan"]["nodes"][UB]["local_ranks"] = 8
    set_survey_part("shm", {"size": 64 << 20, "free": 64 << 20})(world)
    assert judged(world)["findings"] == []
    set_survey_part("gpus", make_gpus(8), EL, UB)(world)
    assert [f["code"] for f in judged(world)["findings"]] == ["DG-248"]


def test_mixed_models_of_gpus_are_a_warning() -> None:
    world = copy.deepcopy(HEALTHY)
    other = make_gpus(8)
    for gpu in other["cards"]:
        gpu["name"] = "A100"
    set_survey_part("gpus", make_gpus(8), EL)(world)
    set_survey_part("gpus", other)(world)
    found = judged(world)
    assert [(f["code"], f["severity"]) for f in found["findings"]] == [("DG-149", "warning")]
    assert found["exit_code"] == 0


def test_reserved_ports_are_not_assigned() -> None:
    """Found by seed 363 of the surprises: on nodes without a plan, no finding explained the missing ports."""
    world = copy.deepcopy(HEALTHY)
    world["plan"]["guessed"] = True
    get_survey(world)["sysctls"]["net.ipv4.ip_local_reserved_ports"] = "1024-65535"
    (found,) = [f for f in judged(world)["findings"] if f["code"] == "DG-109"]
    assert f"{UB} has 0 free ports" in found["cause"]
    assert "1024-65535" in found["seen"]
    assert "grep -r reserved_ports" in found["check"]


def test_the_text_has_everything_that_the_finding_has() -> None:
    world = copy.deepcopy(HEALTHY)
    CHANGES["second table"][2](world)
    text = "\n".join(show.format_diagnosis(judged(world)))
    for word in (
        "1 CAUSE",
        "[DG-113]",
        "el1 -> ubuntu1",
        "nft delete rule",
        "follows:",
        "Not checked",
        "./fullmesh explain DG-113",
    ):
        assert word in text


def test_lines_of_a_diagnosis_fit_the_terminal_except_commands() -> None:
    world = copy.deepcopy(HEALTHY)
    CHANGES["second table"][2](world)
    lines = "\n".join(show.format_diagnosis(judged(world), 70)).splitlines()
    wide = [line for line in lines if len(line) > 70]
    assert [line.split()[0] for line in wide] == ["check:"]
