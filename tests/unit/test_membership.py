"""A node joins or leaves: which values of the other nodes change, and what each node receives."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import simulated_nodes
import yaml
from ansible.module_utils.fullmesh import manifest, peer_list
from jinja2.nativetypes import NativeEnvironment

from fullmesh.filters import cluster_plan, peers
from fullmesh.model import membership, wireguard
from fullmesh.model.plan import derive_plan
from fullmesh.observed.peer_list import PeerListPlan
from fullmesh.roles import launchers
from fullmesh.roles import peers as roles_peers
from fullmesh.settings import ROOT

FIRST, SECOND, THIRD = (simulated_nodes.make_node_name(number) for number in range(3))
Change = dict[str, dict[str, Any]]


def plan_of(count: int, change: Change | None = None, drop: str = "") -> Any:
    """Return the plan of *count* nodes. *change*: other settings of some, *drop*: a node to leave out."""
    hosts = {
        name: {k: v for k, v in own.items() if not k.startswith("ansible_")}
        for name, own in simulated_nodes.make_inventory_settings(count).items()
        if name != drop
    }
    for name, more in (change or {}).items():
        hosts[name] |= more
    return derive_plan(hosts)


def make_update(count: int) -> tuple[Any, PeerListPlan]:
    """Return the plan of *count* nodes, and the update for all of them."""
    plan, held = simulated_nodes.make_hostvars(count)
    return plan, peers.peers_wanted(plan, held, list(held))


def read_membership(plan: Any) -> dict[str, Any]:
    """Return the membership that a node of this plan has saved."""
    made = membership.build_membership(plan)
    return {"digest": made["digest"], "room": made["room"]}


def test_a_joining_node_changes_only_the_list_on_others() -> None:
    two, three = plan_of(2), plan_of(3)
    for name in (FIRST, SECOND):
        assert two["digests"][name] == three["digests"][name]
    assert membership.compute_list_digest(two) != membership.compute_list_digest(three)


def test_a_leaving_node_changes_only_the_list_on_others() -> None:
    # later nodes get other ranks, which are in files that the update covers
    four, three = plan_of(4), plan_of(4, drop=SECOND)
    for name in three["nodes"]:
        assert four["digests"][name] == three["digests"][name]
    assert four["nodes"][THIRD]["ranks"] != three["nodes"][THIRD]["ranks"]
    assert membership.compute_list_digest(four) != membership.compute_list_digest(three)


@pytest.mark.parametrize(
    "change",
    [
        {FIRST: {"fullmesh_local_ranks": 2}},
        {FIRST: {"nccl_version": "2.27.7"}},
        {FIRST: {"fullmesh_hostname": "other"}},
        {n: {"fullmesh_master_port": 29600} for n in (FIRST, SECOND)},
        {n: {"fullmesh_master": SECOND} for n in (FIRST, SECOND)},
        {n: {"fullmesh_controllers": ["10.9.9.9"]} for n in (FIRST, SECOND)},
    ],
)
def test_the_own_values_of_a_node_are_in_its_digest(change: Change) -> None:
    assert plan_of(2)["digests"][FIRST] != plan_of(2, change)["digests"][FIRST]


def test_a_service_of_another_node_does_not_change_this_one() -> None:
    port = {"name": "store", "ports": {"api": 7000}}
    everywhere = {"fullmesh_services": [port]}
    two = plan_of(2, dict.fromkeys((FIRST, SECOND), everywhere))
    three = plan_of(3, dict.fromkeys((FIRST, SECOND, THIRD), everywhere))
    assert two["digests"][FIRST] == three["digests"][FIRST]
    assert two["digests"][FIRST] != plan_of(2)["digests"][FIRST]


def test_the_node_that_gives_the_time_is_not_configured_again() -> None:
    leads = {"time_sync_source": "leader"}
    two = plan_of(2, dict.fromkeys((FIRST, SECOND), leads))
    three = plan_of(3, dict.fromkeys((FIRST, SECOND, THIRD), leads))
    for name in (FIRST, SECOND):
        assert two["digests"][name] == three["digests"][name]
    assert [membership.is_time_leader(three, name) for name in three["nodes"]] == [
        True,
        False,
        False,
    ]
    assert not membership.is_time_leader(plan_of(3), FIRST)


def test_hosts_are_grouped_by_drift() -> None:
    two, three = plan_of(2), plan_of(3)
    assert (
        membership.choose_run_group(
            membership.build_membership(two), [], read_membership(two), "auto"
        )
        == "converged"
    )
    assert (
        membership.choose_run_group(
            membership.build_membership(two), [], read_membership(two), "always"
        )
        == "drifted"
    )
    assert (
        membership.choose_run_group(
            membership.build_membership(two), ["file x"], read_membership(two), "auto"
        )
        == "drifted"
    )
    assert (
        membership.choose_run_group(membership.build_membership(two), [], {}, "auto") == "drifted"
    )
    assert (
        membership.choose_run_group(
            membership.build_membership(three), [], read_membership(two), "auto"
        )
        == "peers"
    )
    assert (
        membership.choose_run_group(
            membership.build_membership(two), [], read_membership(three), "auto"
        )
        == "peers"
    )
    # kernel settings for 256 ranks have no room for another
    many = plan_of(3, {n: {"fullmesh_local_ranks": 86} for n in (FIRST, SECOND, THIRD)})
    assert (
        membership.choose_run_group(
            membership.build_membership(many), [], read_membership(two), "auto"
        )
        == "drifted"
    )


@pytest.mark.parametrize(("ranks", "there"), [(1, 256), (256, 256), (257, 512), (2048, 2048)])
def test_kernel_settings_have_room_for_the_next_power_of_two(ranks: int, there: int) -> None:
    assert membership.compute_rank_room(ranks) == there


def test_nodes_get_what_their_roles_would_write() -> None:
    plan, wanted = make_update(3)
    assert [one["address"] for one in wanted["shared"]["hosts"]] == plan["peers"]
    texts = {one["path"]: one["content"] for one in wanted["shared"]["files"]}
    assert texts == {
        roles_peers.NODES: launchers.render_nodes_file(plan),
        roles_peers.HOSTFILE: launchers.render_hostfile(plan),
        roles_peers.SERVICES: launchers.render_services_file(plan),
    }
    own = wanted["own"][SECOND]
    assert own["lines"][roles_peers.ENVIRONMENT]["WORLD_SIZE="] == "WORLD_SIZE=3"
    assert own["lines"][roles_peers.ENVIRONMENT]["NODE_RANK="] == "NODE_RANK=1"
    assert own["lines"][roles_peers.JOB]["#SBATCH --nodes="] == "#SBATCH --nodes=3"
    (firewall,) = own["firewall"]
    assert firewall["peers"] == plan["peers"]
    assert firewall["ports"] == plan["open_ports"]
    assert len(set(wanted["tokens"].values())) == 3


def test_a_firewall_that_is_off_stays_off() -> None:
    plan, held = simulated_nodes.make_hostvars(2)
    held[FIRST]["peer_firewall_mode"] = "off"
    wanted = peers.peers_wanted(plan, held, [FIRST, SECOND])
    assert wanted["own"][FIRST]["firewall"] == []
    assert wanted["own"][SECOND]["firewall"] != []


def test_paths_and_parameters_are_those_of_the_roles() -> None:
    held = yaml.safe_load((ROOT / "roles/launchers/vars/main.yml").read_text())
    assert held["__launchers_nodes"] == roles_peers.NODES
    assert held["__launchers_hostfile"] == roles_peers.HOSTFILE
    assert held["__launchers_job"] == roles_peers.JOB
    assert held["__launchers_services"] == roles_peers.SERVICES
    held = yaml.safe_load((ROOT / "roles/cluster_env/vars/main.yml").read_text())
    assert held["__cluster_env_path"] == roles_peers.ENVIRONMENT


def test_a_joining_node_and_the_role_send_one_request() -> None:
    plan, wanted = make_update(2)
    wiring = yaml.safe_load((ROOT / "playbooks/vars/wiring.yml").read_text())
    defaults = yaml.safe_load((ROOT / "roles/peer_firewall/defaults/main.yml").read_text())
    wired = {name: wiring[name] for name in wiring if name.startswith("peer_firewall_")}
    known = {"fullmesh_plan": plan, "inventory_hostname": FIRST}
    environment = NativeEnvironment(autoescape=True)
    environment.filters["plan_opened"] = cluster_plan.plan_opened
    environment.filters["plan_tunnel_peers"] = wireguard.list_tunnel_peers
    environment.filters["plan_tunnel_ports"] = wireguard.list_tunnel_ports

    def render(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: render(one) for key, one in value.items()}
        return environment.from_string(value).render(known)

    rendered = render(wired)
    assert peers.peer_firewall_request(defaults | rendered) == wanted["own"][FIRST]["firewall"][0]


def test_lines_are_replaced_where_they_are() -> None:
    text = "# head\nWORLD_SIZE=2\nMY_WORLD_SIZE=9\nNNODES=2"
    wanted = {"WORLD_SIZE=": "WORLD_SIZE=3", "NNODES=": "NNODES=3", "NO_PROXY=": "NO_PROXY=x"}
    assert peer_list.replace_lines(text, wanted) == (
        "# head\nWORLD_SIZE=3\nMY_WORLD_SIZE=9\nNNODES=3"
    )


STATE = {
    "file": {"/etc/hosts": "old", "/etc/fullmesh/env": "old", "/etc/x": "old"},
    "firewalld": {"fullmesh": "old"},
    "sysctl": {"a": "1"},
}


def test_the_manifest_takes_over_an_update_without_drift() -> None:
    held: Any = {"schema": 1, "digest": "d", "state": copy.deepcopy(STATE), "members": {}}
    now: Any = {
        "file": {"/etc/hosts": "new", "/etc/fullmesh/env": "new", "/etc/x": "meddled"},
        "firewalld": {"fullmesh": "new"},
        "sysctl": {"a": "2"},
    }
    members: Any = {"digest": "e", "room": 4}
    made = manifest.merge_peer_update(
        held, now, ["/etc/hosts", "/etc/fullmesh/env", "/not/owned"], members
    )
    assert made["members"] == members
    assert made["state"]["file"] == {
        "/etc/hosts": "new",
        "/etc/fullmesh/env": "new",
        "/etc/x": "old",
    }
    assert made["state"]["firewalld"] == {"fullmesh": "new"}
    assert made["state"]["sysctl"] == {"a": "1"}
    assert held["state"] == STATE


class FakeModule:
    """The parts of an Ansible module that peer_list uses."""

    check_mode = False

    @staticmethod
    def atomic_move(source: str, target: str, **_more: Any) -> None:
        Path(source).replace(target)

    @staticmethod
    def set_mode_if_different(path: str, mode: int, changed: bool) -> bool:
        Path(path).chmod(mode)
        return changed


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a node that converged to a plan of two, with its files only."""
    (tmp_path / "nodes.json").write_text("{}\n")
    (tmp_path / "env").write_text("WORLD_SIZE=2\nOTHER=1\n")
    owned = manifest.merge_owned(
        {"launchers": {"files": [f"{tmp_path}/nodes.json", f"{tmp_path}/env"]}}
    )
    made: Any = {
        "schema": manifest.SCHEMA,
        "digest": "d",
        "owned": owned,
        "state": manifest.observe_owned(owned),
        "notes": [],
        "resolved": {},
        "members": {"digest": "of two", "room": 256, "nodes": ["n1", "n2"]},
    }
    path = str(tmp_path / "manifest.json")
    manifest.write_manifest(made, path)
    load, write = manifest.load_manifest, manifest.write_manifest
    monkeypatch.setattr(manifest, "load_manifest", lambda: load(path))
    monkeypatch.setattr(manifest, "write_manifest", lambda held: write(held, path))
    monkeypatch.setattr(peer_list, "remember_role_states", lambda *_args: None)
    monkeypatch.setattr(peer_list, "record_written_files", lambda *_args: None)
    return tmp_path


def send_update(folder: Path, firewall: Any = ()) -> Any:
    """Send it an update with a third node."""
    shared: Any = {
        "hosts": [],
        "files": [
            {"path": f"{folder}/nodes.json", "content": '{"three": 3}\n'},
            {"path": f"{folder}/not-ours", "content": "x"},
        ],
        "members": {"digest": "of three", "room": 256, "nodes": ["n1", "n2", "n3"]},
    }
    own: Any = {
        "address": "10.0.0.1",
        "own_names": [],
        "lines": {f"{folder}/env": {"WORLD_SIZE=": "WORLD_SIZE=3"}},
        "firewall": list(firewall),
    }
    module: Any = FakeModule()
    want: Any = {"shared": shared, "own": own, "also": [], "token": "t"}
    return peer_list.update_peer_list(module, want, lambda _command: (0, ""))


def test_a_node_learns_of_a_peer_and_stays_converged(node: Path) -> None:
    said = send_update(node)
    assert said["changed"]
    assert sorted(said["paths"]) == [f"{node}/env", f"{node}/nodes.json"]
    assert (node / "env").read_text() == "WORLD_SIZE=3\nOTHER=1\n"
    assert (node / "nodes.json").read_text() == '{"three": 3}\n'
    assert not (node / "not-ours").exists()
    held = json.loads((node / "manifest.json").read_text())
    assert held["members"]["digest"] == "of three"
    assert said["joined"] == ["n3"]
    assert manifest.describe_differences(held["state"], manifest.observe_owned(held["owned"])) == []
    # a second update changes nothing
    again = send_update(node)
    assert (again["changed"], again["joined"]) == (False, [])


def test_a_node_that_was_never_configured_is_not_updated(node: Path) -> None:
    (node / "manifest.json").unlink()
    with pytest.raises(peer_list.PeerListError, match=r"\[MF-180\]"):
        send_update(node)
    assert (node / "env").read_text() == "WORLD_SIZE=2\nOTHER=1\n"


def test_a_node_without_firewalld_is_not_updated(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gone:
        notes: tuple[()] = ()
        diff: tuple[()] = ()

        def __init__(self, *_args: Any) -> None: ...

        def present(self) -> dict[str, Any]:
            return {"needs_package": True, "changed": True, "armed": False}

    monkeypatch.setattr(peer_list, "Firewall", Gone)
    with pytest.raises(peer_list.PeerListError, match=r"\[PF-180\]"):
        send_update(node, [{"mode": "peers_range"}])
    assert (node / "env").read_text() == "WORLD_SIZE=2\nOTHER=1\n"


def test_a_limited_run_lists_what_remains() -> None:
    said = peers.peers_left_out(["n3"], ["n1", "n2", "n3"], [])
    assert said.startswith("[PR-180] This run leaves out n1, n2, so they do not know n3")
    assert peers.peers_left_out(["n3"], ["n1", "n3"], ["n1"]) == ""
