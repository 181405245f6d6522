"""Network backends: the tool checks a file before it is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.fullmesh.network import owner as network_owner
from ansible.module_utils.fullmesh.network.backends import (
    netplan,
    networkd,
    networkmanager,
)
from backend_links import Machine, refuse_netplan
from network_samples import link


@pytest.mark.parametrize(
    ("name", "tool"),
    [("netplan", "netplan generate"), ("ifupdown", "ifup --no-act --all --force -i")],
)
def test_the_tools_error_message_is_returned(name: str, tool: str) -> None:
    asked: list[list[str]] = []

    def run(argv: list[str]) -> tuple[int, str, str]:
        asked.append(argv)
        assert Path(argv[-1]).exists()
        return refuse_netplan(argv)

    files = network_owner.get_backend(name).build_files([link()])
    said = network_owner.get_backend(name).check_files(run, files)
    assert "Error in network definition" in said
    assert str(asked[0][-1]) not in said
    assert " ".join(asked[0]).startswith(tool)
    assert not Path(asked[0][-1]).exists()
    assert network_owner.get_backend(name).check_files(lambda _: (0, "", ""), files) == ""


def test_netplan_checks_our_file_with_the_future_others() -> None:
    machine = Machine({"/etc/netplan/50-cloud-init.yaml": "old", "/run/netplan/a.yaml": "a"})
    changes = {"/etc/netplan/50-cloud-init.yaml": "new", netplan.PATH: "ours", "/etc/x": None}
    assert network_owner.build_scratch_files("netplan", machine.read, machine.listed, changes) == {
        "/etc/netplan/50-cloud-init.yaml": "new",
        "/run/netplan/a.yaml": "a",
        netplan.PATH: "ours",
    }


@pytest.mark.parametrize("call", [networkd.check_files, networkmanager.check_files])
def test_without_tools_nothing_is_claimed(call: Callable[..., str]) -> None:
    assert call(refuse_netplan, {}) == ""


def snapshots(state: dict[str, Any]) -> dict[str, Any]:
    """What is kept of interfaces with these addresses, by a backend and by the engine."""
    return {
        "names": {"netplan": list(state)},
        "owners": {
            "netplan": {
                "links": {name: {"addresses": [one]} for name, one in state.items()},
                "routes": [{"dev": name, "via": f"of {one}"} for name, one in state.items()],
                "ifstate": list(state),
                "networkd": True,
            }
        },
        "runtime": {
            "links": {name: {"addresses": [one]} for name, one in state.items()},
            "routes": [["-4", name, f"of {one}"] for name, one in state.items()],
        },
    }


def test_an_undo_restores_each_interface_to_its_own_first_state() -> None:
    first = snapshots({"eth1": "before"})
    # eth1 is ours by now; eth0 is touched for the first time
    later = snapshots({"eth1": "ours", "eth0": "lease"})
    kept = network_owner.merge_undo_states(first, later)
    assert kept == snapshots({"eth1": "before", "eth0": "lease"})
    assert (
        network_owner.merge_undo_states(kept, snapshots({"eth0": "ours", "eth1": "ours"})) == kept
    )
    # what was only watched in the first run is not kept
    first["runtime"]["links"]["eth0"] = {"addresses": ["watched"]}
    assert network_owner.drop_watched_interfaces(first) == snapshots({"eth1": "before"})


def test_an_interface_stays_with_its_first_owner() -> None:
    first, later = snapshots({"eth1": "before"}), snapshots({"eth1": "ours", "eth0": "lease"})
    later["names"] = {"networkmanager": later["names"]["netplan"]}
    later["owners"] = {"networkmanager": later["owners"]["netplan"]}
    kept = network_owner.merge_undo_states(first, later)
    assert kept["names"] == {"netplan": ["eth1"], "networkmanager": ["eth0"]}
    assert kept["owners"]["netplan"] == first["owners"]["netplan"]
    assert kept["owners"]["networkmanager"] == snapshots({"eth0": "lease"})["owners"]["netplan"]
