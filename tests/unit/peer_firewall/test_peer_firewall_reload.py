"""The peers' firewall: what a reload must keep."""

from __future__ import annotations

import pytest
from ansible.module_utils.fullmesh.firewall import (
    firewalld_others,
)
from ansible.module_utils.fullmesh.firewall import peers as firewall_peers
from ansible.module_utils.fullmesh.transaction import engine
from firewall_machine import (
    BOUND,
    POLICIES,
    ZONES,
    Machine,
    firewall,
    kernel,
    ours,
    put,
    refused,
)


def test_runtime_only_settings_stop_a_reload(machine: Machine) -> None:
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    run = machine.run

    def with_port(argv: list[str]) -> tuple[int, str]:
        rc, out = run(argv)
        extra = argv == ["firewall-cmd", "--list-all-zones"]
        return rc, out.replace("  ports:\n", "  ports: 8443/tcp\n") if extra else out

    machine.run = with_port  # type: ignore[method-assign]
    assert "[PF-114]" in refused(machine)
    assert ours(machine) == []


def test_networks_of_containers_outlive_a_reload_and_its_rollback(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """firewall-cmd --list-all-zones where netavark has put a podman network into zone trusted."""
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    trusted = "trusted (active)\n  target: ACCEPT\n  interfaces:\n  sources: {}\n  ports:\n"
    kept = ZONES + "\n" + trusted.format("192.0.2.0/24")
    ran = ZONES + "\n" + trusted.format("192.0.2.0/24 10.88.0.0/16")
    machine.told["firewall-cmd --list-all-zones"] = ran
    machine.told["firewall-cmd --permanent --list-all-zones"] = kept
    machine.table = kernel()
    firewall(machine).present()
    again = "firewall-cmd --zone=trusted --add-source=10.88.0.0/16"
    calls = machine.calls
    assert calls.index("firewall-cmd --reload") < calls.index(again)
    journal = engine.read_json(engine.folder("peer_firewall") + "/journal.json")
    assert f"{again} || true" in journal["commands"]
    # without its table firewalld is restarted; nobody plays the unit that would put things back
    engine.disarm(machine.run, "peer_firewall", "run")
    monkeypatch.setattr(engine, "undone", lambda run, name, why: {})
    machine.calls.clear()
    machine.fails = "--add-source"
    machine.table = []
    assert "[PF-117] 10.88.0.0/16, which another program had added to zone trusted" in refused(
        machine
    )


SAVED = """*nat
:POSTROUTING ACCEPT [0:0]
-A POSTROUTING -j NETAVARK-HOSTPORT-MASQ
-A POSTROUTING -s 10.89.7.0/24 -j NETAVARK-500DD4BB96F67
-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE
COMMIT
"""


IN_NFTABLES = """table inet netavark {
  chain POSTROUTING {
    type nat hook postrouting priority srcnat; policy accept;
    meta mark & 0x00002000 == 0x00002000 masquerade
    ip saddr 10.88.0.0/16 jump nv_2f259bab_10_88_0_0_nm16
    ip6 saddr fd7a:1::/64 jump nv_2f259bab_fd7a:1::_nm64
  }
}
"""


@pytest.mark.parametrize(
    ("saved", "nft", "networks"),
    [(SAVED, "", ["10.89.7.0/24"]), ("", IN_NFTABLES, ["10.88.0.0/16", "fd7a:1::/64"])],
)
def test_the_first_start_keeps_containers_connected(
    machine: Machine, saved: str, nft: str, networks: list[str]
) -> None:
    """Containers that started before firewalld are put where netavark puts those that start after it."""
    machine.answers["iptables-save"] = saved
    run = machine.run
    asked = ["nft", "list", "chain", "inet", "netavark", "POSTROUTING"]
    machine.run = lambda argv: (  # type: ignore[method-assign]
        (0 if nft else 1, nft) if argv == asked else run(argv)
    )
    firewall(machine).present()
    calls = [call for call in machine.calls if "start firewalld" in call or "add-source" in call]
    again = [f"firewall-cmd --zone=trusted --add-source={one}" for one in networks]
    assert calls == ["systemctl start firewalld.service", *again]


BAN = 'rule family="ipv4" source address="203.0.113.7" port port="ssh" protocol="tcp" reject'


def test_bans_outlive_a_reload_and_its_rollback(machine: Machine) -> None:
    """EL's fail2ban writes them as rich rules, at runtime only."""
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    machine.told["firewall-cmd --list-all-zones"] = f"{ZONES}\t{BAN}\n"
    machine.table = kernel()
    firewall(machine).present()
    calls = machine.calls
    again = f"firewall-cmd --zone=public --add-rich-rule={BAN}"
    assert calls.index("firewall-cmd --reload") < calls.index(again)
    journal = engine.read_json(engine.folder("peer_firewall") + "/journal.json")
    assert f"firewall-cmd --zone=public '--add-rich-rule={BAN}' || true" in journal["commands"]


@pytest.mark.parametrize(
    "rule",
    [
        'rule family="ipv4" source address="192.0.2.7" accept',
        'rule family="ipv4" source address="192.0.2.7" log prefix="a drop " level="info"',
        'rule family="ipv4" source address="192.0.2.7" log prefix=" drop" accept',
        'rule family="ipv4" source address="192.0.2.7" mark set="7"',
    ],
)
def test_a_runtime_only_opening_is_not_made_permanent(machine: Machine, rule: str) -> None:
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    machine.told["firewall-cmd --list-all-zones"] = f"{ZONES}\t{BAN}\n\t{rule}\n"
    assert "[PF-114]" in refused(machine)


def test_a_source_removed_at_runtime_stops_a_reload(machine: Machine) -> None:
    kept = ZONES.replace("  sources:\n", "  sources: 192.0.2.0/24\n")
    assert firewalld_others.find_unsaved_settings(ZONES, kept, "fullmesh") == [
        "zone public, sources: none"
    ]
    assert firewalld_others.find_unsaved_settings(kept, ZONES, "fullmesh") == []
    assert firewalld_others.find_runtime_additions(kept, ZONES, "fullmesh") == [
        ("public", "source", "192.0.2.0/24")
    ]
    assert firewalld_others.find_runtime_additions(kept, ZONES, "public") == []


@pytest.mark.parametrize("flush", ["yes", "no"])
@pytest.mark.parametrize(
    ("line", "text", "kept"),
    [
        ("--list-all-zones", BOUND.format("drop"), True),
        ("--list-all-policies", POLICIES.format("http", ""), False),
        ("--direct --get-all-rules", "ipv4 filter INPUT 0 -j DROP", True),
    ],
)
def test_losses_of_a_reload_stop_it_but_not_an_undo(
    machine: Machine, line: str, text: str, kept: bool, flush: str
) -> None:
    """With FlushAllOnReload=no firewalld keeps some of it by itself."""
    put(machine.root, "/etc/firewalld/firewalld.conf", f"FlushAllOnReload={flush}\n")
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    machine.table = kernel()
    machine.told[f"firewall-cmd {line}"] = text
    machine.told[f"firewall-cmd --permanent {line}"] = (
        text.replace("eth0", "").replace("http", "").replace("ipv4 filter INPUT 0 -j DROP", "")
    )
    lost = flush == "yes" or not kept
    if lost:
        assert "[PF-114]" in refused(machine)
        assert ours(machine) == []
    run = firewall(machine, state="reloaded")
    assert run.reloaded()["changed"]
    assert [note["code"] for note in run.call.notes] == ["PF-208"] * lost
    assert machine.commands().count("firewall-cmd --reload") == 1


@pytest.mark.parametrize(
    ("fails", "code"),
    [
        ("--check-config", "PF-116"),
        ("start firewalld", "PF-117"),
        ("firewall-cmd --state", "PF-117"),
        ("systemd-run", "PF-119"),
    ],
)
def test_each_failing_step_has_its_code(
    machine: Machine, fails: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "undone", lambda run, name, why: {})
    machine.fails = fails
    assert f"[{code}]" in refused(machine)
