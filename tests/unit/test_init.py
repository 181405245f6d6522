"""init: its machines, their recorded answers, the chosen network, and the written inventory."""

from __future__ import annotations

import copy
import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.fullmesh.network import ways as network_ways
from ansible.module_utils.fullmesh.network.machine import NetworkNode
from record_files import RECORDED, read_record

from fullmesh import cli, contract
from fullmesh.faults import InvalidInputError
from fullmesh.init import look, machines, propose, render
from fullmesh.init.machines import Machine
from fullmesh.init.propose import MachineAnswer
from fullmesh.model import plan, reach
from fullmesh.observed.first_look import Ways
from fullmesh.settings import ROOT, find_setting_faults, load_setting_names
from fullmesh.verbs import init as init_cli

TOLD = {name: read_record(RECORDED / f"first_look/{name}.json") for name in ("el1", "ubuntu1")}
BOTH = machines.parse_machines(["el1,ubuntu1"])


def load_surveys() -> dict[str, MachineAnswer]:
    """Return the survey of both lab nodes."""
    return copy.deepcopy(dict(look.read_survey(BOTH, TOLD).answers))


def card(answer: MachineAnswer, name: str) -> Any:
    return next(one for one in answer.facts["fullmesh"]["interfaces"] if one["name"] == name)


def list_routes(answer: MachineAnswer) -> Ways:
    assert answer.ways is not None
    return answer.ways


# --- machines
# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["a,b c"], ["a", "b", "c"]),
        (["gpu[1:3]"], ["gpu1", "gpu2", "gpu3"]),
        (["gpu[08-10].rack"], ["gpu08", "gpu09", "gpu10"]),
        (["r[1:2]n[1:2]"], ["r1n1", "r1n2", "r2n1", "r2n2"]),
        (["a,a"], ["a"]),
        (["root@192.0.2.7"], ["node-192-0-2-7"]),
        (["2001:db8::7"], ["node-2001-db8-7"]),
        ([""], []),
    ],
)
def test_names_and_ranges(words: list[str], found: list[str]) -> None:
    assert [one.name for one in machines.parse_machines(words)] == found


def test_a_user_and_an_address_are_kept() -> None:
    assert machines.parse_machines(["ann@gpu1.example"]) == [Machine("gpu1", "gpu1.example", "ann")]


@pytest.mark.parametrize(
    "word", ["gpu[4:1]", "gpu[1:9999]", "gpu[a:b]", "a;b", "-o", "x.one,x.two", "*"]
)
def test_a_word_that_is_no_machine_is_rejected(word: str) -> None:
    with pytest.raises(InvalidInputError, match=r"\[IN-101\]"):
        machines.parse_machines([word])


def test_machines_are_read_from_files() -> None:
    assert machines.parse_hosts_file("a slots=8\n# b\n\nann@c # d\n") == ["a", "ann@c"]
    config = "Host a b*\n  HostName 192.0.2.1\nhost=c d !e\nMatch all\n  User root\n"
    assert machines.parse_ssh_config(config) == ["a", "c", "d"]


# --- the network --------------------------------------------------------------------------------------


def test_of_two_networks_the_one_without_ssh_is_chosen() -> None:
    found = propose.propose_networks(load_surveys())
    assert [seat.card["name"] for one in found for seat in one.seats.values()] == ["eth1"] * 2 + [
        "eth0"
    ] * 2
    assert "ssh uses another network, so this one only carries jobs" in found[0].reasons()
    assert "ssh uses it as well" in found[1].reasons()
    assert {seat.owner for seat in found[0].seats.values()} == {"networkmanager", "netplan"}


def test_a_faster_network_wins_over_one_for_itself() -> None:
    answers = load_surveys()
    for answer in answers.values():
        card(answer, "eth1")["speed"] = 1000
    best = propose.choose_proposal(answers)
    assert {seat.card["name"] for seat in best.seats.values()} == {"eth0"}
    assert "its slowest NIC runs at 10 Gbit/s" in best.reasons()
    asked = propose.choose_proposal(answers, str(propose.propose_networks(answers)[1].network))
    assert {seat.card["name"] for seat in asked.seats.values()} == {"eth1"}


def test_rdma_wins_over_speed() -> None:
    answers = load_surveys()
    for answer in answers.values():
        card(answer, "eth0")["speed"] = 1000
        gid = {"index": 0, "type": "RoCE v2", "gid": "::1", "interface": "eth0"}
        port = {
            "device": "mlx5_0",
            "port": 1,
            "driver": "mlx5_core",
            "layer": "Ethernet",
            "active": True,
            "gids": [gid],
        }
        answer.facts["fullmesh"]["rdma"].append(port)  # type: ignore[arg-type]
    best = propose.choose_proposal(answers)
    assert best.rdma
    assert "every NIC in it is an RDMA device" in best.reasons()


def test_a_usb4_cable_wins_over_a_slower_nic_although_it_reports_no_speed() -> None:
    """As two Strix Halo machines have it: 2.5 Gbit/s for ssh, and a cable between them."""
    answers = load_surveys()
    for answer in answers.values():
        card(answer, "eth0")["speed"] = 2500
        card(answer, "eth1").update(name="thunderbolt0", speed=0, mtu=65520)
    best = propose.choose_proposal(answers)
    assert {seat.card["name"] for seat in best.seats.values()} == {"thunderbolt0"}
    assert "it is a USB4 cable, with 10 Gbit/s or more" in best.reasons()
    assert render.render_hosts_file(BOTH, best, "ann").count("mtu: 65520") == 2
    for answer in answers.values():
        card(answer, "eth0")["speed"] = 25000
    assert {seat.card["name"] for seat in propose.choose_proposal(answers).seats.values()} == {
        "eth0"
    }


def test_container_networks_are_ignored() -> None:
    answers = load_surveys()
    for answer in answers.values():
        card(answer, "eth1")["name"] = "docker0"
        card(answer, "eth0")["kind"] = "bridge"
    with pytest.raises(
        InvalidInputError, match=r"\[IN-104\] no network joins all nodes \(el1: no address"
    ):
        propose.choose_proposal(answers)


def test_without_a_common_network_none_is_chosen() -> None:
    answers = load_surveys()
    for name in ("eth0", "eth1"):
        card(answers["el1"], name)["addresses"] = [f"192.0.2.{len(name)}/24"]
    with pytest.raises(InvalidInputError, match=r"\[IN-104\].*el1: 192\.0\.2\.4/24 on eth0"):
        propose.choose_proposal(answers)
    with pytest.raises(
        InvalidInputError, match=r"\[IN-104\] the network 198\.51\.100\.0/24 does not join"
    ):
        propose.choose_proposal(load_surveys(), "198.51.100.0/24")


# --- the inventory
# -------------------------------------------------------------------------------------


def hosts(answers: dict[str, MachineAnswer], user: str = "") -> dict[str, Any]:
    text = render.render_hosts_file(BOTH, propose.choose_proposal(answers), user)
    found: dict[str, Any] = yaml.safe_load(text)["torch_nodes"]["hosts"]
    return found


def check_plan(found: dict[str, Any]) -> None:
    """Check that the plan accepts it, and that every name exists."""
    made = plan.derive_plan(found)
    assert set(made["nodes"]) == set(found)
    names = load_setting_names()
    assert [
        fault for host, own in found.items() for fault in find_setting_faults(host, own, names)
    ] == []


def test_the_short_form_is_used_if_it_suffices() -> None:
    found = hosts(load_surveys())
    assert found["el1"] == {
        "fullmesh_address": propose.choose_proposal(load_surveys()).seats["el1"].address,
        "fullmesh_interface": "eth1",
    }
    check_plan(found)


def test_a_single_nic_with_the_default_route_is_unchanged() -> None:
    answers = load_surveys()
    for answer in answers.values():
        card(answer, "eth1")["addresses"] = []
        card(answer, "eth0")["mtu"] = 9000
        gateway = card(answer, "eth0")["addresses"][0].rpartition(".")[0] + ".1"
        list_routes(answer)["defaults"] = [
            {"family": 4, "via": gateway, "dev": "eth0", "dynamic": True}
        ]
        list_routes(answer)["leased"], list_routes(answer)["dns"] = ["eth0"], ["192.0.2.53"]
        list_routes(answer)["search"] = ["cluster.example"]
    found = hosts(answers)
    (link,) = found["el1"]["fullmesh_links"]
    assert link["interface"] == "eth0"
    assert link["gateway"].endswith(".1")
    assert (link["dns"], link["search"], link["mtu"]) == (["192.0.2.53"], ["cluster.example"], 9000)
    check_plan(found)
    assert any(
        "reserve it in DHCP" in reason for reason in propose.choose_proposal(answers).reasons()
    )


def test_settings_are_those_of_prod_with_the_user() -> None:
    template = init_cli.TEMPLATE.read_text()
    assert render.USER_LINE in template
    assert yaml.safe_load(render.render_settings_file(template, "ann", keep_network=True)) == {
        **yaml.safe_load(template),
        "ansible_user": "ann",
        "static_ip_manage": False,
    }
    assert "ansible_user" not in yaml.safe_load(
        render.render_settings_file(template, "", keep_network=False)
    )


def test_the_ssh_address_of_a_machine_is_written() -> None:
    there = [Machine("el1", "el1.example", "ann"), Machine("ubuntu1", "ubuntu1", "bob")]
    found = yaml.safe_load(
        render.render_hosts_file(there, propose.choose_proposal(load_surveys()), "ann")
    )
    one, two = found["torch_nodes"]["hosts"].values()
    assert (one["ansible_host"], "ansible_user" in one) == ("el1.example", False)
    assert ("ansible_host" in two, two["ansible_user"]) == (False, "bob")
    asked = render.build_survey_inventory(there)
    assert asked == {
        "all": {
            "hosts": {
                "el1": {"ansible_host": "el1.example", "ansible_user": "ann"},
                "ubuntu1": {"ansible_host": "ubuntu1", "ansible_user": "bob"},
            }
        }
    }


# --- answers of machines
# -------------------------------------------------------------------------------


def test_recorded_answers_match_their_types() -> None:
    for text in TOLD.values():
        said = contract.convert_answer(Ways, json.loads(text)["ways"])
        assert said is not None
        assert said["session"][3] == "22"


def test_a_machine_without_an_answer_or_root_is_named() -> None:
    told = {
        "el1": read_record(RECORDED / "first_look/silent.json"),
        "ubuntu1": read_record(RECORDED / "first_look/rootless.json"),
    }
    found = look.read_survey(BOTH, told)
    assert [str(fault)[:8] for fault in found.faults] == ["[IN-103]"]
    assert "its name does not resolve to an address" in str(found.faults[0])
    assert [str(fault)[:8] for fault in found.remarks] == ["[IN-106]"]
    assert "-K" in str(found.remarks[0])
    assert set(found.answers) == {"ubuntu1"}
    assert look.read_survey(BOTH, {}).faults[0].text == "el1: no answer"


@pytest.mark.parametrize(
    ("message", "step"),
    [
        ("Host key verification failed.", "ssh-keyscan -t ed25519 gpu1"),
        ("root@gpu1: Permission denied (publickey,password).", "ssh-copy-id ann@gpu1"),
        ("ssh: connect to host gpu1 port 22: Connection refused", "sshd"),
        ("ssh: connect to host gpu1 port 22: Connection timed out", "ssh ann@gpu1"),
        ("ssh: connect to host gpu1 port 22: No route to host", "ssh ann@gpu1"),
        ("sudo: a password is required", "-K"),
        ("ann is not in the sudoers file.", "-K"),
        # recorded with sudo-rs 0.2.5 of Debian 13
        ("sudo-rs: interactive authentication is required", "-K"),
        ("sudo-rs: I'm sorry ann. I'm afraid I can't do that", "-K"),
        ("sudo: Authentication failed, try again.", "-K"),
        ("sudo-rs: Maximum 3 incorrect authentication attempts", "-K"),
        ("Timeout (12s) waiting for privilege escalation prompt: ", "ansible_become_exe: sudo.ws"),
        # recorded: ansible-core 2.21 with the right password, 2.22 with a wrong one
        (
            "Timed out waiting for become success or become password prompt.\n>>> Standard Error\n"
            "[sudo: [sudo via ansible, key=ezhx] password:] Password:",
            "ansible-core 2.22",
        ),
        (
            "Timed out waiting for become success or become password prompt.\n>>> Standard Error\n"
            "[sudo: [sudo via ansible, key=ezhx] password:] Password: \n"
            "sudo: Authentication failed, try again.\n",
            "-K",
        ),
        ("/bin/sh: 1: /usr/bin/python3: not found", "python3"),
        ("OSError: [Errno 28] No space left on device", "df -h"),
    ],
)
def test_ssh_and_sudo_errors_become_a_next_step(message: str, step: str) -> None:
    found = reach.explain_reach_failure(message, "gpu1", "ann")
    assert found is not None
    assert step in found.step


def test_other_errors_are_passed_on() -> None:
    assert reach.explain_reach_failure("something else", "gpu1") is None


# --- the command
# ---------------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[Machine]]:
    """Return the lab's recorded answers without contacting a machine."""
    calls: list[list[Machine]] = []

    def ask(found: list[Machine], *_rest: object) -> look.MachineSurvey:
        calls.append(list(found))
        return look.read_survey(found, TOLD)

    monkeypatch.setattr(look, "survey_machines", ask)
    monkeypatch.setattr(init_cli, "RUNS", tmp_path / "runs")
    monkeypatch.setattr(init_cli, "HERE", tmp_path)
    monkeypatch.setattr(init_cli, "SSH_CONFIG", tmp_path / "ssh")
    monkeypatch.chdir(tmp_path)
    return calls


def type_answers(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    """Simulate a user at a terminal, with typed answers."""
    keyboard = io.StringIO("".join(f"{word}\n" for word in words))
    keyboard.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stdin", keyboard)


def test_init_works_without_questions(
    asked: list[list[Machine]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["init", "--hosts", "el1,ubuntu1", "--out", "mine", "--non-interactive"]) == 0
    written = yaml.safe_load((tmp_path / "mine/hosts.yml").read_text())
    check_plan(written["torch_nodes"]["hosts"])
    said = capsys.readouterr().out
    assert "./fullmesh plan -i mine" in said
    assert "CentOS 9" in said
    before = (tmp_path / "mine/hosts.yml").read_text()
    assert cli.main(["init", "--hosts", "el1,ubuntu1", "--out", "mine", "--non-interactive"]) == 2
    assert "[IN-102]" in capsys.readouterr().err
    assert (tmp_path / "mine/hosts.yml").read_text() == before
    assert len(asked) == 1


def test_json_describes_the_written_inventory(
    asked: list[list[Machine]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    type_answers(monkeypatch)
    assert cli.main(["init", "--hosts", "el1,ubuntu1", "--out", "mine", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    hosts = yaml.safe_load((tmp_path / "mine/hosts.yml").read_text())["torch_nodes"]["hosts"]
    assert told["inventory"] == str(tmp_path / "mine")
    assert [(one["node"], one["ssh"]) for one in told["nodes"]] == [(one, one) for one in hosts]
    assert all(one["address"].startswith("10.78.") for one in told["nodes"])
    assert told["network"] in told["reasons"][0]
    assert len(asked) == 1


def test_every_question_has_a_default(
    asked: list[list[Machine]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ssh").write_text("Host el1 ubuntu1 *.example\n")
    type_answers(monkeypatch, "", "", "", "")
    assert cli.main(["init", "--out", "mine"]) == 0
    assert [one.name for one in asked[0]] == ["el1", "ubuntu1"]
    assert "eth1" in (tmp_path / "mine/hosts.yml").read_text()


def test_other_answers_change_the_inventory(
    asked: list[list[Machine]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = str(propose.propose_networks(load_surveys())[1].network)
    type_answers(monkeypatch, "el1 ubuntu1", "ann", other, "y")
    assert cli.main(["init", "--out", "mine"]) == 0
    assert {one.user for one in asked[0]} == {"ann"}
    assert "eth0" in (tmp_path / "mine/hosts.yml").read_text()
    assert (
        yaml.safe_load((tmp_path / "mine/group_vars/all.yml").read_text())["ansible_user"] == "ann"
    )


def test_declining_writes_nothing(
    asked: list[list[Machine]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    type_answers(monkeypatch, "", "", "n")
    assert cli.main(["init", "--hosts", "el1,ubuntu1", "--out", "mine"]) == 0
    assert not (tmp_path / "mine").exists()
    assert asked


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([], "IN-105"),
        (["--hosts", "x[3:1]"], "IN-101"),
        (["--hosts-file", "none"], "IN-107"),
        (["--ssh-config", "none"], "IN-107"),
        (["--hosts", "el1,ubuntu1,third"], "IN-103"),
        (["--hosts", "el1,ubuntu1", "--network", "198.51.100.0/24"], "IN-104"),
    ],
)
def test_invalid_calls_are_refused(
    asked: list[list[Machine]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: str,
) -> None:
    del asked
    assert cli.main(["init", *words, "--out", "mine", "--non-interactive"]) == 2
    assert f"[{code}]" in capsys.readouterr().err
    assert not (tmp_path / "mine").exists()


def test_an_inventory_that_the_plan_refuses_is_not_written() -> None:
    text = "torch_nodes:\n  hosts:\n    a: {fullmesh_address: 192.0.2.1/24}\n    b: {fullmesh_address: 192.0.2.1/24}\n"
    with pytest.raises(InvalidInputError, match=r"\[PL-"):
        init_cli.check_inventory_text(text, {})


def test_the_name_of_the_default_folder_is_the_docs() -> None:
    assert init_cli.DEFAULT_OUT in (ROOT / "docs/first-run.md").read_text()


# --- the program on the machine
# ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "# made\nnameserver 192.0.2.53\nnameserver 2001:db8::53\nsearch a.example b.example\n",
            (["192.0.2.53", "2001:db8::53"], ["a.example", "b.example"]),
        ),
        ("nameserver 127.0.0.53\noptions edns0\nsearch .\n", ([], [])),
        ("nameserver\nnameserver nonsense\n", ([], [])),
    ],
)
def test_name_servers_are_read(text: str, found: tuple[list[str], list[str]]) -> None:
    assert network_ways.parse_resolv_conf(text) == found


def test_upstream_servers_come_before_resolved(tmp_path: Path) -> None:
    for path, text in zip(
        network_ways.RESOLVERS, ("nameserver 192.0.2.53\n", "nameserver 127.0.0.53\n"), strict=True
    ):
        (tmp_path / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path[1:]).write_text(text)
    routes = '[{"dst": "default", "gateway": "192.0.2.1", "dev": "eth0", "protocol": "dhcp"}]'

    def run(command: list[str]) -> tuple[int, str, str]:
        if command[:4] == ["ip", "-j", "-4", "route"]:
            return 0, routes, ""
        return (0, "[]", "") if command[0] == "ip" else (127, "", "not found")

    found = network_ways.observe_network(NetworkNode(run, str(tmp_path)))
    assert found["dns"] == ["192.0.2.53"]
    assert found["defaults"] == [{"family": 4, "via": "192.0.2.1", "dev": "eth0", "dynamic": True}]
    assert (found["owners"], found["leased"]) == ({}, [])
