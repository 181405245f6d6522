"""static_ip: undo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from ansible.module_utils.fullmesh.network import links as network_links
from ansible.module_utils.fullmesh.state import record
from ansible.module_utils.fullmesh.tools import ip as ip_tool
from ansible.module_utils.fullmesh.transaction.engine import ViewLink
from jinja2.nativetypes import NativeEnvironment
from network_samples import link
from static_ip_node import OURS, Machine, kernel, make_machine

ROOT = Path(__file__).parents[3]


def link_view(*addresses: str, **change: Any) -> ViewLink:
    """Return an interface as the engine sees it."""
    plain: ViewLink = {
        "mtu": 1500,
        "up": True,
        "addresses": list(addresses),
        "leases": [],
        "manner": {},
    }
    return cast("ViewLink", plain | change)


def save_undo_point(root: Path, paths: list[str]) -> None:
    """Make the undo point of the role's task `Remember`, for files that did not exist."""
    point = record.UndoPoint(str(root), "static_ip")
    point.save(point.load() | {"files": {path: {"kind": "absent"} for path in paths}}, {})


def test_undo_is_a_transaction_too(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {
        "links": {"eth1": link_view("10.0.0.7/24", mtu=1400)},
        "routes": [],
    }
    monkeypatch.setattr(network_links.engine, "read_kernel_view", lambda names: before)
    assert machine.call("absent")["changed"] is False
    assert machine.call(check=True)["remembered"] is False
    point = machine.root / "var/lib/fullmesh/undo/static_ip"
    (point / "blobs").mkdir(parents=True)
    machine.run()
    paths = [path[len(str(machine.root)) :] for path in machine.ours()]
    save_undo_point(machine.root, paths)
    assert machine.call(check=True)["remembered"] is True
    monkeypatch.setattr(
        network_links.session, "find_ssh_session", lambda *_: ["10.0.0.1", "5", "10.0.0.11", "22"]
    )
    result = machine.call("absent")
    assert (result["paths"], result["moves_to"], result["armed"]) == (paths, "10.0.0.7", True)
    assert machine.ours() == []
    assert machine.call("proved", links=[])["fresh"]
    assert machine.call("confirmed")["changed"]
    assert machine.call("absent")["changed"] is False


@pytest.mark.parametrize("machine", ["networkmanager"], indirect=True)
@pytest.mark.parametrize("folder", ["run", "etc"])
def test_an_undo_refuses_a_profile_that_networkmanager_has_moved(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """NetworkManager would activate it again after the undo."""
    before = {"links": {"eth1": link_view("10.0.0.7/24", mtu=1400)}, "routes": []}
    monkeypatch.setattr(network_links.engine, "read_kernel_view", lambda names: before)
    (machine.root / "var/lib/fullmesh/undo/static_ip/blobs").mkdir(parents=True)
    machine.run()
    (own,) = machine.ours()
    save_undo_point(machine.root, [own[len(str(machine.root)) :]])
    place = machine.root / folder / "NetworkManager/system-connections"
    place.mkdir(parents=True, exist_ok=True)
    moved = place / "netplan-x.nmconnection"
    Path(own).rename(moved)
    with pytest.raises(
        network_links.LinkError, match=r"IP-118\] .*netplan-x\.nmconnection has the"
    ):
        machine.call("absent", check=True)
    moved.rename(own)
    assert machine.call("absent", check=True)["needed"] is True


@pytest.mark.parametrize("owner", ["", "02:00:00:00:00:99"])
def test_an_undo_does_not_take_a_reassigned_lease(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, owner: str
) -> None:
    point = machine.root / "var/lib/fullmesh/undo/static_ip"
    (point / "blobs").mkdir(parents=True)
    lease = link_view("10.0.0.7/24", leases=["10.0.0.7/24"])
    before = {"links": {"eth1": lease}, "routes": [["-4", "eth1", "default via 10.0.0.1"]]}
    nothing: dict[str, Any] = {"links": {}, "routes": []}
    monkeypatch.setattr(
        network_links.engine, "read_kernel_view", lambda names: before if names else nothing
    )
    machine.run()
    fail_on_probe: list[str] = []

    def duplicate_of(interface: str, seen: object, address: str) -> str:
        fail_on_probe.append(address)
        return owner

    monkeypatch.setattr(network_links.reach, "find_duplicate_host", duplicate_of)
    paths = [path[len(str(machine.root)) :] for path in machine.ours()]
    save_undo_point(machine.root, paths)
    if owner:
        # our connection would have to return there
        monkeypatch.setattr(
            network_links.session,
            "find_ssh_session",
            lambda *_: ["10.0.0.1", "5", "10.0.0.11", "22"],
        )
        for check in (True, False):
            with pytest.raises(
                network_links.LinkError, match=r"IP-105\] 10\.0\.0\.7, the lease that eth1.*00:99"
            ):
                machine.call("absent", check=check)
        assert [path[len(str(machine.root)) :] for path in machine.ours()] == paths
        monkeypatch.setattr(network_links.session, "find_ssh_session", lambda *_: [])
    machine.call("absent")
    assert set(fail_on_probe) == {"10.0.0.7"}
    journal = json.loads((machine.root / "store/static_ip/journal.json").read_text())
    assert journal["runtime"]["ours"] == {
        "addresses": {} if owner else {"eth1": ["10.0.0.7/24"]},
        "routes": [],
        "links": ["eth1"],
    }
    last = json.loads((machine.root / "store/static_ip/plan.json").read_text())["last"]
    # if it is taken, the interface is left to its owner
    assert list(last["links"]) == ([] if owner else ["eth1"])
    assert last["routes"] == ([] if owner else before["routes"])
    for state in last["links"].values():
        assert (state["addresses"], state["leases"]) == (["10.0.0.7/24"], ["10.0.0.7/24"])


def test_a_current_lease_is_not_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail_on_probe(*_: object) -> str:
        raise AssertionError("asked")

    monkeypatch.setattr(network_links.reach, "find_duplicate_host", fail_on_probe)
    had = {"leases": ["10.0.0.11/24"]}
    seen = ip_tool.parse_links(
        json.dumps([kernel(OURS), {**kernel(name="eth2"), "master": "bond0"}])
    )
    gone = {"leases": ["10.7.0.1/24", "fd00::1/64"]}
    kernel_then = {"links": {"eth1": had, "eth2": gone, "eth3": gone}}
    assert network_links.find_taken_leases(kernel_then, seen) == {}


def test_a_recreated_device_is_recreated_in_the_rollback(
    tmp_path: Path, engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The VLAN over a bond of another mode is brought up with the bond, also after a missing confirmation."""
    machine = make_machine(tmp_path, "netplan", monkeypatch)
    for name in ("bond0", "eth1"):
        (tmp_path / "sys/class/net" / name).mkdir(exist_ok=True)
    machine.takes = False
    armed: list[list[str]] = []
    arm = network_links.engine.arm

    def spy(run: Any, name: str, seconds: int, paths: list[str], back: Any, **by: Any) -> None:
        armed.append([" ".join(step) for step in back])
        arm(run, name, seconds, paths, back, **by)

    monkeypatch.setattr(network_links.engine, "arm", spy)
    bond = {"mode": "active-backup", "members": ["eth1"], "miimon": 100}
    links = [
        link(interface="bond0", addresses=[], bond=bond),
        link(interface="bond0.7", vlan={"id": 7, "parent": "bond0"}),
    ]

    def stack(mode: str) -> list[dict[str, Any]]:
        info = {"info_kind": "bond", "info_data": {"mode": mode, "miimon": 100}}
        tag = {"info_kind": "vlan", "info_data": {"id": 7}}
        return [
            {**kernel(), "master": "bond0"},
            {**kernel(name="bond0"), "linkinfo": info},
            {**kernel(OURS, name="bond0.7"), "linkinfo": tag, "link": "bond0"},
        ]

    point = tmp_path / "var/lib/fullmesh/undo/static_ip"
    (point / "blobs").mkdir(parents=True)
    machine.kernel = stack("802.3ad")
    assert machine.call(links=links)["adopted"] == []
    deleted = ["bond0.7", "bond0"]
    assert [one.split()[-1] for one in armed[-1] if "delete" in one] == deleted
    network_links.engine.restore_transaction(
        network_links.engine.folder("static_ip"), "nobody came back"
    )
    machine.call("restored")
    machine.kernel = stack("active-backup")
    (tmp_path / "etc/netplan/90-fullmesh.yaml").write_text(network_links.owner.common.HEAD)
    assert machine.call("absent")["armed"]
    assert [one.split()[-1] for one in armed[-1] if "delete" in one] == deleted
    plan = json.loads((tmp_path / "store/static_ip/plan.json").read_text())
    steps = [" ".join(step) for step in plan["commands"]]
    assert [one.split()[-1] for one in steps if "delete" in one] == deleted


def test_undo_after_two_changes_finds_the_second_rollback(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run changes the cluster's interface, a later one that of ssh. Undo restores the lease of the second."""
    point = machine.root / "var/lib/fullmesh/undo/static_ip"
    (point / "blobs").mkdir(parents=True)
    (machine.root / "sys/class/net/eth0").mkdir()
    (machine.root / "sys/class/net/eth0/type").write_text("1\n")
    lease = link_view("10.9.0.7/24")
    bare = link_view("10.0.0.5/24")
    every = {"eth1": bare, "eth0": lease}

    def runtime(names: list[str]) -> dict[str, Any]:
        return {"links": {name: every[name] for name in every if name in names}, "routes": []}

    monkeypatch.setattr(network_links.engine, "read_kernel_view", runtime)
    machine.kernel = [kernel(), kernel({"local": "10.9.0.7"}, name="eth0")]
    machine.run()
    machine.kernel = [kernel(OURS), kernel({"local": "10.9.0.7"}, name="eth0")]
    machine.takes = False
    ssh = link(interface="eth0", addresses=["10.9.0.77/24"])
    assert machine.call(links=[link(), ssh])["armed"]
    kept = record.UndoPoint(str(machine.root), "static_ip").load()["part"]["network"]
    assert sorted(name for names in kept["names"].values() for name in names) == ["eth0", "eth1"]
    machine.kernel = [kernel(OURS), kernel({"local": "10.9.0.77"}, name="eth0")]
    monkeypatch.setattr(
        network_links.session, "find_ssh_session", lambda *_: ["10.9.0.1", "5", "10.9.0.77", "22"]
    )
    assert machine.call("absent", check=True)["moves_to"] == "10.9.0.7"


BACK = {"why": "nobody came", "faults": []}


@pytest.mark.parametrize(
    ("remembered", "answer", "report", "forgets"),
    [
        (False, {"armed": True}, BACK, True),
        (True, {"armed": True}, BACK, False),
        # an undo has a point to return to
        (None, {"armed": True}, BACK, False),
        # confirmed after all, or no answer: the state is unknown
        (False, {"armed": True}, {}, False),
        (False, {"unreachable": True}, {}, False),
        (False, None, {}, False),
        # a file could not be restored, but the undo may still do it
        (False, {"armed": True}, {"why": "", "faults": ["no room"]}, False),
        # refused before anything was armed
        (False, {"failed": True}, {}, True),
        (True, {"failed": True}, {}, False),
    ],
)
def test_the_undo_point_of_a_failed_change_is_forgotten(
    remembered: bool | None, answer: dict[str, Any] | None, report: dict[str, Any], forgets: bool
) -> None:
    tasks = yaml.safe_load((ROOT / "roles/static_ip/tasks/change.yml").read_text())
    (rescue,) = [task["rescue"] for task in tasks if "rescue" in task]
    (task,) = [one for one in rescue if "block" in one]
    (forget,) = task["block"]
    assert forget["undo_point"] == {"role": "static_ip", "state": "forgotten"}
    # the reason of the failure is reported with, not replaced by, the reason to keep the undo point
    assert "{{ __static_ip_failure }}" in str(task["rescue"])
    plan = {} if remembered is None else {"remembered": remembered}
    known: dict[str, Any] = {"__static_ip_plan": plan, "__static_ip_restored": {"report": report}}
    if answer is not None:
        known["__static_ip_applied"] = answer
    jinja = NativeEnvironment()
    for name, value in task["vars"].items():
        known[name] = jinja.from_string(value).render(known)
    assert bool(jinja.compile_expression(task["when"])(**known)) is forgets
