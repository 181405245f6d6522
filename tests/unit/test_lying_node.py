"""A node that lies: whatever it reports, no text of it becomes a program, a path or an address on the controller."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible.inventory.manager import InventoryManager
from ansible.module_utils.fullmesh.facts import node as node_look
from ansible.module_utils.fullmesh.network import ways as network_ways
from ansible.parsing.dataloader import DataLoader
from torch_samples import seen

from fullmesh import contract, transaction
from fullmesh.filters import bundle as bundle_filters
from fullmesh.filters import cluster_plan as plan_filters
from fullmesh.filters import static_ip as static_ip_filters
from fullmesh.filters import torch_runtime as torch_filters
from fullmesh.init import cli as init
from fullmesh.init import look, machines, propose, render
from fullmesh.init.propose import Answer
from fullmesh.model import addresses, plan
from fullmesh.model.faults import RefusedError
from fullmesh.observed.node import NodeFacts

RECORDED = Path(__file__).parent / "recorded/first_look"
TOLD = {name: (RECORDED / f"{name}.json").read_text() for name in ("el1", "ubuntu1")}
BOTH = machines.read(["el1,ubuntu1"])
PIPE = "{{lookup('pipe','id>FILE')}}"
SECOND_GROUP = (
    "eth1\ntorch_nodes: {vars: {ansible_ssh_executable: /path/to/script}, hosts: {el1: {fullmesh_address: "
    "10.0.0.11/24}, ubuntu1: {fullmesh_address: 10.0.0.12/24}}}\nx:\n  y:\n    "
)
# One of each way out of a text: into YAML, a template, a comment, a path, an option, a shell.
HOSTILE = (SECOND_GROUP, PIPE, "eth1 # x", "../../../etc", "-oProxyCommand=id", "$(id)", "a;b", "")


def told() -> dict[str, Any]:
    """What both lab nodes said, as data."""
    return {name: json.loads(text) for name, text in TOLD.items()}


def hear(said: dict[str, Any]) -> look.Heard:
    return look.heard(BOTH, {name: json.dumps(one) for name, one in said.items()})


def cards(said: dict[str, Any], name: str = "ubuntu1") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = said[name]["root"]["ansible_facts"]["fullmesh"]["interfaces"]
    return found


def with_default_route(said: dict[str, Any], **change: Any) -> dict[str, Any]:
    """Both nodes have a default route on the interface that the proposal takes, so that its settings are written."""
    for name in TOLD:
        (card,) = [one for one in cards(said, name) if one["name"] == "eth1"]
        via = card["addresses"][0].rpartition(".")[0] + ".1"
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
    said = told()
    for card in cards(said):
        if card["name"] == "eth1":
            card["name"] = SECOND_GROUP
    heard = hear(said)
    assert set(heard.answers) == {"el1"}
    (fault,) = heard.faults
    assert fault.code == "IN-108"
    assert "eth1\\ntorch_nodes" in str(fault)
    # behind that border, the text that would be written is refused again, and is one group of two hosts
    answers = {name: answered(one) for name, one in told().items()}
    for card in answers["ubuntu1"].facts["fullmesh"]["interfaces"]:
        if card["name"] == "eth1":
            card["name"] = SECOND_GROUP
    text = render.hosts_text(BOTH, propose.chosen(answers), "")
    with pytest.raises(RefusedError, match=r"\[PL-117\]"):
        init.checked(text, {"static_ip_manage": True})
    assert inventory_of(text, tmp_path) == {"torch_nodes": ["el1", "ubuntu1"]}


def test_a_search_domain_is_no_template() -> None:
    heard = hear(with_default_route(told(), search=[PIPE]))
    assert [fault.code for fault in heard.faults] == ["IN-108"]
    assert "lookup('pipe'" in str(heard.faults[0])
    said = with_default_route(told())
    answers = {name: answered(one) for name, one in said.items()}
    ways = answers["ubuntu1"].ways
    assert ways is not None
    ways["search"] = [PIPE]
    text = render.hosts_text(BOTH, propose.chosen(answers), "")
    with pytest.raises(RefusedError, match=r"\[PL-123\].*search"):
        init.checked(text, {"static_ip_manage": True})


def answered(said: dict[str, Any]) -> Answer:
    """A machine's answer without the checks of `look.heard`."""
    return Answer(copy.deepcopy(said["root"]["ansible_facts"]), copy.deepcopy(said["ways"]))


def inventory_of(text: str, folder: Path) -> dict[str, list[str]]:
    """The groups that Ansible reads in an inventory, and their hosts."""
    file = folder / "hosts.yml"
    file.write_text(text)
    found = InventoryManager(loader=DataLoader(), sources=[str(file)]).get_groups_dict()
    return {name: hosts for name, hosts in found.items() if name not in ("all", "ungrouped")}


def test_a_hosts_name_that_yaml_reads_as_something_else_stays_a_name() -> None:
    for name in ("on", "null", "1e3", "0x10"):
        found = machines.read([name, "b"])
        answers = {
            one.name: answered(said) for one, said in zip(found, told().values(), strict=True)
        }
        text = render.hosts_text(found, propose.chosen(answers), "")
        assert list(yaml.safe_load(text)["torch_nodes"]["hosts"]) == [name, "b"]


@pytest.mark.parametrize("text", [*HOSTILE, "fd00::1%{{x}}\n/64", "999.0.0.1/24"])
def test_an_address_that_is_none_ends_one_machines_answer(text: str) -> None:
    said = told()
    (card,) = [one for one in cards(said) if one["name"] == "eth1"]
    card["addresses"] = [text]
    heard = hear(said)
    assert (set(heard.answers), [one.code for one in heard.faults]) == ({"el1"}, ["IN-108"])


@pytest.mark.parametrize(
    "answer", ["[" * 5000, "[]", '"x"', "7", '{"root": [1]}', '{"root": {"a": 1}}']
)
def test_an_answer_of_another_form_ends_one_machines_answer(answer: str) -> None:
    heard = look.heard(BOTH, {**TOLD, "ubuntu1": answer})
    assert (set(heard.answers), [one.code for one in heard.faults]) == ({"el1"}, ["IN-108"])


# --- the plan, for what a user writes -------------------------------------------------------------------


@pytest.mark.parametrize("text", [one for one in HOSTILE if one])
@pytest.mark.parametrize("field", ["interface", "search", "gateway", "dns"])
def test_the_plan_refuses_a_text_that_would_reach_a_network_file(field: str, text: str) -> None:
    link = {"interface": "eth1", "addresses": ["10.0.0.11/24"]}
    link |= {field: text if field in ("interface", "gateway") else [text]}
    hosts = {
        "a": {"fullmesh_links": [link]},
        "b": {"fullmesh_address": "10.0.0.12/24", "fullmesh_interface": "eth1"},
    }
    with pytest.raises(RefusedError, match=r"\[PL-1"):
        plan.derive(hosts)


@pytest.mark.parametrize("zone", ["x\n[evil]", "{{x}}", " ", "a/b", ""])
def test_the_zone_of_an_ipv6_address_is_an_interface_name(zone: str) -> None:
    """ipaddress takes any text for it."""
    with pytest.raises(ValueError, match="is not an address"):
        addresses.parse_address(f"fd00::1%{zone}")
    with pytest.raises(ValueError, match="is not an address"):
        addresses.parse_interface(f"fd00::1%{zone}/64")
    with pytest.raises(ValueError, match=r"zone|does not appear"):
        addresses.parse_network(f"fd00::%{zone}/64")
    assert not addresses.is_address(f"fd00::1%{zone}")
    assert addresses.is_address("fe80::1%eth0.5")


@pytest.mark.parametrize(
    "domain",
    ["cluster.example", "a_b.example.", "~cluster.example", "~.", "localdomain", "10.in-addr.arpa"],
)
def test_search_domains_that_people_have_are_taken(domain: str) -> None:
    link = {"interface": "eth1", "addresses": "10.0.0.11/24", "search": [domain]}
    made = plan.derive({"a": {"fullmesh_links": [link]}, "b": {"fullmesh_address": "10.0.0.12/24"}})
    assert made["nodes"]["a"]["links"][0]["search"] == [domain]


# --- M8: more values that act on the controller ---------------------------------------------------------

LINKS: Any = [{"addresses": ["10.0.0.11/24", "fd00::11/64"]}]


@pytest.mark.parametrize("text", [*HOSTILE[:-1], "10.0.0.12", "10.0.0.11/24", "::", None, ["a"]])
def test_a_node_moves_to_its_planned_addresses_only(text: Any) -> None:
    with pytest.raises(AnsibleFilterError, match=r"\[IP-122\].*none of its planned addresses"):
        static_ip_filters.static_ip_destination(text, "n1", LINKS)
    for address in ("10.0.0.11", "fd00::11", ""):
        assert static_ip_filters.static_ip_destination(address, "n1", LINKS) == address


@pytest.mark.parametrize("text", HOSTILE[:-1])
def test_an_undo_goes_to_an_address_and_to_nothing_else(text: str) -> None:
    with pytest.raises(AnsibleFilterError, match=r"\[IP-122\].*no address"):
        static_ip_filters.static_ip_destination(text, "n1", [], "absent")
    found = static_ip_filters.static_ip_destination("10.9.0.7", "n1", [], "absent")
    assert found == "10.9.0.7"


@pytest.mark.parametrize("text", HOSTILE[:-1])
def test_ssh_is_pointed_at_addresses_only(text: str) -> None:
    with pytest.raises(ValueError, match="is not an address"):
        transaction.way({"ansible_host": "198.51.100.11"}, "n1", text)
    assert transaction.moved({"fullmesh_address": text}) == ""


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
    """An answer with a lock and an index is refused as a whole."""
    lying = {**seen(), "lock": "/etc/passwd", "index": "https://attacker.example"}
    wanted = {"lock": "own.txt", "index": ""}
    hostvars = {"a": {"__torch_runtime_seen": lying, "__torch_runtime_wanted": wanted}}
    with pytest.raises(AnsibleFilterError, match=r"\$\.(lock|index): unknown field"):
        torch_filters.torch_runtime_targets(hostvars, ["a"])
    hostvars["a"]["__torch_runtime_seen"] = seen()
    (target,) = torch_filters.torch_runtime_targets(hostvars, ["a"])
    assert (target["lock"], target["index"]) == ("own.txt", "")


@pytest.mark.parametrize("text", HOSTILE[:-1])
@pytest.mark.parametrize("field", ["python", "machine"])
def test_what_pip_is_called_with_is_a_word(field: str, text: str) -> None:
    said = {**seen(), field: text}
    with pytest.raises(AnsibleFilterError, match=rf"\$\.{field}"):
        bundle_filters.bundle_target(said, "/opt/python", "lock")


@pytest.mark.parametrize("text", HOSTILE[:-1])
@pytest.mark.parametrize("field", ["distribution", "os_family", "pkg_mgr", "nodename", "kernel"])
def test_facts_that_name_files_are_words_in_every_playbook(field: str, text: str) -> None:
    result = told()["el1"]["root"]
    assert plan_filters.preflight_facts_faults(result, "el1") == []
    result["ansible_facts"][field] = text
    (fault,) = plan_filters.preflight_facts_faults(result, "el1")
    assert fault.startswith(
        f"[PR-102] el1: node_facts' answer is not what it should be, $.ansible_facts.{field}"
    )
    with pytest.raises(contract.ContractError):
        contract.answer(NodeFacts, result)


# --- an honest node with odd names ----------------------------------------------------------------------


def test_a_node_leaves_out_what_the_controller_would_refuse(tmp_path: Path) -> None:
    for name in ("eth1", "br-5.7@x", "{{x}}", "-o", "a$b"):
        (tmp_path / name).mkdir()
    assert [one["name"] for one in node_look.interfaces(str(tmp_path))] == ["br-5.7@x", "eth1"]
    release = node_look.parse_os_release('ID=pop\nNAME="Pop!_OS"\nVERSION_ID="22.04 LTS"\n')
    assert (release["distribution"], release["distribution_version"]) == ("pop", "")
    text = "nameserver fe80::1%{{x}}\nnameserver fe80::1%eth0\nsearch . {{x}} a.example\n"
    assert network_ways.resolver(text) == (["fe80::1%eth0"], ["a.example"])
