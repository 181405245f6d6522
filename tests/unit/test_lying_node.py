"""Let a node lie: no text that it reports becomes a program, a path or an address on the controller."""

from __future__ import annotations

import base64
import contextlib
import copy
import json
import math
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import hang_records
import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible.inventory.manager import InventoryManager
from ansible.module_utils.fullmesh.facts import node as node_look
from ansible.module_utils.fullmesh.network import ways as network_ways
from ansible.parsing.dataloader import DataLoader
from hypothesis import given
from hypothesis import strategies as st
from record_files import RECORDED, load_record, name_record, read_record
from torch_samples import make_node, wheels

from fullmesh import contract, transaction
from fullmesh.ask import answers, channel, talk
from fullmesh.diagnose import shape
from fullmesh.faults import InvalidInputError
from fullmesh.filters import bundle as bundle_filters
from fullmesh.filters import cluster_plan, node_ssh, torch_runtime
from fullmesh.filters import static_ip as static_ip_filters
from fullmesh.filters.observe import verify_cluster
from fullmesh.foreign_text import ForeignTextError, parse_foreign_json
from fullmesh.hang import ask as hang_ask
from fullmesh.init import look, machines, propose, render
from fullmesh.init.propose import MachineAnswer
from fullmesh.model import addresses, plan
from fullmesh.model.types import ClusterPlan
from fullmesh.observed import ladder, ranks
from fullmesh.observed.first_look import Ways
from fullmesh.observed.hang import NodeHang, Rank
from fullmesh.observed.node import NodeFacts
from fullmesh.observed.torch import VenvSeen, WheelhouseResult
from fullmesh.roles import preflight
from fullmesh.verbs import init as init_cli

TOLD = {name: read_record(RECORDED / f"first_look/{name}.json") for name in ("el1", "ubuntu1")}
BOTH = machines.parse_machines(["el1,ubuntu1"])
PIPE = "{{lookup('pipe','id>FILE')}}"
SECOND_GROUP = (
    "eth1\ntorch_nodes: {vars: {ansible_ssh_executable: /path/to/script}, hosts: {el1: {fullmesh_address: "
    "10.0.0.11/24}, ubuntu1: {fullmesh_address: 10.0.0.12/24}}}\nx:\n  y:\n    "
)
# One text for each way to escape: into YAML, a template, a comment, a path, an option, a shell.
HOSTILE = (SECOND_GROUP, PIPE, "eth1 # x", "../../../etc", "-oProxyCommand=id", "$(id)", "a;b", "")


def load_reports() -> dict[str, Any]:
    """Return the reports of both lab nodes, as data."""
    return {name: json.loads(text) for name, text in TOLD.items()}


def survey_machines(said: dict[str, Any]) -> look.MachineSurvey:
    return look.read_survey(BOTH, {name: json.dumps(one) for name, one in said.items()})


def list_interfaces(said: dict[str, Any], name: str = "ubuntu1") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = said[name]["root"]["ansible_facts"]["fullmesh"]["interfaces"]
    return found


def with_default_route(said: dict[str, Any], **change: Any) -> dict[str, Any]:
    """Give both nodes a default route on the proposed interface, so that its settings are written."""
    for name in TOLD:
        (interface,) = [one for one in list_interfaces(said, name) if one["name"] == "eth1"]
        via = interface["addresses"][0].rpartition(".")[0] + ".1"
        default = {"family": 4, "via": via, "dev": "eth1", "dynamic": False}
        said[name]["ways"] |= {
            "defaults": [default],
            "dns": ["192.0.2.53"],
            "search": ["a.example"],
        }
    said["ubuntu1"]["ways"] |= change
    return said


# --- H2: the inventory that init writes ----------------------------------------------------------------


def test_an_interface_name_writes_no_second_group(tmp_path: Path) -> None:
    said = load_reports()
    for interface in list_interfaces(said):
        if interface["name"] == "eth1":
            interface["name"] = SECOND_GROUP
    heard = survey_machines(said)
    assert set(heard.answers) == {"el1"}
    (fault,) = heard.faults
    assert fault.code == "IN-108"
    assert "eth1\\ntorch_nodes" in str(fault)
    # If a text gets past that check, the writer rejects it as well, and the file has one group of
    # two hosts.
    answers = {name: make_answer(one) for name, one in load_reports().items()}
    for interface in answers["ubuntu1"].facts["fullmesh"]["interfaces"]:
        if interface["name"] == "eth1":
            interface["name"] = SECOND_GROUP
    text = render.render_hosts_file(BOTH, propose.choose_proposal(answers), "")
    with pytest.raises(InvalidInputError, match=r"\[PL-117\]"):
        init_cli.check_inventory_text(text, {"static_ip_manage": True})
    assert inventory_of(text, tmp_path) == {"torch_nodes": ["el1", "ubuntu1"]}


def test_a_search_domain_is_no_template() -> None:
    heard = survey_machines(with_default_route(load_reports(), search=[PIPE]))
    assert [fault.code for fault in heard.faults] == ["IN-108"]
    assert "lookup('pipe'" in str(heard.faults[0])
    said = with_default_route(load_reports())
    answers = {name: make_answer(one) for name, one in said.items()}
    ways = answers["ubuntu1"].ways
    assert ways is not None
    ways["search"] = [PIPE]
    text = render.render_hosts_file(BOTH, propose.choose_proposal(answers), "")
    with pytest.raises(InvalidInputError, match=r"\[PL-123\].*search"):
        init_cli.check_inventory_text(text, {"static_ip_manage": True})


def make_answer(said: dict[str, Any]) -> MachineAnswer:
    """Return a machine's answer without the checks of `look.heard`."""
    return MachineAnswer(copy.deepcopy(said["root"]["ansible_facts"]), copy.deepcopy(said["ways"]))


def inventory_of(text: str, folder: Path) -> dict[str, list[str]]:
    """Return the groups that Ansible reads in an inventory, with their hosts."""
    file = folder / "hosts.yml"
    file.write_text(text)
    found = InventoryManager(loader=DataLoader(), sources=[str(file)]).get_groups_dict()
    return {name: hosts for name, hosts in found.items() if name not in ("all", "ungrouped")}


def test_a_host_name_that_yaml_misreads_stays_a_name() -> None:
    for name in ("on", "null", "1e3", "0x10"):
        found = machines.parse_machines([name, "b"])
        answers = {
            one.name: make_answer(said)
            for one, said in zip(found, load_reports().values(), strict=True)
        }
        text = render.render_hosts_file(found, propose.choose_proposal(answers), "")
        assert list(yaml.safe_load(text)["torch_nodes"]["hosts"]) == [name, "b"]


@pytest.mark.parametrize("text", [*HOSTILE, "fd00::1%{{x}}\n/64", "999.0.0.1/24"])
def test_an_invalid_address_only_ends_that_machines_answer(text: str) -> None:
    said = load_reports()
    (interface,) = [one for one in list_interfaces(said) if one["name"] == "eth1"]
    interface["addresses"] = [text]
    heard = survey_machines(said)
    assert (set(heard.answers), [one.code for one in heard.faults]) == ({"el1"}, ["IN-108"])


@pytest.mark.parametrize(
    "answer", ["[" * 5000, "[]", '"x"', "7", '{"root": [1]}', '{"root": {"a": 1}}']
)
def test_a_malformed_answer_only_ends_that_machines_answer(answer: str) -> None:
    heard = look.read_survey(BOTH, {**TOLD, "ubuntu1": answer})
    assert (set(heard.answers), [one.code for one in heard.faults]) == ({"el1"}, ["IN-108"])


# --- the plan, for what a user writes -------------------------------------------------------------------


@pytest.mark.parametrize("text", [one for one in HOSTILE if one])
@pytest.mark.parametrize("field", ["interface", "search", "gateway", "dns"])
def test_the_plan_refuses_text_for_network_files(field: str, text: str) -> None:
    link: dict[str, Any] = {"interface": "eth1", "addresses": ["10.0.0.11/24"]}
    link |= {field: text if field in ("interface", "gateway") else [text]}
    hosts: dict[str, dict[str, Any]] = {
        "a": {"fullmesh_links": [link]},
        "b": {"fullmesh_address": "10.0.0.12/24", "fullmesh_interface": "eth1"},
    }
    with pytest.raises(InvalidInputError, match=r"\[PL-1"):
        plan.derive_plan(hosts)


@pytest.mark.parametrize("zone", ["x\n[evil]", "{{x}}", " ", "a/b", ""])
def test_the_zone_of_an_ipv6_address_is_an_interface_name(zone: str) -> None:
    """ipaddress accepts any text as the zone."""
    with pytest.raises(ValueError, match="is not an address"):
        addresses.parse_bare_address(f"fd00::1%{zone}")
    with pytest.raises(ValueError, match="is not an address"):
        addresses.parse_prefixed_address(f"fd00::1%{zone}/64")
    with pytest.raises(ValueError, match=r"zone|does not appear"):
        addresses.parse_network(f"fd00::%{zone}/64")
    assert not addresses.is_address(f"fd00::1%{zone}")
    assert addresses.is_address("fe80::1%eth0.5")


@pytest.mark.parametrize(
    "domain",
    ["cluster.example", "a_b.example.", "~cluster.example", "~.", "localdomain", "10.in-addr.arpa"],
)
def test_real_search_domains_are_accepted(domain: str) -> None:
    link = {"interface": "eth1", "addresses": "10.0.0.11/24", "search": [domain]}
    made = plan.derive_plan(
        {"a": {"fullmesh_links": [link]}, "b": {"fullmesh_address": "10.0.0.12/24"}}
    )
    assert made["nodes"]["a"]["links"][0]["search"] == [domain]


# --- M8: more values that act on the controller ---------------------------------------------------------

LINKS: Any = [{"addresses": ["10.0.0.11/24", "fd00::11/64"]}]


@pytest.mark.parametrize("text", [*HOSTILE[:-1], "10.0.0.12", "10.0.0.11/24", "::", None, ["a"]])
def test_a_node_moves_to_its_planned_addresses_only(text: Any) -> None:
    with pytest.raises(AnsibleFilterError, match=r"\[IP-122\].*not one of its planned addresses"):
        static_ip_filters.static_ip_destination(text, "n1", LINKS)
    for address in ("10.0.0.11", "fd00::11", ""):
        assert static_ip_filters.static_ip_destination(address, "n1", LINKS) == address


@pytest.mark.parametrize("text", HOSTILE[:-1])
def test_an_undo_accepts_an_address_only(text: str) -> None:
    with pytest.raises(AnsibleFilterError, match=r"\[IP-122\].*not an address"):
        static_ip_filters.static_ip_destination(text, "n1", [], "absent")
    found = static_ip_filters.static_ip_destination("10.9.0.7", "n1", [], "absent")
    assert found == "10.9.0.7"


@pytest.mark.parametrize("text", HOSTILE[:-1])
def test_ssh_is_pointed_at_addresses_only(text: str) -> None:
    with pytest.raises(ValueError, match="is not an address"):
        transaction.find_new_connection({"ansible_host": "198.51.100.11"}, "n1", text)
    assert transaction.find_moved_address({"fullmesh_address": text}) == ""


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("field", ["distribution", "distribution_major_version", "architecture"])
def test_the_kind_of_a_bundle_is_one_word(field: str, text: str) -> None:
    facts = {"distribution": "Rocky", "distribution_major_version": "9", "architecture": "x86_64"}
    assert bundle_filters.bundle_kind(facts) == "Rocky-9-x86_64"
    facts[field] = text
    with pytest.raises(AnsibleFilterError, match=rf"\[BN-109\].*{field}"):
        bundle_filters.bundle_kind(facts)
    with pytest.raises(AnsibleFilterError, match=r"\[BN-109\]"):
        bundle_filters.bundle_hosts({"a": {"ansible_facts": facts}}, ["a"])
    (fault,) = bundle_filters.bundle_faults(
        {"kinds": [], "wheels": []}, "a", facts, "python3.12", ""
    )
    assert fault.startswith("[BN-109]")


def test_the_download_follows_from_the_controllers_own_settings() -> None:
    """An answer with a lock and an index is rejected as a whole."""
    lying = {**make_node(), "lock": "/etc/passwd", "index": "https://attacker.example"}
    wanted = {"lock": "own.txt", "index": ""}
    hostvars = {"a": {"__torch_runtime_seen": lying, "__torch_runtime_wanted": wanted}}
    with pytest.raises(AnsibleFilterError, match=r"\$\.(lock|index): unknown field"):
        torch_runtime.torch_runtime_targets(hostvars, ["a"])
    hostvars["a"]["__torch_runtime_seen"] = make_node()
    (target,) = torch_runtime.torch_runtime_targets(hostvars, ["a"])
    assert (target["lock"], target["index"]) == ("own.txt", "")


@pytest.mark.parametrize("text", HOSTILE[:-1])
@pytest.mark.parametrize("field", ["python", "machine"])
def test_an_argument_of_pip_is_one_word(field: str, text: str) -> None:
    said = {**make_node(), field: text}
    with pytest.raises(AnsibleFilterError, match=rf"\$\.{field}"):
        bundle_filters.bundle_target(said, "/opt/python", "lock")


@pytest.mark.parametrize("text", HOSTILE[:-1])
@pytest.mark.parametrize("field", ["distribution", "os_family", "pkg_mgr", "nodename", "kernel"])
def test_facts_that_name_files_are_words_in_every_playbook(field: str, text: str) -> None:
    result = load_reports()["el1"]["root"]
    assert cluster_plan.preflight_facts_faults(result, "el1") == []
    result["ansible_facts"][field] = text
    (fault,) = cluster_plan.preflight_facts_faults(result, "el1")
    assert fault.startswith(
        f"[PR-102] el1: the answer of node_facts is malformed, $.ansible_facts.{field}"
    )
    with pytest.raises(contract.ContractError):
        contract.convert_answer(NodeFacts, result)


# --- an honest node with odd names ----------------------------------------------------------------------


def test_a_node_omits_what_the_controller_would_refuse(tmp_path: Path) -> None:
    for name in ("eth1", "br-5.7@x", "{{x}}", "-o", "a$b"):
        (tmp_path / name).mkdir()
    assert [one["name"] for one in node_look.list_interfaces(str(tmp_path))] == ["br-5.7@x", "eth1"]
    release = node_look.parse_os_release('ID=pop\nNAME="Pop!_OS"\nVERSION_ID="22.04 LTS"\n')
    assert (release["distribution"], release["distribution_version"]) == ("pop", "")
    text = "nameserver fe80::1%{{x}}\nnameserver fe80::1%eth0\nsearch . {{x}} a.example\n"
    assert network_ways.parse_resolv_conf(text) == (["fe80::1%eth0"], ["a.example"])


# --- every field of every record ------------------------------------------------------------------------

BIG, DEEP = "@big@", "@deep@"
TEXTS = (
    *("a\nb: c", "{{ 1 }}", "{% x %}", "# x", "../x", "-o", PIPE, "$(id)", "\x1b[2J", "\x00"),
    *("", "²", "\ud800", "x" * 70_000, "9" * 5000, BIG, DEEP),
)
NUMBERS = (10**18, -1, 0, 2**64 - 1, 1e308, math.inf, math.nan, BIG, DEEP)
LARGE = 20_000  # characters of a record
JOB = "aborted"  # a recorded job that hung
SAFE = re.compile(r"[A-Za-z0-9_.:/@%+~-]+")
Place = tuple[Any, ...]


def list_values(value: Any, path: Place = ()) -> Iterator[tuple[Place, Any]]:
    """List every text and number of an answer with its path, and the first two items of each list."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from list_values(inner, (*path, key))
    elif isinstance(value, list):
        for at, inner in enumerate(value[:2]):
            yield from list_values(inner, (*path, at))
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
        yield path, value


def replace_value(value: Any, path: Place, text: Any) -> Any:
    """Return the answer with another text or number at one path."""
    found = copy.deepcopy(value)
    inner = found
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = text
    return found


def list_lies(value: Any) -> list[tuple[Place, Any]]:
    """List pairs of a path and a false value: each path with all hostile values of its kind."""
    found = {}
    for path, old in list_values(value):
        # el1.interfaces[0] and [1] are the same path
        name = tuple("*" if isinstance(step, int) else step for step in path)
        found[name] = [(path, new) for new in (TEXTS if isinstance(old, str) else NUMBERS)]
    return [one for several in found.values() for one in several]


def as_json(value: Any) -> str:
    """Encode a value as a node does, including values that ``json.dumps`` rejects."""
    text = json.dumps(value)
    text = text.replace(f'"{BIG}"', "1" + "0" * 5000)
    return text.replace(f'"{DEEP}"', "[" * 5000 + "]" * 5000)


def init_of(text: str) -> None:
    """Return init's inventory from this text and an honest machine's answer."""
    honest = with_default_route(load_reports())["el1"]
    heard = look.read_survey(BOTH, {"el1": json.dumps(honest), "ubuntu1": text})
    assert "el1" in heard.answers
    assert {fault.code for fault in heard.faults} <= {"IN-103", "IN-108"}
    assert len(heard.answers) + len(heard.faults) == 2
    if heard.faults:
        return
    try:
        proposal = propose.choose_proposal(heard.answers)
        assert init_cli.render_machine_table(BOTH, heard, proposal)
        written = render.render_hosts_file(BOTH, proposal, "")
        init_cli.check_inventory_text(written, {"static_ip_manage": True})
    except InvalidInputError:
        return
    head, _, body = written.partition("torch_nodes:\n")
    assert all(re.fullmatch(r"# [ -~]*", line) for line in head.splitlines())
    found = yaml.safe_load("torch_nodes:\n" + body)
    assert list(found) == ["torch_nodes"]
    assert list(found["torch_nodes"]["hosts"]) == ["el1", "ubuntu1"]
    texts = [one for _, one in list_values(found) if isinstance(one, str)]
    assert [one for one in texts if not SAFE.fullmatch(one)] == []


def test_no_field_of_a_machines_answer_reaches_the_inventory_unchecked() -> None:
    said = with_default_route(load_reports())["ubuntu1"]
    for path, text in list_lies({"root": said["root"], "ways": said["ways"]}):
        init_of(as_json(replace_value(said, path, text)))


@given(st.data())
def test_several_false_values_have_no_further_effect(data: st.DataObject) -> None:
    said = with_default_route(load_reports())["ubuntu1"]
    every = list_lies({"root": said["root"], "ways": said["ways"]})
    for path, text in data.draw(st.lists(st.sampled_from(every), min_size=1, max_size=3)):
        with contextlib.suppress(
            TypeError, KeyError, IndexError
        ):  # the value around it was replaced
            said = replace_value(
                said, path, text if isinstance(text, str) else data.draw(st.integers())
            )
    init_of(as_json(said))


def test_no_node_fact_removes_another_node_from_a_run() -> None:
    hosts = {"el1": "10.78.3.11/24", "ubuntu1": "10.78.3.12/24"}
    made = plan.derive_plan(
        {host: {"fullmesh_address": address} for host, address in hosts.items()}
    )
    near = {host: {"__preflight": one["root"]} for host, one in load_reports().items()}
    now = near["el1"]["__preflight"]["ansible_facts"]["fullmesh"]["epoch"]
    for host in near:
        near[host]["__preflight"]["ansible_facts"].pop("discovered_interpreter_python", None)
    honest = preflight.judge_preflight(made, near, list(hosts), {"now": now})["faults"]
    for path, text in list_lies(near["ubuntu1"]["__preflight"]):
        if text in (BIG, DEEP):
            continue  # Ansible's own reader rejects them
        lying = {
            **near,
            "ubuntu1": {"__preflight": replace_value(near["ubuntu1"]["__preflight"], path, text)},
        }
        found = preflight.judge_preflight(made, lying, list(hosts), {"now": now})["faults"]
        assert not [one for one in found if "el1:" in one and one not in honest], (path, text)
        for fault in cluster_plan.preflight_facts_faults(lying["ubuntu1"]["__preflight"], "u"):
            assert fault.startswith("[PR-102]")


def test_no_field_of_torch_venvs_answer_reaches_pip_unchecked() -> None:
    wanted = {"lock": "own.txt", "index": ""}
    for path, text in list_lies({**make_node(have=["0" * 64], bundles={"x.tar": 1})}):
        said = replace_value(make_node(have=["0" * 64], bundles={"x.tar": 1}), path, text)
        variables = {"__torch_runtime_seen": said, "__torch_runtime_wanted": wanted}
        try:
            found = torch_runtime.torch_runtime_targets({"a": variables}, ["a"])
            bundle_filters.bundle_target(said, "/opt/python", "lock")
            torch_runtime.torch_runtime_space(said, wheels(), "a")
        except AnsibleFilterError:
            continue
        for target in found:
            words = [target["python"], *target["platforms"], *target["have"]]
            assert all(SAFE.fullmatch(word) for word in words)
            assert (target["lock"], target["index"], len(target["platforms"]) < 999) == (
                "own.txt",
                "",
                True,
            )


def test_no_answer_affects_more_than_its_own_node() -> None:
    whole = {"result": {"ansible_facts": {"a": "b"}, "n": 1}, "python": "/usr/bin/python3"}
    to = channel.ConnectionSpec(["ssh"], None, "", root=True, found=True, address="h", user="")
    for kind in (whole, {"failed": "Traceback\nValueError: x", "unkept": "disk"}):
        for path, text in list_lies(kind):
            data = as_json(replace_value(kind, path, text)).encode()
            answer = talk.parse_node_answer(data, len(data))
            reply = talk.NodeReply(answer, 0, "", "", begun=True)
            assert answers.build_task_result(to, reply)
            assert answers.describe_uncached_programs({"a": reply}) is not None


def recorded_answers() -> Iterator[Any]:
    """Yield a recorded answer of every module, with its type."""
    kinds = {
        "": ladder.LadderNodeResult,
        "facts": NodeFacts,
        "links": ladder.LadderLinksResult,
        "gpus": ranks.CollectedRanks,
    }
    for path in sorted((RECORDED / "ladder").glob("*.json.gz")):
        name = name_record(path)
        kind = kinds.get(name.partition("-")[2])
        if kind is not None and name != "ubuntu1":
            yield pytest.param(kind, load_record(path), id=name)
    yield pytest.param(Ways, load_reports()["el1"]["ways"], id="ways")
    yield pytest.param(VenvSeen, make_node(), id="venv")
    yield pytest.param(WheelhouseResult, wheels(), id="wheels")
    yield pytest.param(Rank, hang_records.load_raw(JOB)[0][0], id="rank")


@pytest.mark.parametrize(("kind", "said"), list(recorded_answers()))
def test_each_field_of_a_record_is_accepted_or_rejected(kind: Any, said: Any) -> None:
    large = len(json.dumps(said)) > LARGE
    for path, text in list_lies(said)[
        :: 7 if large else 1
    ]:  # one in seven values of a large record, of every kind
        try:
            value = parse_foreign_json(as_json(replace_value(said, path, text)))
        except ForeignTextError:
            assert text in (BIG, DEEP)
            continue
        with contextlib.suppress(contract.ContractError):
            contract.convert_answer(kind, value)
        if kind is ladder.LadderNodeResult:
            shape.sanitize_node({"node": value}, {"el1", "ubuntu1"})


@pytest.mark.parametrize("text", [line for line in TEXTS if line not in (BIG, DEEP)])
def test_no_rank_of_a_node_hides_those_of_another(text: str) -> None:
    sample = hang_records.load_raw(JOB)[0]
    honest = {"host": "el1", "jobs": [], "ranks": [sample[0]]}
    for path, old in list_values(sample[1]):
        new = text if isinstance(old, str) else 10**18
        packed = zlib.compress(
            as_json({**honest, "ranks": [replace_value(sample[1], path, new)]}).encode()
        )
        look_of = hang_ask.parse_node_hang(
            hang_ask.MARK + base64.b64encode(packed).decode(), "liar"
        )
        both = [
            hang_ask.HangAnswer("el1", (cast("NodeHang", {**honest, "left_out": []}),)),
            hang_ask.HangAnswer("liar", (look_of,)),
        ]
        found = hang_ask.collect_samples(cast("ClusterPlan", {"world_size": 0, "nodes": {}}), both)
        assert sample[0]["rank"] in [one["rank"] for one in found[0]]


@pytest.mark.parametrize("text", HOSTILE[:-1])
def test_an_interface_with_a_hostile_name_is_no_evidence(text: str) -> None:
    said = load_record(RECORDED / "ladder/el1.json")
    found = said["facts"]["survey"]
    found["interfaces"][0]["name"] = text
    next(iter(found["routes"].values()))["dev"] = text
    kept = shape.sanitize_node({"node": said}, {"el1", "ubuntu1"})["node"]["facts"]["survey"]
    assert len(kept["interfaces"]) == len(found["interfaces"]) - 1
    assert len(kept["routes"]) == len(found["routes"]) - 1
    assert text not in json.dumps([kept["interfaces"], kept["routes"]])


@pytest.mark.parametrize(
    "line",
    [
        *HOSTILE[:-1],
        "ssh-ed25519 AAAA",
        "ssh-ed25519 AAAAAAAAAAAAAAAAAAAA x\n* ssh-ed25519 AAAAAAAAAAAAAAAAAAAA",
        "ssh-ed25519",
    ],
)
def test_an_invalid_host_key_is_written_on_no_other_node(line: str) -> None:
    hosts = {"a": {"fullmesh_address": "10.0.0.1/24"}, "b": {"fullmesh_address": "10.0.0.2/24"}}
    made = plan.derive_plan(hosts)
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ root@b"
    seen_on = {"a": {"__node_ssh_seen": {"host_keys": [line]}}}
    seen_on["b"] = {"__node_ssh_seen": {"host_keys": [key]}}
    with pytest.raises(AnsibleFilterError, match=r"\[NS-106\] a reports"):
        node_ssh.node_ssh_known_hosts(made, seen_on, ["a", "b"], 22)
    seen_on["a"] = seen_on["b"]
    assert node_ssh.node_ssh_known_hosts(made, seen_on, ["a", "b"], 22).count("\n") == 2


@pytest.mark.parametrize("port", [-1, 0, 65536, 10**12, "22", None])
def test_a_port_that_cannot_exist_is_no_listener_of_peers(port: object) -> None:
    good = {"kind": "sample", "port": 40000, "error": "", "holder": ""}
    opened = verify_cluster.ladder_opened({"a": {"ports": [good, {**good, "port": port}]}})
    assert opened == {"a": [good]}
