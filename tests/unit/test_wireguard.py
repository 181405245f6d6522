"""Role wireguard: its plan, the peers of each node, and the node's own part with a recorded wg."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible.module_utils.fullmesh import wireguard as node_wireguard
from ansible.module_utils.fullmesh.survey import tunnel
from test_preflight import derive_plan_of_two, interface, run

from fullmesh import settings
from fullmesh.causes.env.dg189_gloo_other_interface import find_other_interfaces
from fullmesh.faults import InvalidInputError
from fullmesh.filters.wireguard import wireguard_node_settings, wireguard_pattern
from fullmesh.model import membership, plan, wireguard
from fullmesh.model.node_view import resolve_node_interfaces
from fullmesh.model.participants import build_job_members
from fullmesh.observed.links import TUNNEL_INTERFACE
from fullmesh.roles import cluster_env, preflight
from fullmesh.roles import wireguard as roles_wireguard

FACTS: Any = {"hcas": ["mlx5_0"], "rdma": [], "proxy": {}, "interfaces": []}


def make_hosts(**common: Any) -> dict[str, dict[str, Any]]:
    """Two hosts with WireGuard."""
    on = {"wireguard_manage": True, **common}
    return {
        "a": {"fullmesh_address": "10.0.0.11/24", "fullmesh_interface": "eth1", **on},
        "b": {"fullmesh_address": "10.0.0.12/24", "fullmesh_interface": "ens5", **on},
    }


def find_faults(hosts: dict[str, dict[str, Any]], **more: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidInputError) as refused:
        plan.derive_plan(hosts, **more)
    return [(fault.code, fault.text) for fault in refused.value.faults]


def make_key(letter: str) -> str:
    return base64.b64encode(letter.encode() * 32).decode()


PLAN = plan.derive_plan(make_hosts())
KEYS = {"a": make_key("a"), "b": make_key("b")}


# --- the plan -------------------------------------------------------------------------------------


def test_the_tunnel_has_the_cluster_addresses() -> None:
    assert PLAN["wireguard"] == {
        "interface": "fullmesh-wg",
        "network": "10.86.0.0/16",
        "port": 29820,
    }
    assert PLAN["master"]["address"] == "10.86.0.11"
    assert PLAN["rendezvous"]["endpoint"] == "10.86.0.11:29400"
    assert PLAN["peers"] == ["10.86.0.11", "10.86.0.12"]
    assert PLAN["hosts"][1] == {"address": "10.86.0.12", "names": ["b"]}
    assert {one["interface"] for one in PLAN["nodes"].values()} == {"fullmesh-wg"}
    assert 29820 in PLAN["reserved_ports"]
    assert wireguard.map_link_addresses(PLAN) == {"a": "10.0.0.11", "b": "10.0.0.12"}
    assert wireguard.list_tunnel_peers(PLAN) == ["10.0.0.11", "10.0.0.12"]
    assert wireguard.list_tunnel_ports(PLAN) == ["29820/udp"]
    assert "29820/udp" not in PLAN["open_ports"]


def test_without_wireguard_the_plan_has_no_tunnel() -> None:
    off = plan.derive_plan(make_hosts(wireguard_manage=False))
    assert "wireguard" not in off
    assert off["peers"] == ["10.0.0.11", "10.0.0.12"]
    assert wireguard.list_tunnel_peers(off) == wireguard.list_tunnel_ports(off) == []
    assert off["digests"] != PLAN["digests"]


def test_a_new_node_changes_only_the_list_of_nodes() -> None:
    hosts = make_hosts()
    hosts["c"] = {**hosts["b"], "fullmesh_address": "10.0.0.13/24"}
    more = plan.derive_plan(hosts)
    assert more["digests"]["a"] == PLAN["digests"]["a"]
    assert membership.compute_list_digest(more) != membership.compute_list_digest(PLAN)


def test_addresses_can_be_ipv6_and_given() -> None:
    made = plan.derive_plan(
        make_hosts(wireguard_network="fd86::/64", wireguard_addresses={"b": "fd86::1:b"})
    )
    assert made["family"] == "ipv6"
    assert made["peers"] == ["fd86::b", "fd86::1:b"]
    assert made["rendezvous"]["endpoint"] == "[fd86::b]:29400"


@pytest.mark.parametrize(
    ("given", "codes", "words"),
    [
        ({"wireguard_network": "10.86.0.0"}, ["PL-143", "PL-143"], "too small"),
        ({"wireguard_network": "ten"}, ["PL-142"], "wireguard_network"),
        ({"wireguard_network": "10.86.0.1/16"}, ["PL-142"], "has host bits set"),
        ({"wireguard_network": "127.0.0.0/8"}, ["PL-142"], "no addresses for hosts"),
        ({"wireguard_network": "fe80::/64"}, ["PL-142"], "no addresses for hosts"),
        ({"wireguard_port": 80}, ["PL-142"], "wireguard_port"),
        ({"wireguard_port": "no"}, ["PL-142"], "wireguard_port"),
        ({"wireguard_network": "10.86.0.0/29"}, ["PL-143", "PL-143"], "too small for address 11"),
        ({"wireguard_addresses": ["10.86.0.9"]}, ["PL-143"], "wireguard_addresses is"),
        ({"wireguard_addresses": {"z": "10.86.0.9"}}, ["PL-143"], "not in torch_nodes"),
        ({"wireguard_addresses": {"a": "10.87.0.9"}}, ["PL-143"], "not in 10.86.0.0/16"),
        ({"wireguard_addresses": {"a": "10.86.0.0"}}, ["PL-143"], "of the network"),
        ({"wireguard_addresses": {"a": "10.86.0.12"}}, ["PL-143"], "a and b would all have"),
        ({"wireguard_network": "10.0.0.0/16"}, ["PL-144", "PL-144"], "overlaps 10.0.0.0/24"),
        ({"wireguard_port": 50001}, ["PL-110"], "inside the data range"),
        (
            {"fullmesh_services": [{"name": "api", "ports": ["29820/udp"]}]},
            ["PL-111"],
            "29820",
        ),
        (
            {"fullmesh_rails": [{"name": "r", "nic": "eth2", "pool": "10.9.0.0/24"}]},
            ["PL-145"],
            "RDMA",
        ),
    ],
)
def test_unusable_settings_are_refused(given: dict[str, Any], codes: list[str], words: str) -> None:
    found = find_faults(make_hosts(**given))
    assert [code for code, _ in found] == codes
    assert words in found[0][1]


def test_faults_are_reported_together() -> None:
    found = find_faults(make_hosts(wireguard_port=1, wireguard_network="x"))
    assert [code for code, _ in found] == ["PL-142", "PL-142"]


def test_hosts_that_differ_are_refused() -> None:
    hosts = make_hosts()
    hosts["b"]["wireguard_port"] = 29821
    assert [code for code, _ in find_faults(hosts)] == ["PL-108"]


def test_routed_nodes_with_equal_places_need_addresses() -> None:
    hosts = make_hosts(fullmesh_routed=True)
    hosts["b"]["fullmesh_address"] = "10.0.1.11/24"
    assert [code for code, _ in find_faults(hosts)] == ["PL-143"]
    for one in hosts.values():
        one["wireguard_addresses"] = {"b": "10.86.1.11"}
    assert plan.derive_plan(hosts)["peers"] == ["10.86.0.11", "10.86.1.11"]


@pytest.mark.parametrize("address", ["10.86.0.12", "10.86.200.1"])
def test_ssh_through_the_tunnel_is_refused(address: str) -> None:
    ((code, text),) = find_faults(make_hosts(), ssh={"b": plan.InventorySsh(None, address)})
    assert code == "PL-144"
    assert address in text
    hosts = make_hosts()
    hosts["b"]["fullmesh_ssh_address"] = address
    assert [code for code, _ in find_faults(hosts)] == ["PL-144"]
    plan.derive_plan(make_hosts(), ssh={"b": plan.InventorySsh(22, "b.example")})


def test_the_interface_of_the_tunnel_needs_no_survey() -> None:
    seen: Any = [{"name": "eth1", "mac": "", "kind": "", "addresses": ["10.0.0.11/24"]}]
    node = resolve_node_interfaces(PLAN, "a", seen)
    assert (node["interface"], node["links"][0]["interface"]) == ("fullmesh-wg", "eth1")


def test_jobs_use_only_the_tunnel() -> None:
    env = cluster_env.build_environment(PLAN, PLAN["nodes"]["a"], FACTS)
    assert env["MASTER_ADDR"] == "10.86.0.11"
    assert env["GLOO_SOCKET_IFNAME"] == "fullmesh-wg"
    assert env["NCCL_SOCKET_IFNAME"] == "=fullmesh-wg"
    # the node has RDMA, which WireGuard does not encrypt
    assert (env["NCCL_IB_DISABLE"], env["NCCL_NET"]) == ("1", "Socket")
    assert "NCCL_IB_HCA" not in env
    off = plan.derive_plan(make_hosts(wireguard_manage=False))
    assert "NCCL_NET" not in cluster_env.build_environment(off, off["nodes"]["a"], FACTS)


def test_an_interface_in_the_network_is_refused() -> None:
    made = derive_plan_of_two({"wireguard_manage": True, "wireguard_network": "10.99.0.0/16"})

    def add(name: str, address: str) -> Callable[[Any], None]:
        def change(said: Any) -> None:
            interface(said, "eth0")["addresses"] += [address] if name == "eth0" else []
            if name != "eth0":
                seen = said["ansible_facts"]["fullmesh"]["interfaces"]
                seen.append({**interface(said, "eth0"), "name": name, "addresses": [address]})

        return change

    (fault,) = run(add("eth0", "10.99.3.4/24"), made=made)
    assert fault.startswith("[PR-123] el1: eth0 has 10.99.3.4/24")
    assert run(add("fullmesh-wg", "10.99.0.11/16"), made=made) == []
    assert "PR-123" in preflight.CODES


# --- the peers ------------------------------------------------------------------------------------


def test_each_node_gets_the_other_keys() -> None:
    assert roles_wireguard.build_tunnel_settings(PLAN, KEYS, "a") == {
        "address": "10.86.0.11/16",
        "peers": [
            {
                "name": "b",
                "public_key": KEYS["b"],
                "address": "10.86.0.12",
                "endpoint": "10.0.0.12:29820",
            }
        ],
        "keep": [],
    }


def test_nodes_outside_the_run_are_kept_and_new_ones_wait() -> None:
    limited = roles_wireguard.build_tunnel_settings(PLAN, {"a": KEYS["a"]}, "a")
    assert (limited["peers"], limited["keep"]) == ([], ["10.86.0.12"])
    # check mode on a new node: it has no key yet
    checked = roles_wireguard.build_tunnel_settings(PLAN, {"a": KEYS["a"], "b": ""}, "a")
    assert (checked["peers"], checked["keep"]) == ([], [])


@pytest.mark.parametrize("key", ["x", KEYS["b"] + "\n", "A" * 44, "[Peer]\nAllowedIPs = 0.0.0.0/0"])
def test_a_node_that_lies_about_its_key_is_refused(key: str) -> None:
    hostvars = {"a": {"__wireguard_public": KEYS["a"]}, "b": {"__wireguard_public": key}}
    with pytest.raises(AnsibleFilterError, match=r"\[WG-102\] b reports"):
        wireguard_node_settings(PLAN, hostvars, ["a", "b"], "a")


def test_a_copied_key_is_refused() -> None:
    hostvars = {name: {"__wireguard_public": KEYS["a"]} for name in ("a", "b")}
    with pytest.raises(AnsibleFilterError, match=r"\[WG-107\] a and b have the same key"):
        wireguard_node_settings(PLAN, hostvars, ["a", "b"], "a")
    with pytest.raises(AnsibleFilterError, match="is missing"):
        wireguard_node_settings(PLAN, {"a": {}}, ["a"], "a")


def test_the_role_needs_the_setting_in_the_inventory() -> None:
    off: Any = {"wireguard_manage": True, "wireguard_plan": {}}
    assert [fault.code for fault in roles_wireguard.find_wireguard_faults(off)] == ["WG-108"]
    assert roles_wireguard.find_wireguard_faults({**off, "wireguard_plan": PLAN}) == []
    assert roles_wireguard.find_wireguard_faults({**off, "wireguard_manage": False}) == []


def test_the_play_has_the_hosts_with_wireguard() -> None:
    hostvars = {"a": {"wireguard_manage": "yes"}, "b": {}}
    assert "a" in wireguard_pattern(hostvars, ["a", "b"])
    assert wireguard_pattern({"b": {}}, ["b"]) == wireguard_pattern({}, [])


def test_one_name_of_the_interface() -> None:
    own = yaml.safe_load((settings.ROOT / "roles/wireguard/vars/main.yml").read_text())
    assert own["__wireguard_interface"] == TUNNEL_INTERFACE
    assert set(CODES_OF_NODES) <= set(roles_wireguard.CODES)


# --- the node -------------------------------------------------------------------------------------

CODES_OF_NODES = ("WG-101", "WG-103", "WG-104", "WG-105", "WG-106")
PRIVATE = make_key("p")
PEER: Any = {
    "name": "b",
    "public_key": KEYS["b"],
    "address": "10.86.0.12",
    "endpoint": "10.0.0.12:29820",
}
PARAMS: Any = {
    "state": "present",
    "interface": "fullmesh-wg",
    "address": "10.86.0.11/16",
    "port": 29820,
    "nic": "lo",
    "peers": [PEER],
    "keep": [],
}


class Machine:
    """A machine that records the commands. ``said`` maps the first words of a command to its answer."""

    def __init__(self) -> None:
        self.said: dict[str, tuple[int, str, str]] = {
            "wg --version": (0, "wireguard-tools v1", ""),
            "wg genkey": (0, PRIVATE + "\n", ""),
            "sh -c": (0, KEYS["a"] + "\n", ""),
            "wireguard-go --version": (0, "", ""),
        }
        self.calls: list[str] = []

    def run(self, command: list[str]) -> tuple[int, str, str]:
        """Return the recorded answer."""
        text = " ".join(command)
        self.calls.append(text)
        found = [answer for start, answer in self.said.items() if text.startswith(start)]
        return found[0] if found else (0, "", "")

    def list_unit_steps(self) -> list[str]:
        """List the calls that change the unit."""
        words = ("enable", "restart", "reload", "stop", "disable")
        return [one.split()[1] for one in self.calls if one.split()[1] in words]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(node_wireguard, "FOLDER", str(tmp_path / "wireguard"))
    monkeypatch.setattr(node_wireguard, "HANDSHAKE_SECONDS", 0.0)
    monkeypatch.setattr(node_wireguard, "read_mtu", lambda _nic: 1420)
    return Machine()


def read_files() -> dict[str, str]:
    return {path.name: path.read_text() for path in Path(node_wireguard.FOLDER).glob("*")}


def show_device(private: str = PRIVATE, port: str = "29820", peers: str = "10.86.0.12/32") -> str:
    rows = [[private, KEYS["a"], port, "off"]]
    rows += [[KEYS["b"], "(none)", "10.0.0.12:29820", peers, "1", "2", "3", "25"]] if peers else []
    return "\n".join("\t".join(row) for row in rows) + "\n"


def test_a_key_is_made_once_and_only_its_public_half_is_returned(machine: Machine) -> None:
    first = node_wireguard.ensure_key(PARAMS, machine.run, check=False)
    assert first["changed"] is True
    assert first["public_key"] == KEYS["a"]
    assert PRIVATE not in str(first)
    key = Path(node_wireguard.FOLDER) / "fullmesh-wg.key"
    assert key.read_text() == PRIVATE + "\n"
    assert (key.stat().st_mode & 0o777, key.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert node_wireguard.ensure_key(PARAMS, machine.run, check=False)["changed"] is False
    # the private key is in no command line
    assert not [one for one in machine.calls if PRIVATE in one]


@pytest.mark.parametrize("text", ["", "damaged\n", PRIVATE[:-2] + "\n"])
def test_a_damaged_key_is_replaced(machine: Machine, text: str) -> None:
    key = Path(node_wireguard.FOLDER) / "fullmesh-wg.key"
    key.parent.mkdir()
    key.write_text(text)
    assert node_wireguard.ensure_key(PARAMS, machine.run, check=True) == {
        "changed": True,
        "public_key": "",
        "needs_packages": False,
        "userspace": False,
    }
    assert key.read_text() == text
    node_wireguard.ensure_key(PARAMS, machine.run, check=False)
    assert key.read_text() == PRIVATE + "\n"


def test_a_readable_key_is_protected_again(machine: Machine) -> None:
    node_wireguard.ensure_key(PARAMS, machine.run, check=False)
    key = Path(node_wireguard.FOLDER) / "fullmesh-wg.key"
    key.chmod(0o644)
    assert node_wireguard.ensure_key(PARAMS, machine.run, check=False)["changed"] is True
    assert key.stat().st_mode & 0o777 == 0o600


def test_missing_programs_are_reported_without_a_change(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.said["wg --version"] = (node_wireguard.NOT_FOUND, "", "no such file")
    found = node_wireguard.ensure_key(PARAMS, machine.run, check=False)
    assert (found["changed"], found["needs_packages"]) == (True, True)
    assert read_files() == {}
    # a kernel without WireGuard needs wireguard-go
    monkeypatch.setattr(node_wireguard, "has_kernel_module", lambda _run: False)
    machine.said |= {
        "wg --version": (0, "", ""),
        "wireguard-go --version": (node_wireguard.NOT_FOUND, "", ""),
    }
    found = node_wireguard.ensure_key(PARAMS, machine.run, check=False)
    assert (found["needs_packages"], found["userspace"]) == (True, True)


def test_the_kernel_module_is_found_without_loading_it(machine: Machine, tmp_path: Path) -> None:
    machine.said["modprobe"] = (1, "", "")
    assert node_wireguard.has_kernel_module(machine.run, str(tmp_path)) is False
    assert machine.calls == ["modprobe --dry-run --quiet wireguard"]
    (tmp_path / "sys/module/wireguard").mkdir(parents=True)
    assert node_wireguard.has_kernel_module(machine.run, str(tmp_path)) is True


def test_a_program_that_makes_no_key_is_named(machine: Machine) -> None:
    machine.said["wg genkey"] = (1, "", "wg: no random numbers\n")
    with pytest.raises(node_wireguard.WireGuardError, match=r"\[WG-103\] wg .*no random numbers"):
        node_wireguard.ensure_key(PARAMS, machine.run, check=False)


def install(machine: Machine, check: bool = False, **change: Any) -> Any:
    machine.calls.clear()
    return node_wireguard.install_tunnel({**PARAMS, **change}, machine.run, check)


def test_the_tunnel_is_configured_and_then_unchanged(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    node_wireguard.ensure_key(PARAMS, machine.run, check=False)
    machine.said |= {"systemctl is-": (1, "", ""), "wg show": (1, "", "no device")}
    dry = install(machine, check=True)
    assert (dry["changed"], dry["steps"], machine.list_unit_steps()) == (
        True,
        ["enable", "restart"],
        [],
    )
    made = install(machine)
    assert machine.list_unit_steps() == ["enable", "restart"]
    text = read_files()["fullmesh-wg.conf"]
    assert f"PrivateKey = {PRIVATE}" in text
    assert "MTU = 1420" in text
    assert "AllowedIPs = 10.86.0.12/32\nEndpoint = 10.0.0.12:29820" in text
    # neither the result nor its diff has the private key
    assert PRIVATE not in str(made) + str(dry)
    assert "PrivateKey = (hidden)" in made["diff"][0]["after"]
    machine.said |= {"systemctl is-": (0, "", ""), "wg show": (0, show_device(), "")}
    monkeypatch.setattr(node_wireguard, "choose_device_steps", lambda *_: [])
    assert install(machine) == {"changed": False, "diff": [], "steps": []}
    # a damaged configuration is written again, without an interruption
    (Path(node_wireguard.FOLDER) / "fullmesh-wg.conf").write_text("[Interface]\n")
    assert install(machine)["steps"] == ["reload"]
    assert read_files()["fullmesh-wg.conf"] == text
    # another file's mode is a change as well
    (Path(node_wireguard.FOLDER) / "fullmesh-wg.conf").chmod(0o644)
    assert install(machine)["changed"] is True
    assert (Path(node_wireguard.FOLDER) / "fullmesh-wg.conf").stat().st_mode & 0o777 == 0o600


def test_a_peer_outside_the_run_keeps_its_entry(machine: Machine) -> None:
    node_wireguard.ensure_key(PARAMS, machine.run, check=False)
    install(machine)
    install(machine, peers=[], keep=["10.86.0.12"])
    assert KEYS["b"] in read_files()["fullmesh-wg.conf"]
    # a node that left the plan is removed
    install(machine, peers=[], keep=[])
    assert KEYS["b"] not in read_files()["fullmesh-wg.conf"]
    assert (
        node_wireguard.parse_config_peers("\n# x\n[Peer]\nPublicKey = y\nAllowedIPs = 0.0.0.0/0")
        == []
    )
    assert node_wireguard.parse_config_peers("\n# x\n[Peer]\nAllowedIPs = no") == []


@pytest.mark.parametrize(
    ("shown", "steps"),
    [
        (show_device(), []),
        ("", ["restart"]),
        (show_device(private=make_key("q")), ["restart"]),
        (show_device(port="1"), ["restart"]),
        (show_device(peers=""), ["reload"]),
        (show_device(peers="0.0.0.0/0"), ["reload"]),
    ],
)
def test_the_running_interface_is_compared(
    machine: Machine, tmp_path: Path, shown: str, steps: list[str]
) -> None:
    folder = tmp_path / "sys/class/net/fullmesh-wg"
    folder.mkdir(parents=True)
    (folder / "mtu").write_text("1420\n")
    (folder / "flags").write_text("0x1091\n")
    machine.said |= {
        "wg show": (0, shown, ""),
        "ip -o address": (0, "9: fullmesh-wg    inet 10.86.0.11/16 scope global", ""),
    }
    target = node_wireguard.WireGuardTarget(PRIVATE, 1420, [PEER])
    assert node_wireguard.choose_device_steps(PARAMS, machine.run, target, str(tmp_path)) == steps
    # an interface that is down, or has another MTU or address, is restarted
    (folder / "flags").write_text("0x1090\n")
    assert node_wireguard.choose_device_steps(PARAMS, machine.run, target, str(tmp_path)) == [
        "restart"
    ]


def test_a_small_mtu_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "sys/class/net/eth1"
    folder.mkdir(parents=True)
    for text in ("1300", "", "x", "9" * 9):
        (folder / "mtu").write_text(text)
        with pytest.raises(node_wireguard.WireGuardError, match=r"\[WG-104\] .*eth1"):
            node_wireguard.read_mtu("eth1", str(tmp_path))
    (folder / "mtu").write_text("9000\n")
    assert node_wireguard.read_mtu("eth1", str(tmp_path)) == 8920


def test_a_unit_that_fails_is_reported_with_its_journal(machine: Machine) -> None:
    machine.said |= {"systemctl restart": (1, "", ""), "journalctl": (0, "in use\nfailed\n", "")}
    with pytest.raises(node_wireguard.WireGuardError, match=r"\[WG-105\] .*in use; failed"):
        node_wireguard.run_unit_step(machine.run, "restart", "wg-quick@fullmesh-wg.service")


@pytest.mark.parametrize(("age", "answers"), [(5, True), (179, True), (181, False), (None, False)])
def test_a_peer_without_a_session_is_named(
    machine: Machine, age: int | None, answers: bool
) -> None:
    at = 0 if age is None else int(time.time()) - age
    machine.said["wg show fullmesh-wg latest-handshakes"] = (0, f"{KEYS['b']}\t{at}\n", "")
    if answers:
        node_wireguard.check_tunnel(PARAMS, machine.run)
    else:
        with pytest.raises(node_wireguard.WireGuardError, match=r"\[WG-106\] b did not answer"):
            node_wireguard.check_tunnel(PARAMS, machine.run)


def test_undo_stops_a_unit_that_is_on(machine: Machine) -> None:
    assert node_wireguard.stop_tunnel("fullmesh-wg", machine.run, check=True) is True
    assert machine.list_unit_steps() == []
    assert node_wireguard.stop_tunnel("fullmesh-wg", machine.run, check=False) is True
    assert machine.list_unit_steps() == ["stop", "disable"]
    machine.said["systemctl is-"] = (1, "", "")
    assert node_wireguard.stop_tunnel("fullmesh-wg", machine.run, check=False) is False


# --- the survey -----------------------------------------------------------------------------------


@pytest.fixture
def surveyed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(tunnel, "CLASS", str(tmp_path))
    monkeypatch.setattr(tunnel, "CONFIG", str(tmp_path / "fullmesh-wg.conf"))
    answers = {
        "public-key": [[KEYS["a"]]],
        "listen-port": [["29820"]],
        "allowed-ips": [[KEYS["b"], "10.86.0.12/32"], ["not a key", "0.0.0.0/0"]],
        "latest-handshakes": [[KEYS["b"], str(int(time.time()) - 60)]],
        "transfer": [[KEYS["b"], "100", "200"]],
    }
    monkeypatch.setattr(tunnel, "ask_wg", lambda what: answers[what])
    return tmp_path


def test_the_survey_reads_the_tunnel(surveyed: Path) -> None:
    assert tunnel.survey_tunnel() is None
    (surveyed / "fullmesh-wg.conf").write_text("")
    assert tunnel.survey_tunnel() == {"up": False, "public_key": "", "peers": []}
    (surveyed / "fullmesh-wg").mkdir()
    (surveyed / "fullmesh-wg/flags").write_text("0x1091\n")
    found = tunnel.survey_tunnel()
    assert found
    assert (found["up"], found["public_key"]) == (True, KEYS["a"])
    (peer,) = found["peers"]
    assert peer["networks"] == ["10.86.0.12/32"]
    assert 59 <= peer["age"] <= 61


def test_the_survey_of_an_account_without_rights_is_empty(
    surveyed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (surveyed / "fullmesh-wg.conf").write_text("")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert tunnel.survey_tunnel() is None


def test_a_job_past_the_tunnel_is_named() -> None:
    nics = [{"name": "eth1"}, {"name": "fullmesh-wg"}]
    evidence: Any = SimpleNamespace(
        plan=PLAN,
        list_nics=lambda _name: nics,
        get_cluster_interface=lambda _name: "fullmesh-wg",
    )
    assert find_other_interfaces(evidence, "a", "eth1") == ["eth1"]
    assert find_other_interfaces(evidence, "a", "fullmesh-wg") == []
    evidence.plan = {key: value for key, value in PLAN.items() if key != "wireguard"}
    assert find_other_interfaces(evidence, "a", "eth1") == []


def test_the_network_of_the_job_is_the_tunnel() -> None:
    members = build_job_members(PLAN)
    assert members["networks"] == ["10.86.0.0/16"]
    assert members["nodes"][0]["addresses"] == ["10.86.0.11", "10.0.0.11"]


def test_no_handshake_has_no_age() -> None:
    assert tunnel.read_age("0", 1e9) == tunnel.read_age("x", 1e9) == -1
    assert tunnel.read_age("1000000010", 1e9) == 0
