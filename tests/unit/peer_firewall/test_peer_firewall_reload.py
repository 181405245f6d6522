"""The peers' firewall: settings that must survive a reload."""

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
    build_ruleset,
    expect_refusal,
    list_own_files,
    make_firewall,
    write_file,
)


def test_runtime_only_settings_stop_a_reload(machine: Machine) -> None:
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    run = machine.run

    def with_port(argv: list[str]) -> tuple[int, str]:
        rc, out = run(argv)
        extra = argv == ["firewall-cmd", "--list-all-zones"]
        return rc, out.replace("  ports:\n", "  ports: 8443/tcp\n") if extra else out

    machine.run = with_port  # type: ignore[method-assign]
    assert "[PF-114]" in expect_refusal(machine)
    assert list_own_files(machine) == []


def test_container_networks_survive_a_reload_and_its_rollback(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """netavark has added a podman network to zone trusted, as ``firewall-cmd --list-all-zones`` shows it."""
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    trusted = "trusted (active)\n  target: ACCEPT\n  interfaces:\n  sources: {}\n  ports:\n"
    saved = ZONES + "\n" + trusted.format("192.0.2.0/24")
    runtime = ZONES + "\n" + trusted.format("192.0.2.0/24 10.88.0.0/16")
    machine.outputs["firewall-cmd --list-all-zones"] = runtime
    machine.outputs["firewall-cmd --permanent --list-all-zones"] = saved
    machine.table = build_ruleset()
    make_firewall(machine).present()
    add_source = "firewall-cmd --zone=trusted --add-source=10.88.0.0/16"
    calls = machine.calls
    assert calls.index("firewall-cmd --reload") < calls.index(add_source)
    read_journal = engine.read_json(engine.folder("peer_firewall") + "/journal.json")
    assert f"{add_source} || true" in read_journal["commands"]
    # without its table, firewalld is restarted; no unit runs the rollback here
    engine.disarm(machine.run, "peer_firewall", "run")
    monkeypatch.setattr(engine, "undone", lambda run, name, why: {})
    machine.calls.clear()
    machine.fails = "--add-source"
    machine.table = []
    assert (
        "[PF-117] 10.88.0.0/16, which another program had added to zone trusted"
        in expect_refusal(machine)
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
    """Containers that ran before firewalld go into the zone that netavark uses for later ones."""
    machine.answers["iptables-save"] = saved
    run = machine.run
    chain_query = ["nft", "list", "chain", "inet", "netavark", "POSTROUTING"]
    machine.run = lambda argv: (  # type: ignore[method-assign]
        (0 if nft else 1, nft) if argv == chain_query else run(argv)
    )
    make_firewall(machine).present()
    calls = [call for call in machine.calls if "start firewalld" in call or "add-source" in call]
    add_source = [f"firewall-cmd --zone=trusted --add-source={one}" for one in networks]
    assert calls == ["systemctl start firewalld.service", *add_source]


BAN = 'rule family="ipv4" source address="203.0.113.7" port port="ssh" protocol="tcp" reject'


def test_bans_survive_a_reload_and_its_rollback(machine: Machine) -> None:
    """EL's fail2ban writes its bans as runtime-only rich rules."""
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    machine.outputs["firewall-cmd --list-all-zones"] = f"{ZONES}\t{BAN}\n"
    machine.table = build_ruleset()
    make_firewall(machine).present()
    calls = machine.calls
    add_source = f"firewall-cmd --zone=public --add-rich-rule={BAN}"
    assert calls.index("firewall-cmd --reload") < calls.index(add_source)
    read_journal = engine.read_json(engine.folder("peer_firewall") + "/journal.json")
    assert f"firewall-cmd --zone=public '--add-rich-rule={BAN}' || true" in read_journal["commands"]


@pytest.mark.parametrize(
    "rule",
    [
        'rule family="ipv4" source address="192.0.2.7" accept',
        'rule family="ipv4" source address="192.0.2.7" log prefix="a drop " level="info"',
        'rule family="ipv4" source address="192.0.2.7" log prefix=" drop" accept',
        'rule family="ipv4" source address="192.0.2.7" mark set="7"',
    ],
)
def test_runtime_only_opening_stops_a_reload(machine: Machine, rule: str) -> None:
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    machine.outputs["firewall-cmd --list-all-zones"] = f"{ZONES}\t{BAN}\n\t{rule}\n"
    assert "[PF-114]" in expect_refusal(machine)


def test_a_source_removed_at_runtime_stops_a_reload(machine: Machine) -> None:
    saved = ZONES.replace("  sources:\n", "  sources: 192.0.2.0/24\n")
    assert firewalld_others.find_unsaved_settings(ZONES, saved, "fullmesh") == [
        "zone public, sources: none"
    ]
    assert firewalld_others.find_unsaved_settings(saved, ZONES, "fullmesh") == []
    assert firewalld_others.find_runtime_additions(saved, ZONES, "fullmesh") == [
        ("public", "source", "192.0.2.0/24")
    ]
    assert firewalld_others.find_runtime_additions(saved, ZONES, "public") == []


@pytest.mark.parametrize("flush", ["yes", "no"])
@pytest.mark.parametrize(
    ("line", "text", "saved"),
    [
        ("--list-all-zones", BOUND.format("drop"), True),
        ("--list-all-policies", POLICIES.format("http", ""), False),
        ("--direct --get-all-rules", "ipv4 filter INPUT 0 -j DROP", True),
    ],
)
def test_losses_stop_a_reload_but_not_an_undo(
    machine: Machine, line: str, text: str, saved: bool, flush: str
) -> None:
    """With FlushAllOnReload=no, firewalld itself keeps some of the settings."""
    write_file(machine.root, "/etc/firewalld/firewalld.conf", f"FlushAllOnReload={flush}\n")
    machine.units[firewall_peers.UNIT] = ("loaded", "active", "enabled")
    machine.table = build_ruleset()
    machine.outputs[f"firewall-cmd {line}"] = text
    machine.outputs[f"firewall-cmd --permanent {line}"] = (
        text.replace("eth0", "").replace("http", "").replace("ipv4 filter INPUT 0 -j DROP", "")
    )
    refused = flush == "yes" or not saved
    if refused:
        assert "[PF-114]" in expect_refusal(machine)
        assert list_own_files(machine) == []
    run = make_firewall(machine, state="reloaded")
    assert run.reloaded()["changed"]
    assert [note["code"] for note in run.call.notes] == ["PF-208"] * refused
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
    assert f"[{code}]" in expect_refusal(machine)
