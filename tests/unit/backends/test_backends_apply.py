"""Network backends: the commands that apply and undo a change."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.network import owner as network_owner
from ansible.module_utils.fullmesh.network.backends import (
    ifupdown,
    networkmanager,
)
from backend_links import BOND, OVER, flat, snapshot
from network_samples import link


def test_nmcli_starts_the_bond_first_and_names_existing_devices_only() -> None:
    lines = flat(networkmanager.build_activation_commands([OVER, BOND], {"links": {}}, 30))
    ups = [line for line in lines if " up " in line]
    wanted = [networkmanager.build_profile_uuid(one) for one in ("bond0", "bond0.100")]
    assert [line.split("uuid ")[1] for line in ups] == wanted
    (card,) = [
        one
        for one in flat(networkmanager.build_activation_commands([link()], {"links": {}}))
        if " up " in one
    ]
    assert card.endswith("ifname eth1")


NMCLI = """#!/bin/sh
echo "$@" >> "$LOG"
[ "$(wc -l < "$LOG")" -gt "$FAILS" ] && exit 0
echo "Error: Connection activation failed: $SAYS"; exit 4
"""


INTERRUPTED = "The base network connection was interrupted"


@pytest.mark.parametrize(
    ("says", "fails", "calls", "code"),
    [
        (INTERRUPTED, 0, 1, 0),
        (INTERRUPTED, 1, 2, 0),
        (INTERRUPTED, 2, 2, 4),
        ("IP configuration could not be reserved", 1, 1, 4),
    ],
)
def test_a_vlan_is_brought_up_again_after_its_parent(
    tmp_path: Path, says: str, fails: int, calls: int, code: int
) -> None:
    steps = networkmanager.build_activation_commands([OVER, BOND], {"links": {}}, 30)
    assert [step[0] for step in steps if "up" in step] == ["nmcli", "/bin/sh"]
    tool = tmp_path / "nmcli"
    tool.write_text(NMCLI)
    tool.chmod(0o755)
    log = tmp_path / "log"
    log.touch()
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "LOG": str(log), "FAILS": str(fails), "SAYS": says}
    done = subprocess.run(steps[-1], env=env, check=False, capture_output=True, text=True)
    assert (done.returncode, len(log.read_text().splitlines())) == (code, calls)
    assert (says in done.stdout) == bool(code)


# 1.42 has dropped the link-local address and its route by the time of the second question.
IP = """#!/bin/sh
case "$*" in
  "-6 -o addr show"*) echo "2: eth1    inet6 fe80::5/64 scope link" ;;
  "-6 route show"*) ;;
  *) echo "ip $*" >> "$LOG" ;;
esac
"""


@pytest.mark.parametrize(
    ("leases", "fails"),
    [(["10.0.0.5/24"], 1), (["10.0.0.5/24"], 2), (["10.0.0.5/24"], 0), ([], 1)],
)
def test_a_client_without_a_lease_keeps_asking_during_rollback(
    tmp_path: Path, leases: list[str], fails: int
) -> None:
    """The failure is still reported."""
    there = {"up": True, "mtu": 1500, "master": "", "addresses": [], "leases": leases}
    before = {"links": {"eth1": there}, "routes": [], "profiles": {"eth1": "a-uuid"}}
    (step,) = [
        one
        for one in networkmanager.build_reactivation_commands(["eth1"], before)
        if "a-uuid" in one
    ]
    tool = tmp_path / "nmcli"
    tool.write_text(NMCLI)
    tool.chmod(0o755)
    log = tmp_path / "log"
    log.touch()
    (tmp_path / "ip").write_text(IP)
    (tmp_path / "ip").chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "LOG": str(log), "FAILS": str(fails), "SAYS": "x"}
    done = subprocess.run(step, env=env, check=False, capture_output=True, text=True)
    assert done.returncode == (4 if fails else 0)
    assert (": x" in done.stdout) == bool(fails)
    calls = ["--wait 20 connection up uuid a-uuid ifname eth1"]
    if leases and fails:
        four = "device modify eth1 ipv4.dhcp-timeout 2147483647"
        # the second call fails where nmcli is older than 1.24: it knows no ipv6.dhcp-timeout
        calls += [f"{four} ipv6.dhcp-timeout 2147483647", *([four] if fails > 1 else [])]
        calls += ["ip addr add fe80::5/64 dev eth1"]
        calls += ["ip -6 route add fe80::/64 dev eth1 proto kernel metric 256"]
    assert log.read_text().splitlines() == calls


@pytest.mark.parametrize("name", ["networkd", "netplan"])
@pytest.mark.parametrize(
    ("seen", "calls"),
    [
        (("10.0.0.5", "inet 10.0.0.5/24 brd"), []),
        # got, and never set
        (
            ("10.0.0.5", "inet 10.0.0.50/24 brd"),
            ["sleep 0.5"] * 10 + ["systemctl restart systemd-networkd.service"],
        ),
        (("", "inet 10.0.0.9/24 brd"), ["sleep 0.5"] * 3),  # a server that does not answer
    ],
)
def test_an_unused_lease_of_networkd_is_renewed(
    tmp_path: Path, name: str, seen: tuple[str, str], calls: list[str]
) -> None:
    there = {"up": True, "mtu": 1500, "master": "", "addresses": [], "leases": ["10.0.0.5/24"]}
    before = {"links": {"eth1": there}, "routes": []}
    *_, step = network_owner.get_backend(name).build_reactivation_commands(["eth1"], before)
    lease, addresses = seen
    for path, line in (
        ("sys/eth1/ifindex", "7"),
        ("netif/leases/7", lease and f"ADDRESS={lease}"),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(line and line + "\n")
    for tool in ("sleep", "systemctl"):
        (tmp_path / tool).write_text(f'#!/bin/sh\necho {tool} "$@" >> "{tmp_path}/log"\n')
        (tmp_path / tool).chmod(0o755)
    (tmp_path / "ip").write_text(f'#!/bin/sh\necho "2: eth1    {addresses}"\n')
    (tmp_path / "ip").chmod(0o755)
    (tmp_path / "log").touch()
    script = step[2].replace("/sys/class/net", f"{tmp_path}/sys")
    argv = [*step[:2], script.replace("/run/systemd/netif", f"{tmp_path}/netif"), *step[3:]]
    subprocess.run(argv, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=True)
    assert (tmp_path / "log").read_text().splitlines() == calls
    without = {"links": {"eth1": {**there, "leases": []}}, "routes": []}
    assert step not in network_owner.get_backend(name).build_reactivation_commands(
        ["eth1"], without
    )


@pytest.mark.parametrize(
    ("file", "stop"),
    [
        ("/run/dhclient.eth1.pid", "dhclient -x -pf /run/dhclient.eth1.pid eth1"),
        ("/run/dhcpcd/eth1.pid", "dhcpcd -x eth1"),
        ("/run/dhcpcd/eth1-4.pid", "dhcpcd -x -4 eth1"),
        ("/run/dhcpcd/eth1-6.pid", "dhcpcd -x -6 eth1"),
    ],
)
def test_ifupdown_stops_a_dhcp_client_of_the_old_file(file: str, stop: str) -> None:
    says = {f"cat {file}": (0, "7\n"), "cat /proc/7/comm": (0, "client\n")}
    before = snapshot("ifupdown", [link(interface="eth1")], **says)
    lines = flat(ifupdown.build_activation_commands([link()], before))
    assert lines == [stop, "ip addr flush dev eth1 scope global", "ifup --force eth1"]
    back = flat(ifupdown.build_reactivation_commands(["eth1"], before))
    assert "systemd-run --scope --quiet ifup --force eth1" in back


def test_ifupdown_ignores_the_pid_file_of_a_killed_dhcp_client() -> None:
    says = {"cat /run/dhcpcd/eth1.pid": (0, "7\n")}
    before = snapshot("ifupdown", [link(interface="eth1")], **says)
    lines = flat(ifupdown.build_activation_commands([link()], before))
    assert lines == ["ip addr flush dev eth1 scope global", "ifup --force eth1"]


def test_ifupdown_restores_router_advertisements_before_the_old_stanza() -> None:
    """Our stanza turns it off, and no ifdown turns it on again."""
    conf = "/proc/sys/net/ipv6/conf/eth1/"
    says = {f"cat {conf}accept_ra": (0, "1\n"), f"cat {conf}autoconf": (0, "1\n")}
    says["ifquery --state"] = (0, "eth1=eth1\n")
    before = snapshot("ifupdown", [link(interface="eth1")], **says)
    lines = flat(ifupdown.build_reactivation_commands(["eth1"], before))
    given = [f'/bin/sh -c echo "$1" > "$0" {conf}{key} 1' for key in ("accept_ra", "autoconf")]
    at = lines.index(given[0])
    assert lines[at : at + 3] == [*given, "systemd-run --scope --quiet ifup --force eth1"]
    # a kernel without IPv6 has no such setting
    bare = flat(
        ifupdown.build_reactivation_commands(
            ["eth1"], snapshot("ifupdown", [link(interface="eth1")])
        )
    )
    assert not [one for one in bare if conf in one]


def test_a_dhcp_client_outlives_the_rollback_unit() -> None:
    """systemd ends every process of a unit with it; the address would go when its lease ends."""
    before = snapshot(
        "ifupdown", [link(interface="eth1")], **{"ifquery --state": (0, "eth1=eth1\n")}
    )
    ups = [
        one for one in flat(ifupdown.build_reactivation_commands(["eth1"], before)) if "ifup" in one
    ]
    assert [one.rpartition(" ifup ")[0] for one in ups] == ["systemd-run --scope --quiet"]


def test_ifupdown_drops_an_ipv6_route_that_would_outlive_its_address() -> None:
    default = {"dst": "default", "gateway": "fd00::1", "dev": "eth1"}
    says = {"ip -j -6 route*": (0, json.dumps([default])), "ip -j -4 route*": (0, "[]")}
    before = snapshot("ifupdown", [link(interface="eth1")], **says)
    lines = flat(ifupdown.build_activation_commands([link()], before))
    assert lines[-2:] == ["ip -6 route flush proto boot dev eth1", "ifup --force eth1"]
    assert "ip -6 route replace default via fd00::1 dev eth1 proto boot" in flat(
        ifupdown.build_reactivation_commands(["eth1"], before)
    )


def test_a_default_route_among_the_routes_is_a_gateway() -> None:
    """Otherwise, NetworkManager would not let it be the default route."""
    one = link(
        addresses=["10.0.0.11/24", "fd00::11/64"],
        gateway="10.0.0.1",
        routes=[{"to": "::/0", "via": "fd00::1"}],
    )
    content = "".join(networkmanager.build_files([one]).values())
    assert "::/0" not in content
    assert "gateway=fd00::1" in content
    assert "never-default" not in content


@pytest.mark.parametrize("name", ["networkd", "netplan"])
def test_an_old_systemd_is_restarted_and_applied(name: str) -> None:
    says = {"networkctl --version": (0, "systemd 241 (241)\n"), "systemctl is-active*": (3, "")}
    before = snapshot(name, [link()], **says)
    last = flat(network_owner.get_backend(name).build_activation_commands([link()], before))[-1]
    assert last in ("systemctl restart systemd-networkd.service", "netplan apply")
