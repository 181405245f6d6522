"""Network backends: the rollback."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.network import owner as network_owner
from ansible.module_utils.fullmesh.network.backends import (
    kernel_state,
    networkd,
)
from ansible.module_utils.fullmesh.tools import ip as ip_tool
from backend_links import EVERY, LACP, TAGGED, flat, snapshot
from network_samples import link


@pytest.mark.parametrize("name", EVERY)
def test_a_snapshot_contains_kernel_only_state(name: str) -> None:
    before = snapshot(name, [TAGGED, LACP])
    assert list(before["links"]) == ["eth1", "eth2", "bond0", "bond0.7"]
    assert before["links"]["bond0.7"]["addresses"] == ["10.82.0.2/24", "fd82::2/64"]
    assert before["links"]["eth1"]["master"] == "bond0"
    assert [one["to"] for one in before["routes"]] == ["default"]


def deleted(lines: list[str]) -> list[str]:
    """List the devices to remove if they exist, in order."""
    return [line.rpartition(" ")[2] for line in lines if 'ip link delete "$0"' in line]


def test_a_missing_device_is_no_rollback_fault() -> None:
    ((*command, name),) = kernel_state.build_removal_commands(["no-such-device"], {"links": {}})
    assert name == "no-such-device"
    assert subprocess.run([*command, name], check=False).returncode == 0


@pytest.mark.parametrize("name", EVERY)
def test_restore_removes_new_devices_with_vlans_first(name: str) -> None:
    before = snapshot(name, [link(interface="eth2")])
    lines = flat(
        network_owner.get_backend(name).build_reactivation_commands(
            ["eth2", "bond7", "bond7.5"], before
        )
    )
    assert deleted(lines) == ["bond7.5", "bond7"]
    assert lines[-1] == "ip link set eth2 up"


@pytest.mark.parametrize("name", EVERY)
def test_restore_sets_addresses_mtu_and_routes_after_the_owner(name: str) -> None:
    before = snapshot(name, [TAGGED])
    lines = flat(network_owner.get_backend(name).build_reactivation_commands(["bond0.7"], before))
    assert lines[-5:] == [
        "ip link set bond0.7 mtu 1450",
        "ip link set bond0.7 up",
        "ip addr replace 10.82.0.2/24 dev bond0.7",
        "ip addr replace fd82::2/64 dev bond0.7",
        "ip -4 route replace default via 10.82.0.254 dev bond0.7 proto boot",
    ]


def test_a_lease_does_not_become_permanent_in_the_rollback() -> None:
    state = kernel_state.describe_kernel_link(
        ip_tool.read_link(
            {
                "mtu": 1500,
                "flags": ["UP"],
                "addr_info": [
                    {"local": "10.0.0.5", "prefixlen": 24, "scope": "global", "dynamic": True},
                    {"local": "fe80::1", "prefixlen": 64, "scope": "link"},
                ],
            }
        )
    )
    assert (state["addresses"], state["leases"]) == ([], ["10.0.0.5/24"])
    steps = kernel_state.build_runtime_commands(["eth0"], {"links": {"eth0": state}, "routes": []})
    assert not [one for one in flat(steps) if "addr" in one]


@pytest.mark.parametrize("name", EVERY)
def test_only_the_named_interfaces_are_changed(name: str) -> None:
    before = snapshot(name, [link(interface="eth1"), link(interface="eth2")])
    links = [link(interface="eth1"), link(interface="eth2", addresses=["10.5.0.1/24"])]
    lines = flat(
        network_owner.get_backend(name).build_activation_commands(links, before, 30, ["eth2"])
    )
    acting = [one for one in lines if "load" not in one and "eth1" in one]
    assert acting == []
    assert [one for one in lines if "eth2" in one]


@pytest.mark.parametrize("name", EVERY)
def test_a_bond_of_another_mode_is_recreated(name: str) -> None:
    before = snapshot(name, [LACP])
    other = LACP | {"bond": {"mode": "active-backup", "members": ["eth1", "eth2"], "miimon": 100}}
    assert "ip link delete bond0" in flat(
        network_owner.get_backend(name).build_activation_commands([other], before)
    )
    assert "ip link delete bond0" not in flat(
        network_owner.get_backend(name).build_activation_commands([LACP], before)
    )


def test_a_vlan_of_another_tag_is_recreated() -> None:
    before = snapshot("networkd", [TAGGED])
    other = TAGGED | {"vlan": {"id": 9, "parent": "bond0"}}
    lines = flat(networkd.build_activation_commands([other], before))
    assert lines == ["ip link delete bond0.7", "networkctl reload"]


MADE_LACP = (
    "bond0 type bond mode 802.3ad miimon 100 xmit_hash_policy layer3+4 lacp_rate fast "
    "ad_select stable"
)


@pytest.mark.parametrize("name", EVERY)
def test_the_rollback_recreates_a_changed_bond_and_its_vlans(name: str) -> None:
    """networkd does not change an existing device (systemd#9627), and ifupdown's stanza does not recreate one."""
    before = snapshot(name, [TAGGED, LACP])
    before["profiles"] = {"bond0": "a-uuid"} if "profiles" in before else {}
    other = LACP | {"bond": {"mode": "active-backup", "members": ["eth1", "eth2"], "miimon": 100}}
    before = kernel_state.with_remade([TAGGED, other], before)
    json.dumps(before)
    lines = flat(
        network_owner.get_backend(name).build_reactivation_commands(
            ["eth1", "eth2", "bond0", "bond0.7"], before
        )
    )
    assert deleted(lines) == ["bond0.7", "bond0"]
    last = [at for at, line in enumerate(lines) if "ip link delete" in line][-1]
    after = lines[last + 1 :]
    assert name not in ("networkd", "netplan") or "networkctl reload" in after
    up = "nmcli --wait 20 connection up uuid a-uuid"
    assert name != "networkmanager" or up in after
    # neither can be named before its owner has created it
    assert not [one for one in lines if "flush dev bond0" in one]
    assert not [one for one in lines if "networkctl reconfigure" in one and "bond0" in one]
    # no owner recreates a manual device
    made = [one for one in after if "ip link add" in one]
    assert [one.split('$0" ')[-1] for one in made] == [
        MADE_LACP,
        "bond0.7 link bond0 type vlan id 7",
    ]
    assert len([one for one in after if one.endswith((" eth1 bond0", " eth2 bond0"))]) == 2
    assert lines.index(made[1]) < lines.index("ip addr replace 10.82.0.2/24 dev bond0.7")


@pytest.mark.parametrize("name", EVERY)
def test_the_rollback_ignores_a_device_that_was_not_recreated(name: str) -> None:
    before = kernel_state.with_remade([TAGGED, LACP], snapshot(name, [TAGGED, LACP]))
    assert before["remade"] == []
    lines = flat(
        network_owner.get_backend(name).build_reactivation_commands(
            ["eth1", "eth2", "bond0", "bond0.7"], before
        )
    )
    assert not [one for one in lines if "link delete" in one or "link add" in one]


@pytest.mark.parametrize("name", ["networkd", "netplan", "ifupdown"])
def test_devices_removed_with_a_bond_are_not_listed_or_flushed(name: str) -> None:
    """A command for a missing device fails, and would undo the change."""
    other = LACP | {"bond": {"mode": "active-backup", "members": ["eth1", "eth2"], "miimon": 100}}
    before = kernel_state.with_remade([TAGGED, other], snapshot(name, [TAGGED, LACP]))
    lines = flat(network_owner.get_backend(name).build_activation_commands([TAGGED, other], before))
    acting = ("networkctl reconfigure", "ip addr flush", "ifdown")
    assert not [one for one in lines if one.startswith(acting) and "bond0" in one]


def test_an_undo_recreates_these_devices() -> None:
    then = snapshot("netplan", [TAGGED, LACP])
    now = json.loads(json.dumps(then))
    assert kernel_state.find_changed_devices(then, now) == []
    now["links"]["bond0.7"]["data"]["id"] = 8
    assert kernel_state.find_changed_devices(then, now) == ["bond0.7"]
    now["links"]["bond0"]["data"]["mode"] = "active-backup"
    assert kernel_state.find_changed_devices(then, now) == ["bond0", "bond0.7"]
    assert kernel_state.build_device_arguments(now["links"]["bond0"])[:4] == [
        "type",
        "bond",
        "mode",
        "active-backup",
    ]
    assert "lacp_rate" not in kernel_state.build_device_arguments(now["links"]["bond0"])
    assert kernel_state.find_changed_devices(then, {"links": {}}) == []


@pytest.mark.parametrize("name", ["networkd", "netplan"])
def test_networkd_has_configured_before_the_next_change(name: str) -> None:
    """networkd 252 fails if addresses change while it configures an interface."""
    before = snapshot(name, [TAGGED, LACP])
    backend = network_owner.get_backend(name)
    lines = flat(backend.build_reactivation_commands(["eth1", "eth2"], before))
    settle = flat(kernel_state.build_settle_commands(["eth1", "eth2"]))
    reload = lines.index("networkctl reload")
    assert lines[reload + 1 : reload + 2] == settle
    reconfigure = lines.index("networkctl reconfigure eth1 eth2")
    assert lines[reconfigure + 1 : reconfigure + 2] == settle
    assert not [line for line in lines[:reconfigure] if line.startswith("ip addr add")]
    lines = flat(backend.build_activation_commands([LACP], before))
    at = lines.index("networkctl reload")
    assert [line.split()[0] for line in lines[at:]] == ["networkctl", "/bin/sh", "networkctl"]


def wait_with_state(tmp_path: Path, state: str) -> tuple[int, list[str]]:
    """Run the script that waits for networkd, on files with this state. Return its pauses, and its exit status."""
    (tmp_path / "eth1").mkdir()
    (tmp_path / "eth1/ifindex").write_text("4\n")
    (tmp_path / "4").write_text(f"# systemd\nADMIN_STATE={state}\nOPER_STATE=routable\n")
    script = kernel_state.SETTLED.replace("/sys/class/net", str(tmp_path))
    script = script.replace("/run/systemd/netif/links", str(tmp_path))
    script = f"sleep() {{ echo $1; }}\n{script}"
    done = subprocess.run(
        ["/bin/sh", "-c", script, "eth1", "absent"],
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
    )
    return done.returncode, done.stdout.split()


@pytest.mark.parametrize(
    ("state", "pauses"), [("configured", 1), ("unmanaged", 1), ("configuring", 26), ("pending", 26)]
)
def test_the_wait_for_networkd_ends(tmp_path: Path, state: str, pauses: int) -> None:
    code, said = wait_with_state(tmp_path, state)
    assert (code, len(said)) == (0, pauses)
