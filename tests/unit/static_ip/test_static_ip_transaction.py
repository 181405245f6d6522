"""static_ip: the change is a transaction."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.fullmesh.network import links as network_links
from network_samples import link
from static_ip_node import OURS, Machine, bond, kernel, make_machine


def test_it_is_armed_before_anything_is_written(machine: Machine) -> None:
    machine.refuses = " guard"
    with pytest.raises(network_links.engine.RollbackError, match=r"\[TX-103\]"):
        machine.call()
    assert machine.ours() == []


def test_a_setting_that_is_not_read_back_is_reverted(machine: Machine) -> None:
    machine.takes = False
    assert machine.call()["armed"]
    assert machine.ours()
    with pytest.raises(network_links.LinkError, match=r"IP-107.*it has no address"):
        machine.call("proved")
    assert machine.ours() == []
    report = machine.call("restored")["report"]
    assert "IP-107" in report["why"]
    assert machine.call("restored")["report"] == {}


@pytest.mark.parametrize(
    ("owner", "refuses"),
    [("networkmanager", "connection up"), ("netplan", "networkctl reconfigure")],
)
def test_a_refusal_of_the_owner_is_reverted_at_once(
    tmp_path: Path, engine: None, monkeypatch: pytest.MonkeyPatch, owner: str, refuses: str
) -> None:
    machine = make_machine(tmp_path, owner, monkeypatch)
    machine.refuses = refuses
    machine.call()
    assert machine.ours() == []
    with pytest.raises(network_links.LinkError, match=f"IP-108.*{refuses}"):
        machine.call("proved")


def test_the_owner_gives_up_before_the_engine_ends_its_command(
    tmp_path: Path, engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = make_machine(tmp_path, "networkmanager", monkeypatch)
    machine.call(wait_seconds=600)
    (up,) = [one for one in machine.commands() if "connection up" in one]
    assert "--wait 55 " in up
    assert network_links.OWNER_SECONDS < 2 * network_links.engine.COMMAND_SECONDS


def test_a_file_that_the_tool_refuses_is_never_written(
    tmp_path: Path, engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = make_machine(tmp_path, "netplan", monkeypatch)
    machine.refuses = "--root-dir"
    with pytest.raises(network_links.LinkError, match="IP-106"):
        machine.call()
    assert not (tmp_path / "store").exists()


def test_too_late_to_confirm(machine: Machine) -> None:
    machine.call()
    network_links.engine.restore_transaction(
        network_links.engine.folder("static_ip"), "nobody came back"
    )
    for state in ("proved", "confirmed"):
        with pytest.raises(network_links.LinkError, match=r"IP-114.*nobody came back"):
            machine.call(state)
    for state in ("proved", "confirmed"):
        with pytest.raises(network_links.LinkError, match=r"IP-114.*another process"):
            machine.call(state)


def test_running_peers_without_an_answer_undo_the_change(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    peers = ["10.0.0.12", "10.0.0.13"]
    why = {"10.0.0.12": "No route to host"}
    monkeypatch.setattr(
        network_links.reach,
        "find_silent_peers",
        lambda asked, *_: {k: why[k] for k in asked if k in why},
    )
    machine.call()
    assert machine.call("proved", peers=peers)["fresh"]
    assert machine.call("confirmed")["changed"]
    machine.kernel = [kernel()]
    machine.call()
    why["10.0.0.13"] = "no answer"
    with pytest.raises(network_links.LinkError, match=r"IP-115.*10\.0\.0\.12 \(No route to host\)"):
        machine.call("proved", peers=peers)


def test_a_master_that_loses_contact_reverts_the_change(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    peers, why = ["10.0.0.10", "10.0.0.12", "10.0.0.13"], {"10.0.0.13": "no answer"}
    monkeypatch.setattr(
        network_links.reach,
        "find_silent_peers",
        lambda asked, *_: {k: why[k] for k in asked if k in why},
    )
    assert machine.call(check=True, peers=peers)["answered"] == []
    before = machine.call(peers=peers)
    assert (before["answered"], before["silent"]) == (peers[:2], peers[2:])
    why["10.0.0.10"] = "no route"
    with pytest.raises(
        network_links.LinkError, match=r"IP-115.*the master 10\.0\.0\.10 \(no route\) within"
    ):
        machine.call("proved", peers=before["answered"], master="10.0.0.10")
    assert "the master 10.0.0.10" in network_links.engine.report_of("static_ip")["why"]
    machine.kernel = [kernel()]
    machine.call(peers=peers)
    # it did not answer before, so the others are tested
    assert machine.call("proved", peers=["10.0.0.12"], master="10.0.0.10")["fresh"]


def test_an_address_that_ipv6_finds_twice(machine: Machine) -> None:
    machine.takes = False
    machine.call()
    machine.kernel = [kernel({**OURS, "dadfailed": True})]
    with pytest.raises(network_links.LinkError, match=r"IP-105.*used by another host"):
        machine.call("proved")


def test_an_old_connection_proves_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_links.engine, "list_port_pairs", lambda: [[22, 50001]])
    machine.call()
    monkeypatch.setattr(
        network_links.session,
        "find_ssh_session",
        lambda *_: ["10.0.0.1", "50001", "10.0.0.11", "22"],
    )
    assert machine.call("proved")["fresh"] is False
    monkeypatch.setattr(
        network_links.session,
        "find_ssh_session",
        lambda *_: ["10.0.0.1", "50002", "10.0.0.11", "22"],
    )
    assert machine.call("proved")["fresh"] is True


@pytest.mark.parametrize("owner", ["idle", "nobody"])
def test_without_an_owner_we_stop(tmp_path: Path, owner: str) -> None:
    machine = Machine(tmp_path, owner)
    with pytest.raises(network_links.LinkError, match="IP-102"):
        machine.call()


def bridge(root: Path) -> None:
    (root / "sys/class/net/eth1/bridge").mkdir()


def infiniband(root: Path) -> None:
    (root / "sys/class/net/eth1/type").write_text("32\n")


@pytest.mark.parametrize("kind", [bridge, bond, infiniband])
def test_unsupported_settings_are_refused(tmp_path: Path, kind: Callable[[Path], None]) -> None:
    machine = Machine(tmp_path, "netplan")
    kind(tmp_path)
    with pytest.raises(network_links.LinkError, match="IP-103"):
        machine.call()
    assert machine.ours() == []


def test_a_foreign_file_that_we_cannot_edit_safely(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def foreign(*_: Any) -> None:
        raise network_links.owner.ForeignError("/etc/x configures eth1")

    monkeypatch.setattr(
        network_links.owner.get_backend(machine.owner), "find_foreign_changes", foreign
    )
    with pytest.raises(network_links.LinkError, match=r"IP-118\] /etc/x"):
        machine.call()


def test_an_interface_that_is_not_there_is_named(machine: Machine) -> None:
    with pytest.raises(network_links.LinkError, match=r"IP-101.*eth9.*found: eth1"):
        machine.call(links=[link(interface="eth9")])


def test_our_own_connection_moves_with_its_address(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        network_links.session, "find_ssh_session", lambda *_: ["10.0.0.1", "5", "10.0.0.50", "22"]
    )
    machine.kernel = [kernel({"local": "10.0.0.50"})]
    assert machine.call(check=True)["moves_to"] == "10.0.0.11"
    machine.kernel = [kernel({"local": "10.0.0.50"}, name="eth0"), kernel()]
    assert machine.call(check=True)["moves_to"] == ""


def test_an_address_of_another_host_is_refused(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_links.reach, "find_duplicate_host", lambda *_: "02:00:00:00:00:99")
    with pytest.raises(network_links.LinkError, match=r"IP-105.*02:00:00:00:00:99"):
        machine.call(check_duplicates=True)
    assert machine.ours() == []


def test_verified_only_looks(machine: Machine) -> None:
    with pytest.raises(network_links.LinkError, match="IP-107"):
        machine.call("verified")
    machine.kernel = [kernel(OURS)]
    assert machine.call("verified")["changed"] is False


def test_a_reboot_in_between_gives_a_card_its_mtu_back(machine: Machine) -> None:
    """netplan's generator and udev have read the new file before the old one is back; NetworkManager starts later."""
    machine.kernel = [kernel(mtu=1400)]
    machine.call(links=[link(mtu=9000)])
    journal = json.loads((machine.root / "store/static_ip/journal.json").read_text())
    assert journal["runtime"]["ours"] == {
        "addresses": {"eth1": ["10.0.0.11/24"]},
        "routes": [],
        "links": ["eth1"],
    }
    steps = journal["boot_commands"]
    if machine.owner == "networkmanager":
        assert steps == []
        return
    assert [step[0] for step in steps] == ["netplan", "/bin/sh"]
    assert steps[1][-2:] == ["eth1", "1400"]
    assert 'ip link set "$0" mtu "$1"' in steps[1][2]
    # a card that is not there yet is no fault
    assert subprocess.run([*steps[1][:3], "no-such-card", "1400"], check=False).returncode == 0
