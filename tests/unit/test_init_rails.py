"""init proposes rails: which NICs the nodes' neighbors and addresses connect, and what it cannot tell."""

from __future__ import annotations

import argparse
import copy
import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.fullmesh.facts import neighbors
from ansible.module_utils.fullmesh.network.machine import NetworkNode
from record_files import RECORDED, load_record

from fullmesh import cli
from fullmesh.init import look, machines, propose, rails_proposal, render
from fullmesh.init.propose import MachineAnswer
from fullmesh.init.rails_proposal import RailsProposal
from fullmesh.model import plan
from fullmesh.verbs import init as init_cli

NICS = ("eth2", "eth3")
# Of a Dell Pro Max with GB10, as ibstat shows it: all four RDMA devices have one chip.
SPARK_CHIP = "fc4c:ea03:00f9:4230"
SPARK_NICS = {"eth2": ("enp1s0f1np1", "p1"), "eth3": ("enP2p1s0f1np1", "p1")}


def load_cable_surveys(name: str, *, rdma: tuple[str, ...] = NICS) -> dict[str, MachineAnswer]:
    """The recorded answers of lab nodes with cables. veth has no RDMA devices: give it some."""
    texts = {
        host: json.dumps(said)
        for host, said in load_record(RECORDED / f"first_look/rails-{name}.json").items()
    }
    found = look.read_survey(machines.parse_machines(sorted(texts)), texts)
    assert not found.faults
    answers = copy.deepcopy(dict(found.answers))
    for answer in answers.values():
        add_rdma(answer, *rdma)
    return answers


def add_rdma(answer: MachineAnswer, *nics: str, layer: str = "Ethernet") -> None:
    for nic in nics:
        gid = {"index": 1, "type": "RoCE v2", "gid": "fe80::1", "interface": nic}
        port: Any = {
            "device": f"mlx5_{nic}",
            "port": 1,
            "driver": "mlx5_core",
            "active": True,
            "layer": layer,
            "gids": [gid],
        }
        answer.facts["fullmesh"]["rdma"].append(port)


def make_lldp(nic: str, **changed: str) -> Any:
    return {"nic": nic, "mac": "", "system": "leaf1", "port": "", **changed}


def card(answer: MachineAnswer, name: str) -> Any:
    return next(one for one in answer.facts["fullmesh"]["interfaces"] if one["name"] == name)


def port_of(answer: MachineAnswer, name: str) -> Any:
    assert answer.ways
    return next(one for one in answer.ways["ports"] if one["nic"] == name)


def suggest(answers: dict[str, MachineAnswer], **more: Any) -> RailsProposal:
    found = rails_proposal.propose_rails(answers, propose.choose_proposal(answers), **more)
    assert found is not None
    return found


def write(answers: dict[str, MachineAnswer], found: RailsProposal) -> dict[str, Any]:
    """The inventory as Ansible reads it. The plan accepts it."""
    there = machines.parse_machines(list(answers))
    text = render.render_hosts_file(there, propose.choose_proposal(answers), "", found)
    init_cli.check_inventory_text(text, {})
    read: dict[str, Any] = yaml.safe_load(text)["torch_nodes"]
    return read


def derive(answers: dict[str, MachineAnswer], found: RailsProposal) -> Any:
    made = write(answers, found)
    return plan.derive_plan({host: {**made["vars"], **own} for host, own in made["hosts"].items()})


# --- proposals ----------------------------------------------------------------------------------------


def test_rails_without_addresses_get_new_networks() -> None:
    answers = load_cable_surveys("two-switches")
    found = suggest(answers)
    assert (found.certain, found.rails) == (
        True,
        [
            {"name": "rail0", "nic": "eth2", "pool": "10.10.0.0/24"},
            {"name": "rail1", "nic": "eth3", "pool": "10.10.1.0/24"},
        ],
    )
    assert derive(answers, found)["rails"][1]["members"]["ubuntu1"] == "10.10.1.12"
    assert "every node has these fast NICs: eth2, eth3" in found.reasons


def test_rails_in_separate_networks_keep_their_addresses() -> None:
    answers = load_cable_surveys("own-subnets")
    answers["el1"].facts["fullmesh"]["interfaces"].reverse()
    chosen = next(
        one for one in propose.propose_networks(answers) if str(one.network).startswith("10.78.")
    )
    found = rails_proposal.propose_rails(answers, chosen)
    assert found is not None
    assert [(one["nic"], one["pool"]) for one in found.rails] == [
        ("eth2", "10.91.2.0/24"),
        ("eth3", "10.91.3.0/24"),
    ]
    assert found.certain


def test_the_cluster_nic_becomes_a_rail() -> None:
    answers = load_cable_surveys("own-subnets")
    found = suggest(answers)
    assert found.rails[0] == {"name": "rail0", "nic": "eth2"}
    assert found.rails[1] == {"name": "rail1", "nic": "eth3", "pool": "10.91.3.0/24"}
    assert derive(answers, found)["nodes"]["el1"]["address"] == "10.91.2.11"


def test_addresses_without_answers_connect_nics() -> None:
    answers = load_cable_surveys("own-subnets")
    for answer in answers.values():
        assert answer.ways
        answer.ways["neighbors"].clear()
    assert suggest(answers).rails == suggest(load_cable_surveys("own-subnets")).rails


def test_other_host_numbers_than_the_clusters_become_addresses() -> None:
    answers = load_cable_surveys("own-subnets")
    card(answers["el1"], "eth3")["addresses"] = ["10.91.3.77/24"]
    assert suggest(answers).rails[1]["addresses"]["el1"] == "10.91.3.77/24"
    for answer, number in zip(answers.values(), range(2, 6), strict=True):
        for nic in NICS:
            card(answer, nic)["addresses"] = []
        card(answer, "eth1")["addresses"] = [f"10.78.{number}.1/16"]
    found = suggest(answers)
    assert found.rails[0]["addresses"]["el1"] == "10.10.0.1/24"
    assert derive(answers, found)["rails"][0]["members"]["ubuntu2"] == "10.10.0.4"


def test_two_rails_in_one_network_get_tables() -> None:
    answers = load_cable_surveys("one-subnet")
    chosen = next(
        one for one in propose.propose_networks(answers) if str(one.network).startswith("10.78.")
    )
    found = rails_proposal.propose_rails(answers, chosen)
    assert found is not None
    assert found.rails[1] == {
        "name": "rail1",
        "nic": "eth3",
        "addresses": {"el1": "10.91.0.21/24", "ubuntu1": "10.91.0.22/24"},
    }
    there = machines.parse_machines(list(answers))
    text = render.render_hosts_file(there, chosen, "", found)
    init_cli.check_inventory_text(text, {})
    assert "rail0: other rails are in 10.91.0.0/24 as well" in text


@pytest.mark.parametrize(("name", "count"), [("ring3", 3), ("ring4", 4)])
def test_cables_form_a_ring(name: str, count: int) -> None:
    answers = load_cable_surveys(name)
    found = suggest(answers)
    (ring,) = found.rails
    assert found.certain
    assert len(ring["cables"]) == count
    assert {"el1": "eth2", "ubuntu1": "eth3"} in ring["cables"]
    assert ring["mtu"] == 9000
    assert any("cables without a switch: el1 eth2 - ubuntu1 eth3" in one for one in found.reasons)
    assert derive(answers, found)["rails"][0]["cable"]


def spark(answers: dict[str, MachineAnswer]) -> None:
    """Give both NICs the names and the chip of a DGX Spark's port."""
    for answer in answers.values():
        assert answer.ways
        for port in answer.ways["ports"]:
            if port["nic"] in SPARK_NICS:
                port["chip"] = SPARK_CHIP
                port["nic"], port["port"] = SPARK_NICS[port["nic"]]
        for seen in answer.ways["neighbors"]:
            seen["nic"] = SPARK_NICS.get(seen["nic"], (seen["nic"], ""))[0]
        for nic in answer.facts["fullmesh"]["interfaces"]:
            nic["name"] = SPARK_NICS.get(nic["name"], (nic["name"], ""))[0]
        for device in answer.facts["fullmesh"]["rdma"]:
            for gid in device["gids"]:
                gid["interface"] = SPARK_NICS[gid["interface"]][0]


def test_twins_of_one_port_become_two_rails() -> None:
    answers = load_cable_surveys("one-switch")
    spark(answers)
    found = suggest(answers)
    assert [(one["nic"], one["pool"]) for one in found.rails] == [
        ("enp1s0f1np1", "10.10.0.0/24"),
        ("enP2p1s0f1np1", "10.10.1.0/24"),
    ]
    assert "enp1s0f1np1 and enP2p1s0f1np1 are one port, and each needs an address" in found.reasons
    assert derive(answers, found)["nodes"]["el1"]["links"][2]["interface"] == "enP2p1s0f1np1"


def test_swapped_cables_between_two_nodes_pair_other_names() -> None:
    answers = {
        host: answer for host, answer in load_cable_surveys("ring3").items() if host != "el2"
    }
    answers["el1"].ways["neighbors"].append(  # type: ignore[index]
        {"nic": "eth3", "mac": card(answers["ubuntu1"], "eth2")["mac"]}
    )
    found = suggest(answers)
    assert found.certain
    assert [one["nic"] for one in found.rails] == [
        {"el1": "eth2", "ubuntu1": "eth3"},
        {"el1": "eth3", "ubuntu1": "eth2"},
    ]


# --- what init cannot tell, or must not propose -------------------------------------------------------


def drop_answers(answers: dict[str, MachineAnswer]) -> None:
    for answer in answers.values():
        assert answer.ways
        answer.ways["neighbors"].clear()


def unplug(answers: dict[str, MachineAnswer]) -> None:
    card(answers["el1"], "eth3").update(carrier=False, state="down")
    port_of(answers["el1"], "eth3")["chip"] = SPARK_CHIP


def stack(answers: dict[str, MachineAnswer]) -> None:
    for answer in answers.values():
        for nic in NICS:
            port_of(answer, nic)["stacked"] = True


def rename(answers: dict[str, MachineAnswer]) -> None:
    for answer in answers.values():
        for number, nic in enumerate(NICS):
            card(answer, nic)["name"] = f"docker{number}"


def route(answers: dict[str, MachineAnswer]) -> None:
    for answer in answers.values():
        assert answer.ways
        answer.ways["defaults"] += [
            {"family": 4, "via": "192.0.2.1", "dev": nic, "dynamic": True} for nic in NICS
        ]


@pytest.mark.parametrize("text", ["{{ x }}", "eth1\nvars: {}", "a;b", "$(id)", "-oProxyCommand=id"])
@pytest.mark.parametrize(
    ("part", "key"),
    [
        ("ports", "nic"),
        ("ports", "chip"),
        ("ports", "port"),
        ("neighbors", "nic"),
        ("neighbors", "mac"),
        ("lldp", "nic"),
        ("lldp", "mac"),
        ("lldp", "system"),
        ("lldp", "port"),
    ],
)
def test_a_node_with_false_data_about_its_nics_is_rejected(part: str, key: str, text: str) -> None:
    said = load_record(RECORDED / "first_look/rails-ring3.json")
    said["el1"]["ways"]["lldp"] = [make_lldp("eth2", port="Ethernet1/7")]
    said["el1"]["ways"][part][0][key] = text
    texts = {host: json.dumps(one) for host, one in said.items()}
    found = look.read_survey(machines.parse_machines(sorted(texts)), texts)
    assert [fault.code for fault in found.faults] == ["IN-108"]


def test_nics_without_an_answer_are_a_draft() -> None:
    answers = load_cable_surveys("silent")
    found = suggest(answers)
    assert not found.certain
    assert "no other node answered eth2 of el1" in found.reasons[1]
    made = write(answers, found)
    assert "vars" not in made
    text = render.render_rails(found)
    _reasons, _, draft_text = text.partition("# A draft for you to check:\n")
    draft = yaml.safe_load(draft_text.replace("    # ", ""))
    assert [one["nic"] for one in draft["fullmesh_rails"]] == list(NICS)


def test_lldp_connects_nics_that_do_not_answer() -> None:
    answers = load_cable_surveys("silent")
    one, other = answers.values()
    assert one.ways
    one.ways["lldp"] = [
        make_lldp(nic, mac=card(other, nic)["mac"], system="ubuntu1", port=nic) for nic in NICS
    ]
    found = suggest(answers)
    assert found.certain
    assert [rail["nic"] for rail in found.rails] == list(NICS)
    assert not [reason for reason in found.reasons if "LLDP" in reason]


def test_lldp_shows_the_switch_of_each_rail() -> None:
    answers = load_cable_surveys("two-switches")
    for number, answer in enumerate(answers.values(), 1):
        assert answer.ways
        answer.ways["lldp"] = [
            make_lldp("eth2", port=f"Ethernet1/{number}"),
            make_lldp("eth3", system=f"leaf{number % 2}", port="swp1"),
            make_lldp("eth3", system="a host", mac="02:00:00:00:00:01"),
        ]
    found = suggest(answers)
    ports = "el1 at Ethernet1/1, el2 at Ethernet1/2, ubuntu1 at Ethernet1/3, ubuntu2 at Ethernet1/4"
    assert [reason for reason in found.reasons if "LLDP" in reason] == [
        f"rail0: LLDP shows the switch leaf1, with {ports}",
        "rail1: LLDP shows the switch leaf1, with el1 at swp1, ubuntu1 at swp1",
        "rail1: LLDP shows the switch leaf0, with el2 at swp1, ubuntu2 at swp1",
    ]
    assert "# * rail0: LLDP shows the switch leaf1" in render.render_rails(found)
    name = answers["ubuntu1"].facts["nodename"]
    answers["el1"].ways["lldp"] = [make_lldp("eth2", system=name, port="eth2")]  # type: ignore[index]
    assert not [one for one in suggest(answers).reasons if name in one]


def test_an_open_ring_is_no_proposal() -> None:
    answers = {
        host: answer for host, answer in load_cable_surveys("ring4").items() if host != "ubuntu2"
    }
    found = suggest(answers)
    assert (found.rails, found.certain) == ([], False)
    assert "eth3 of el1" in found.reasons[-1]


def test_a_node_without_the_second_nic_is_named() -> None:
    answers = load_cable_surveys("two-switches")
    unplug(answers)
    found = suggest(answers)
    assert (found.rails, found.certain) == ((), False)
    assert "fast NICs: el1: eth2; el2: eth2, eth3" in found.reasons[0]
    assert "no carrier: eth3 of el1" in found.reasons
    assert "vars" not in write(answers, found)


@pytest.mark.parametrize("change", [stack, rename, route])
def test_bond_members_bridges_and_uplinks_are_no_rails(change: Any) -> None:
    answers = load_cable_surveys("two-switches")
    change(answers)
    assert rails_proposal.propose_rails(answers, propose.choose_proposal(answers)) is None


def test_infiniband_needs_no_rails() -> None:
    answers = load_cable_surveys("two-switches", rdma=())
    for answer in answers.values():
        add_rdma(answer, *NICS, layer="InfiniBand")
        for nic in NICS:
            card(answer, nic)["speed"] = 0
    assert rails_proposal.propose_rails(answers, propose.choose_proposal(answers)) is None


def test_a_second_ordinary_nic_is_no_rail() -> None:
    answers = load_cable_surveys("two-switches", rdma=())
    for answer in answers.values():
        for nic in NICS:
            card(answer, nic)["speed"] = 1000
    assert rails_proposal.propose_rails(answers, propose.choose_proposal(answers)) is None


def test_fast_nics_without_rdma_are_a_draft() -> None:
    found = suggest(load_cable_surveys("two-switches", rdma=()))
    assert not found.certain
    assert "NCCL uses a rail over RDMA only" in found.reasons[-1]


def test_addresses_that_differ_are_explained() -> None:
    answers = load_cable_surveys("own-subnets")
    card(answers["el2"], "eth3")["addresses"] = ["10.99.0.1/24"]
    found = suggest(answers)
    assert (found.rails, found.certain) == ([], False)
    assert "eth3 of el2 has 10.99.0.1/24" in found.reasons[-1]
    card(answers["el2"], "eth3")["addresses"] = ["10.91.3.13/24", "10.91.3.14/24"]
    assert "several addresses: eth3 of el2" in suggest(answers).reasons


def test_a_hardware_address_of_two_nics_connects_none() -> None:
    answers = load_cable_surveys("ring3")
    for answer in answers.values():
        card(answer, "eth2")["mac"] = "02:00:00:00:00:01"
    assert len(suggest(answers).rails[0]["cables"]) == 3  # the other end of each cable tells
    for answer in answers.values():
        card(answer, "eth3")["mac"] = "02:00:00:00:00:01"
    assert not suggest(answers).certain


def test_new_addresses_need_management() -> None:
    found = suggest(load_cable_surveys("two-switches"), keep_network=True)
    assert not found.certain
    assert "rail0: needs new addresses, but static_ip_manage is false" in found.reasons


def test_rails_that_the_plan_refuses_become_a_draft(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Both NICs are in the cluster's network."""
    answers = load_cable_surveys("one-subnet")
    for number, answer in enumerate(answers.values(), 31):
        card(answer, "eth1")["addresses"] = [f"10.91.0.{number}/24"]
        card(answer, "eth1")["speed"] = 400000
    heard = look.MachineSurvey(answers, [], [])
    args = argparse.Namespace(keep_network=False, user="", json=False)
    there = machines.parse_machines(list(answers))
    network = propose.choose_proposal(answers)
    text, found = init_cli.choose_rails(args, there, heard, network, ask=False)
    assert found is not None
    assert "[PL-140]" in found.reasons[-1]
    assert not found.certain
    assert "Rails, as a comment since init is not certain" in capsys.readouterr().out
    assert "vars" not in yaml.safe_load(text)["torch_nodes"]


# --- the verb -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "typed", "outcome"),
    [
        ((), ("", "", "", ""), (True, 2)),
        ((), ("", "", "n", ""), (True, 0)),
        (("--non-interactive",), (), (True, 2)),
        (("--json",), (), (True, 2)),
        (("--json", "--keep-network"), (), (False, 0)),
    ],
)
def test_the_verb_writes_rails(  # noqa: PLR0913, PLR0917 (a table)
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    typed: tuple[str, ...],
    outcome: tuple[bool, int],
) -> None:
    certain, count = outcome
    answers = load_cable_surveys("two-switches")
    monkeypatch.setattr(look, "survey_machines", lambda *_rest: look.MachineSurvey(answers, [], []))
    monkeypatch.setattr(init_cli, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(init_cli, "HERE", tmp_path)
    keyboard = io.StringIO("".join(f"{word}\n" for word in typed))
    keyboard.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stdin", keyboard)
    assert cli.main(["init", "--hosts", ",".join(answers), "--out", "mine", *words]) == 0
    group = yaml.safe_load((tmp_path / "mine/hosts.yml").read_text())["torch_nodes"]
    assert len(group.get("vars", {}).get("fullmesh_rails", [])) == count
    said = capsys.readouterr().out
    if "--json" in words:
        told = json.loads(said)
        assert (told["rails_certain"], len(told["rails"])) == (certain, 2)
        assert "rail0: new addresses from 10.10.0.0/24, which no node uses" in told["rails_reasons"]
    else:
        assert "Rails:\n  every node has these fast NICs: eth2, eth3" in said


# --- what runs on the machine -------------------------------------------------------------------------


def test_chip_port_and_use_come_from_sysfs(tmp_path: Path) -> None:
    net = tmp_path / "sys/class/net"
    for name, port, chip in (
        ("enp1s0f1np1", "p1", SPARK_CHIP),
        ("enp1s0f1v0", "pf1vf0", SPARK_CHIP),
        ("odd", "p1 {{x}}", "not a chip"),
    ):
        device = net / name / "device/infiniband/rocep1s0f1"
        device.mkdir(parents=True)
        (device / "sys_image_guid").write_text(f"{chip}\n")
        (net / name / "phys_port_name").write_text(f"{port}\n")
    (net / "odd/upper_bond0").mkdir()
    shown = json.dumps([{"ifname": name} for name in ("enp1s0f1np1", "enp1s0f1v0", "odd", "a b")])
    node = NetworkNode(lambda _command: (0, shown, ""), str(tmp_path))
    assert neighbors.list_nic_ports(node) == [
        {"nic": "enp1s0f1np1", "stacked": False, "chip": SPARK_CHIP, "port": "p1"},
        {"nic": "enp1s0f1v0", "stacked": False, "chip": SPARK_CHIP, "port": ""},
        {"nic": "odd", "stacked": True, "chip": "", "port": ""},
    ]


def test_neighbors_are_bounded_and_only_of_these_nics() -> None:
    entries: list[dict[str, Any]] = [
        {"dst": "fe80::1", "dev": "eth2", "lladdr": f"02:00:00:00:{at >> 8:02x}:{at & 255:02x}"}
        for at in range(1000)
    ]
    entries += [
        {"dst": "fe80::2", "dev": "eth0", "lladdr": "02:00:00:00:00:01"},
        {"dst": "fe80::3", "dev": "eth2", "lladdr": "fe80::5"},
        {"dst": "fe80::4", "dev": "eth2", "state": ["FAILED"]},
    ]
    node = NetworkNode(lambda _command: (0, json.dumps(entries), ""))
    found = neighbors.list_neighbors(node, ["eth2"])
    assert len(found) == neighbors.NEIGHBORS_MOST
    assert {one["nic"] for one in found} == {"eth2"}
