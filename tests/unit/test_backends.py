"""The four owners of an interface: what is written for each, whose it is, and what becomes of others' files.

One file, though long: the four owners are held to the same cases, with one fake machine and one set of records.
"""

from __future__ import annotations

import configparser
import fnmatch
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.fullmesh.network import owner as network_owner
from ansible.module_utils.fullmesh.network import static_ip
from ansible.module_utils.fullmesh.network.backends import (
    common,
    ifupdown,
    kernel_state,
    netplan,
    networkd,
    networkmanager,
)
from ansible.module_utils.fullmesh.tools import ip as ip_tool
from hypothesis import given
from hypothesis import strategies as st
from network_samples import Link, link
from record_files import read_record

DATA = Path(__file__).parent / "data/network"
BOND_JSON = read_record(DATA / "ip-bond-vlan.json")
MAC = "02:00:00:00:00:0a"
EVERY = sorted(network_owner.BACKENDS)


def recorded(name: str) -> str:
    return (DATA / name).read_text()


FULL = link(
    mac=MAC,
    addresses=["10.0.0.11/24", "10.0.1.11/24", "fd00::11/64", "fd01::11/64", "fd02::11/64"],
    gateway="10.0.0.1",
    dns=["10.0.0.53", "fd00::53"],
    search=["lab.example", "b.example"],
    mtu=9000,
    routes=[{"to": "10.9.0.0/16", "via": "10.0.0.2"}, {"to": "fd09::/48", "via": "fd00::2"}],
)
BOND = link(
    interface="bond0",
    addresses=[],
    mtu=9000,
    bond={
        "mode": "802.3ad",
        "members": ["eth2", "eth3"],
        "miimon": 100,
        "lacp_rate": "fast",
        "xmit_hash_policy": "layer3+4",
    },
)
OVER = link(
    interface="bond0.100",
    addresses=["10.1.0.11/24", "fd03::11/64"],
    gateway="fd03::1",
    vlan={"id": 100, "parent": "bond0"},
)
BACKUP = link(
    interface="bond1",
    addresses=["10.2.0.11/24"],
    bond={"mode": "active-backup", "members": ["eth4", "eth5"], "miimon": 100, "primary": "eth5"},
)
BARE = link(interface="vlan7", addresses=["10.3.0.11/24"], vlan={"id": 7, "parent": "eth0"})
ALL = [OVER, FULL, BOND, BARE, BACKUP]


class Machine:
    """Files and commands of a node, in memory."""

    def __init__(
        self, files: dict[str, str] | None = None, says: dict[str, tuple[int, str]] | None = None
    ) -> None:
        self.files = dict(files or {})
        self.says = dict(says or {})
        self.asked: list[str] = []

    def run(self, argv: list[str]) -> tuple[int, str, str]:
        line = " ".join(argv)
        self.asked.append(line)
        for pattern, (rc, out) in self.says.items():
            if fnmatch.fnmatchcase(line, pattern):
                return rc, out, ""
        return 127, "", "not found"

    def read(self, path: str) -> str:
        return self.files.get(path, "")

    def listed(self, pattern: str) -> list[str]:
        depth = pattern.count("/")
        return sorted(
            path
            for path in self.files
            if fnmatch.fnmatchcase(path, pattern) and path.count("/") == depth
        )

    def owner(self, interface: str) -> str:
        return network_owner.find_owner(self.run, self.read, self.listed, interface)

    def foreign(self, name: str, links: list[Link]) -> dict[str, str | None]:
        found: dict[str, str | None] = network_owner.get_backend(name).find_foreign_changes(
            self.read, self.listed, links
        )
        return found

    def settle(self, name: str, links: list[Link]) -> dict[str, str | None]:
        """Make the changes, as the role does, and ask again."""
        for path, content in self.foreign(name, links).items():
            if content is None:
                del self.files[path]
            else:
                self.files[path] = content
        self.files.update(network_owner.get_backend(name).build_files(links))
        again = self.foreign(name, links)
        return {path: content for path, content in again.items() if content != self.read(path)}


# --- what is written --------------------------------------------------------------------------


def pairs(content: str) -> list[tuple[str, str]]:
    """Every key=value with its section, in order."""
    section, found = "", []
    for line in content.splitlines():
        if line.startswith("["):
            section = line[1:-1]
        elif "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.append((f"{section}.{key}" if section else key, value))
    return found


def test_networkd_of_a_full_link() -> None:
    files = networkd.build_files([FULL])
    assert list(files) == ["/etc/systemd/network/00-fullmesh-eth1.network"]
    assert pairs(next(iter(files.values()))) == [
        ("Match.MACAddress", MAC),
        ("Match.Type", "ether"),
        ("Link.MTUBytes", "9000"),
        ("Link.RequiredForOnline", "no"),
        ("Network.DHCP", "no"),
        ("Network.LinkLocalAddressing", "ipv6"),
        ("Network.IPv6AcceptRA", "no"),
        *(("Network.Address", one) for one in FULL["addresses"]),
        ("Network.Gateway", "10.0.0.1"),
        ("Network.DNS", "10.0.0.53"),
        ("Network.DNS", "fd00::53"),
        ("Network.Domains", "lab.example b.example"),
        ("Route.Destination", "10.9.0.0/16"),
        ("Route.Gateway", "10.0.0.2"),
        ("Route.Destination", "fd09::/48"),
        ("Route.Gateway", "fd00::2"),
    ]


def test_networkd_of_a_vlan_over_a_bond() -> None:
    files = networkd.build_files([OVER, BOND])
    base = "/etc/systemd/network/00-fullmesh-"
    assert set(files) == {
        base + name
        for name in (
            "bond0.netdev",
            "bond0.network",
            "bond0.100.netdev",
            "bond0.100.network",
            "eth2.network",
            "eth3.network",
        )
    }
    assert pairs(files[base + "bond0.netdev"]) == [
        ("NetDev.Name", "bond0"),
        ("NetDev.Kind", "bond"),
        ("Bond.Mode", "802.3ad"),
        ("Bond.MIIMonitorSec", "100ms"),
        ("Bond.LACPTransmitRate", "fast"),
        ("Bond.TransmitHashPolicy", "layer3+4"),
    ]
    assert ("VLAN.Id", "100") in pairs(files[base + "bond0.100.netdev"])
    assert ("Network.VLAN", "bond0.100") in pairs(files[base + "bond0.network"])
    assert ("Network.Bond", "bond0") in pairs(files[base + "eth2.network"])


def test_networkd_marks_the_primary() -> None:
    files = networkd.build_files([BACKUP])
    assert "PrimarySlave=yes" in files["/etc/systemd/network/00-fullmesh-eth5.network"]
    assert "PrimarySlave" not in files["/etc/systemd/network/00-fullmesh-eth4.network"]


def sourced(content: str) -> dict[str, str]:
    """What sh makes of an ifcfg file: NetworkManager's plugin reads it likewise."""
    script = f"set -eu\n{content}\nset"
    done = subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True, env={})
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    return {key: value.strip("'") for key, value in found.items() if key + "=" in content}


def test_ifupdown_of_a_full_link() -> None:
    content = ifupdown.build_files([FULL])["/etc/network/interfaces.d/fullmesh"]
    body = content.split("\n\n", 1)[1]
    assert [line for line in body.splitlines() if line and line[0] != " "] == [
        "auto eth1",
        "iface eth1 inet static",
        "iface eth1 inet static",
        "iface eth1 inet6 static",
        "iface eth1 inet6 static",
        "iface eth1 inet6 static",
    ]
    assert body.count("    gateway 10.0.0.1\n") == 1
    assert body.index("gateway") < body.index("10.0.1.11")
    for part in (
        *(f"    address {one}\n" for one in FULL["addresses"]),
        f"pre-up grep -qix {MAC} /sys/class/net/eth1/address",
        "pre-up ip link set eth1 mtu 9000",
        "dns-nameservers 10.0.0.53 fd00::53",
        "dns-search lab.example b.example",
        "up ip route replace 10.9.0.0/16 via 10.0.0.2 dev eth1",
        "up ip route replace fd09::/48 via fd00::2 dev eth1",
    ):
        assert part in body


def test_ifupdown_creates_the_bond_before_its_vlan() -> None:
    body = ifupdown.build_files([OVER, BOND])["/etc/network/interfaces.d/fullmesh"]
    assert body.index("auto bond0\n") < body.index("auto bond0.100\n")
    assert "type bond mode 802.3ad miimon 100 lacp_rate fast xmit_hash_policy layer3+4" in body
    assert "ip link set eth2 down; ip link set eth2 master bond0" in body
    assert "ip link add link bond0 name bond0.100 type vlan id 100" in body
    assert body.count("post-down ip link delete") == 2


def test_netplan_of_all_kinds() -> None:
    network = yaml.safe_load(netplan.build_files(ALL)[netplan.PATH])["network"]
    assert network["bonds"]["bond0"]["interfaces"] == ["eth2", "eth3"]
    assert network["bonds"]["bond0"]["parameters"] == {
        "mode": "802.3ad",
        "mii-monitor-interval": "100",
        "lacp-rate": "fast",
        "transmit-hash-policy": "layer3+4",
    }
    assert "addresses" not in network["bonds"]["bond0"]
    assert network["bonds"]["bond1"]["parameters"]["primary"] == "eth5"
    vlan = network["vlans"]["bond0.100"]
    assert (vlan["id"], vlan["link"], vlan["addresses"]) == (100, "bond0", OVER["addresses"])
    assert vlan["routes"] == [{"to": "::/0", "via": "fd03::1"}]
    # a parent that is somebody else's is named, and nothing is said of it
    assert network["ethernets"]["eth0"] == {}
    assert network["ethernets"]["eth2"]["link-local"] == []


def keyfiles(links: list[Link]) -> dict[str, configparser.ConfigParser]:
    result = {}
    for path, content in networkmanager.build_files(links).items():
        parser = configparser.ConfigParser()
        parser.read_string(content)
        result[path.rsplit("fullmesh-", 1)[1].removesuffix(".nmconnection")] = parser
    return result


def test_networkmanager_of_all_kinds() -> None:
    files = keyfiles(ALL)
    assert dict(files["bond0"]["bond"]) == {
        "mode": "802.3ad",
        "miimon": "100",
        "lacp_rate": "fast",
        "xmit_hash_policy": "layer3+4",
    }
    assert files["bond0"]["connection"]["autoconnect-slaves"] == "1"
    assert files["bond0"]["ethernet"]["mtu"] == "9000"
    assert files["bond0"]["ipv4"]["method"] == "disabled"
    head = files["eth3"]["connection"]
    assert (head["master"], head["slave-type"], head["type"]) == ("bond0", "bond", "ethernet")
    assert files["eth3"].sections() == ["connection"]
    assert dict(files["vlan7"]["vlan"]) == {"id": "7", "parent": "eth0", "flags": "1"}
    assert "eth0" not in files
    uuids = {one["connection"]["uuid"] for one in files.values()}
    assert len(uuids) == len(files)


def test_networkmanager_numbers_addresses_and_routes_as_its_manual_does() -> None:
    """nm-settings-keyfile(5): address1, address2, route1; the file is what the role writes, whole."""
    one = link(
        mac="02:00:00:00:00:0a",
        addresses=["192.0.2.1/24", "192.0.2.2/24"],
        gateway="192.0.2.254",
        dns=["192.0.2.53"],
        search=["lab.test"],
        mtu=9000,
        routes=[
            {"to": "198.51.100.0/24", "via": "192.0.2.253"},
            {"to": "203.0.113.0/24", "via": "192.0.2.253"},
        ],
    )
    (text,) = networkmanager.build_files([one]).values()
    assert text.split("\n\n")[1:] == [
        "[ethernet]\nmac-address=02:00:00:00:00:0A\nmtu=9000",
        "[ipv4]\nmethod=manual\nmay-fail=false\naddress1=192.0.2.1/24\naddress2=192.0.2.2/24\n"
        "gateway=192.0.2.254\ndns=192.0.2.53;\ndns-search=lab.test;\n"
        "route1=198.51.100.0/24,192.0.2.253\nroute2=203.0.113.0/24,192.0.2.253",
        "[ipv6]\nmethod=link-local\n",
    ]


@given(st.lists(st.ip_addresses(), min_size=1, max_size=6, unique=True), st.booleans())
def test_every_backend_carries_every_address(found: list[Any], tagged: bool) -> None:
    written = [f"{one}/{32 if one.version == 4 else 128}" for one in found]
    vlan = {"id": 5, "parent": "eth1"} if tagged else {}
    one = link(interface="eth1.5" if tagged else "eth1", addresses=written, vlan=vlan)
    for name in EVERY:
        content = "".join(network_owner.get_backend(name).build_files([one]).values())
        for value in written:
            assert value in content


@pytest.mark.parametrize("name", EVERY)
def test_the_same_links_always_give_the_same_files(name: str) -> None:
    backend = network_owner.get_backend(name)
    files = backend.build_files(ALL)
    assert files == backend.build_files(ALL)
    machine = Machine(files)
    assert network_owner.read_own_files(machine.read, machine.listed) == files
    assert all(content.startswith(common.HEAD) for content in files.values())
    assert all(backend.get_file_mode(path) in (0o600, 0o644) for path in files)
    assert backend.build_files([]) == {}


def test_a_foreign_file_beside_ours_is_not_ours() -> None:
    machine = Machine({"/etc/sysconfig/network-scripts/ifcfg-ens33": recorded("ifcfg-ens33-el7")})
    assert network_owner.read_own_files(machine.read, machine.listed) == {}


# --- whose it is ------------------------------------------------------------------------------

STATE = "nmcli *GENERAL.STATE device show "
NETPLAN = {"netplan info": (0, "")}
NETWORKD = {"systemctl is-active *systemd-networkd.service": (0, "")}
IFUPDOWN = {"ifquery --version": (0, "ifquery version 0.8.41\n")}
MAIN = {"/etc/network/interfaces": recorded("interfaces-debian")}
IFCFG = {"/etc/sysconfig/network-scripts/ifcfg-ens33": recorded("ifcfg-ens33-el7")}


def nm(word: str) -> dict[str, tuple[int, str]]:
    return {STATE + "*": (0, recorded("nmcli-" + word))}


def networkd_state(name: str, interface: str = "eth1") -> dict[str, str]:
    return {
        f"/sys/class/net/{interface}/ifindex": "6\n",
        "/run/systemd/netif/links/6": recorded(name),
    }


@pytest.mark.parametrize(
    ("interface", "files", "says", "owner"),
    [
        ("eth1", {}, nm("disconnected"), "networkmanager"),
        ("eth1", {}, nm("connected"), "networkmanager"),
        ("eth1", {}, nm("external"), "networkmanager"),
        # NetworkManager runs and keeps off: whoever else is there
        ("eth1", {}, nm("unmanaged"), ""),
        ("eth1", {}, nm("unmanaged") | NETPLAN, "netplan"),
        ("eth1", {}, nm("unmanaged") | NETWORKD, "networkd"),
        ("eth1", MAIN, nm("unmanaged") | IFUPDOWN, "ifupdown"),
        # NM_CONTROLLED=no: EL9 has nobody else who would bring it up
        ("ens33", IFCFG, nm("unmanaged"), ""),
        # a stanza without ifupdown is a leftover of the upgrade to netplan
        ("eth1", MAIN, NETPLAN, "netplan"),
        ("eth1", MAIN, IFUPDOWN | NETPLAN, "ifupdown"),
        ("eth9", MAIN, IFUPDOWN, "ifupdown"),
        ("eth9", MAIN, IFUPDOWN | NETWORKD, "networkd"),
        ("eth1", networkd_state("networkd-link"), NETPLAN | NETWORKD, "networkd"),
        ("eth1", networkd_state("networkd-link-netplan"), NETPLAN | NETWORKD, "netplan"),
        ("eth1", {}, NETPLAN | NETWORKD, "netplan"),
        ("eth1", {}, NETWORKD, "networkd"),
        # EL9: the profile may come from such a file; EL10 has no plugin for them
        ("ens33", IFCFG, nm("connected"), "networkmanager"),
        ("ens33", IFCFG, {}, ""),
        ("eth1", {}, {}, ""),
    ],
)
def test_the_owner_is_asked_not_guessed(
    interface: str, files: dict[str, str], says: dict[str, tuple[int, str]], owner: str
) -> None:
    assert Machine(files, says).owner(interface) == owner


@pytest.mark.parametrize("name", EVERY)
def test_our_files_keep_their_owner(name: str) -> None:
    says = {
        "networkmanager": nm("connected"),
        "netplan": NETPLAN | NETWORKD,
        "networkd": NETWORKD,
        "ifupdown": IFUPDOWN,
    }[name]
    files = network_owner.get_backend(name).build_files([link()])
    files |= {
        "networkd": networkd_state("networkd-link"),
        "netplan": networkd_state("networkd-link-netplan"),
        "ifupdown": MAIN,
    }.get(name, {})
    assert Machine(files, says).owner("eth1") == name


def owners_of(machine: Machine, links: list[Link]) -> tuple[dict[str, str], dict[str, str]]:
    found: tuple[dict[str, str], dict[str, str]] = network_owner.find_link_owners(
        machine.run, machine.read, machine.listed, links
    )
    return found


def test_a_bond_needs_its_members_and_a_vlan_its_parent() -> None:
    found, why = owners_of(Machine({}, nm("disconnected")), [OVER, BOND, BARE])
    assert found == dict.fromkeys(("bond0.100", "bond0", "vlan7"), "networkmanager")
    assert why == {}


def test_a_bond_of_two_owners_is_refused_in_words() -> None:
    says = {STATE + "eth2": (0, "30 (disconnected)\n"), STATE + "*": (10, ""), **NETPLAN}
    found, why = owners_of(Machine({}, says), [BOND, OVER])
    assert found == {"bond0.100": "netplan"} or "bond0.100" in why
    assert "eth2 belongs to networkmanager, eth3 belongs to netplan" in why["bond0"]


def test_an_interface_without_an_owner_is_named() -> None:
    assert "no program on this node configures eth1" in owners_of(Machine(), [link()])[1]["eth1"]


# --- files of others --------------------------------------------------------------------------

ADDRESS = {"/sys/class/net/eth1/address": MAC + "\n"}
CLOUD = "/etc/cloud/cloud.cfg.d/99-fullmesh-network.cfg"


def kept(before: str, after: str) -> list[str]:
    """The lines of *before* that are no longer in force, and nothing else may differ."""
    gone = []
    assert len(before.splitlines()) == len(after.splitlines())
    for old, new in zip(before.splitlines(), after.splitlines()):
        if old != new:
            assert new.strip() == "# fullmesh: " + old.strip()
            gone.append(old.strip())
    return gone


def test_cloud_inits_netplan_file_loses_our_addresses_alone() -> None:
    path, before = "/etc/netplan/50-cloud-init.yaml", recorded("50-cloud-init.netplan")
    machine = Machine({path: before, **ADDRESS})
    changes = machine.foreign("netplan", [link()])
    after = changes[path]
    assert isinstance(after, str)
    assert kept(before, after) == [
        "addresses:",
        "- 10.9.0.7/24",
        "nameservers:",
        "addresses: [10.9.0.53]",
        "routes:",
        "-   to: default",
        "via: 10.9.0.1",
    ]
    network = yaml.safe_load(after)["network"]
    assert network["ethernets"]["eth0"] == yaml.safe_load(before)["network"]["ethernets"]["eth0"]
    assert network["ethernets"]["eth1"] == {"match": {"macaddress": MAC}, "set-name": "eth1"}
    assert yaml.safe_load(str(changes[CLOUD])) == {"network": {"config": "disabled"}}
    assert machine.settle("netplan", [link()]) == {}


def test_the_installers_file_loses_its_only_entry_and_stays_yaml() -> None:
    path, before = "/etc/netplan/00-installer-config.yaml", recorded("00-installer-config.netplan")
    machine = Machine({path: before})
    changes = machine.foreign("netplan", [link()])
    assert set(changes) == {path}
    assert yaml.safe_load(str(changes[path])) == {"network": {"version": 2}}
    assert kept(before, str(changes[path])) == ["ethernets:", "eth1:", "dhcp4: true"]
    assert machine.settle("netplan", [link()]) == {}


def test_an_entry_with_another_name_is_matched_by_its_mac() -> None:
    path, before = "/etc/netplan/50-cloud-init.yaml", recorded("50-cloud-init-subiquity.netplan")
    machine = Machine({path: before, **ADDRESS})
    network = yaml.safe_load(str(machine.foreign("netplan", [link()])[path]))["network"]
    assert network["ethernets"]["eth1"] == {"match": {"macaddress": MAC}, "set-name": "eth1"}
    assert network["ethernets"]["zz-all-en"] == {"match": {"name": "en*"}, "dhcp4": True}
    assert machine.settle("netplan", [link()]) == {}


def test_a_foreign_bond_with_our_name_is_replaced_whole() -> None:
    before = "network:\n  bonds:\n    bond0:\n      interfaces: [a, b]\n  version: 2\n"
    machine = Machine({"/etc/netplan/01.yaml": before})
    after = machine.foreign("netplan", [BOND])["/etc/netplan/01.yaml"]
    assert yaml.safe_load(str(after)) == {"network": {"version": 2}}


@pytest.mark.parametrize(
    "content",
    [
        "network: {version: 2, ethernets: {eth1: {dhcp4: true}}}\n",
        "network:\n  ethernets: {eth1: {dhcp4: true}}\n",
    ],
)
def test_a_file_that_cannot_be_taken_apart_is_refused(content: str) -> None:
    machine = Machine({"/etc/netplan/01.yaml": content})
    with pytest.raises(network_owner.ForeignError, match=r"01\.yaml configures eth1"):
        machine.foreign("netplan", [link()])
    # and is none of our business where it means other cards
    assert machine.foreign("netplan", [link(interface="ens5")]) == {}


ENTRY = st.dictionaries(
    st.sampled_from(["dhcp4", "mtu", "optional"]), st.sampled_from([True, 1500]), min_size=1
)
ETHERNETS = st.dictionaries(st.sampled_from(["eth0", "eth1", "ens5", "eth10"]), ENTRY, min_size=1)


@given(ETHERNETS, st.sampled_from([2, 4]))
def test_only_our_entry_changes_in_any_netplan_file(
    ethernets: dict[str, dict[str, Any]], indent: int
) -> None:
    before = yaml.safe_dump({"network": {"ethernets": ethernets, "version": 2}}, indent=indent)
    machine = Machine({"/etc/netplan/x.yaml": before})
    after = machine.foreign("netplan", [link()]).get("/etc/netplan/x.yaml", before)
    rest = {name: one for name, one in ethernets.items() if name != "eth1"}
    expected = {"version": 2} | ({"ethernets": rest} if rest else {})
    assert yaml.safe_load(str(after)) == {"network": expected}


def test_cloud_inits_keyfile_no_longer_starts_by_itself() -> None:
    path = "/etc/NetworkManager/system-connections/cloud-init-eth1.nmconnection"
    before = recorded("cloud-init-eth0.nmconnection")
    machine = Machine({path: before, **ADDRESS})
    changes = machine.foreign("networkmanager", [link()])
    assert set(changes) == {path, CLOUD}
    added = [line for line in str(changes[path]).splitlines() if line not in before.splitlines()]
    assert added == ["autoconnect=false"]
    parser = configparser.ConfigParser()
    parser.read_string(str(changes[path]))
    assert parser["connection"]["autoconnect"] == "false"
    assert machine.settle("networkmanager", [link()]) == {}


def test_a_profile_that_starts_explicitly_is_put_out_of_force() -> None:
    path = "/etc/NetworkManager/system-connections/x.nmconnection"
    before = "[connection]\ninterface-name=eth2\nautoconnect=true\n[ipv4]\nmethod=auto\n"
    machine = Machine({path: before})
    after = str(machine.foreign("networkmanager", [BOND])[path])
    assert after.splitlines()[1] == "autoconnect=false"
    assert "# fullmesh: autoconnect=true" in after
    assert machine.settle("networkmanager", [BOND]) == {}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "[ipv4]\nmethod=auto\n[connection]\nid=any\n",
            "[ipv4]\nmethod=auto\n[connection]\nautoconnect=false\nid=any\n",
        ),
        ("[connection]\nid=any", "[connection]\nautoconnect=false\nid=any\n"),
        (
            "# theirs\n[ethernet]\nmac-address=02:00:00:00:00:FF",
            "[connection]\nautoconnect=false\n# theirs\n[ethernet]\nmac-address=02:00:00:00:00:FF\n",
        ),
        ("", "[connection]\nautoconnect=false\n"),
        (
            "[connection]\nid=any\n[wifi]\nautoconnect=true\n",
            "[connection]\nautoconnect=false\nid=any\n[wifi]\nautoconnect=true\n",
        ),
    ],
)
def test_a_profile_is_disabled_and_every_other_byte_stays(before: str, after: str) -> None:
    assert networkmanager.disable_autoconnect(before) == after


@pytest.mark.parametrize(
    "content",
    [
        "[connection]\ninterface-name=eth7\n",
        "[connection]\nid=any\ntype=ethernet\n",
        "[connection]\ninterface-name=eth1\nautoconnect=false\n",
        "[ethernet]\nmac-address=02:00:00:00:00:FF\n",
    ],
)
def test_profiles_of_other_nics_are_unchanged(content: str) -> None:
    machine = Machine({"/etc/NetworkManager/system-connections/x.nmconnection": content, **ADDRESS})
    assert machine.foreign("networkmanager", [link()]) == {}


# Where each backend finds a file of others for eth1, and one that a link of the plan covers wholly.
FOREIGN_FILES: dict[str, tuple[str, str]] = {
    "networkmanager": (
        "/etc/NetworkManager/system-connections/x.nmconnection",
        "[connection]\nid=x\ntype=ethernet\ninterface-name=eth1\n[ipv4]\nmethod=auto\n",
    ),
    "ifcfg": ("/etc/sysconfig/network-scripts/ifcfg-eth1", "DEVICE=eth1\nBOOTPROTO=dhcp\n"),
    "netplan": (
        "/etc/netplan/50-x.yaml",
        "network:\n  version: 2\n  ethernets:\n    eth1:\n      dhcp4: true\n",
    ),
    "networkd": (
        "/run/systemd/network/20-x.network",
        "[Match]\nName=eth1\n[Network]\nDHCP=yes\n",
    ),
    "ifupdown": ("/etc/network/interfaces", "iface eth1 inet dhcp\n"),
}


def taken_over(
    backend: str, more: str, files: dict[str, str] | None = None
) -> dict[str, str | None]:
    """What becomes of files of others, where the one for eth1 says *more* than addresses."""
    path, text = FOREIGN_FILES[backend]
    state = networkd_state("networkd-link")
    state["/run/systemd/netif/links/6"] = f"NETWORK_FILE={path}\n"
    node = {path: text + more, **ADDRESS, **(state if backend == "networkd" else {})}
    machine = Machine({**node, **(files or {})})
    owner = "networkmanager" if backend == "ifcfg" else backend
    # the same file is nobody's concern where another interface is taken over
    machine.foreign(owner, [link(interface="eth7")])
    return machine.foreign(owner, [link()])


@pytest.mark.parametrize(
    ("backend", "more", "said"),
    [
        ("networkmanager", "[connection]\nzone=trusted\n", "connection.zone=trusted"),
        ("networkmanager", "[connection]\nmaster=br0\nslave-type=bridge\n", "connection.master="),
        ("networkmanager", "[connection]\nllmnr=0\n", "connection.llmnr=0"),
        ("networkmanager", "[connection]\ntype=infiniband\n", "connection.type=infiniband"),
        ("networkmanager", "[ethernet]\ncloned-mac-address=02:00:00:00:00:AA\n", "systemd.link(5)"),
        ("networkmanager", "[ethernet]\nwake-on-lan=64\n", "ethernet.wake-on-lan=64"),
        ("networkmanager", "[ethernet]\nspeed=10000\n", "ethernet.speed=10000"),
        ("networkmanager", "[802-1x]\neap=peap;\npassword=secret\n", "802-1x.eap=..."),
        ("networkmanager", "[ipv4]\nrouting-rule1=priority 5 from 10.0.0.5 table 100\n", "rule1="),
        ("networkmanager", "[ipv6]\nroute-table=100\n", "ipv6.route-table=100"),
        ("networkmanager", "[ipv4]\nroute1_options=table=7\n", "ipv4.route1_options=table=7"),
        ("networkmanager", "[ipv4]\ndhcp-hostname=db\n", "ipv4.dhcp-hostname=db"),
        ("networkmanager", "[ipv4]\nmethod=shared\n", "ipv4.method=shared"),
        ("networkmanager", "[ethtool]\nring-rx=4096\n", "ethtool.ring-rx=4096"),
        ("networkmanager", "[sriov]\ntotal-vfs=8\n", "sriov.total-vfs=8"),
        ("networkmanager", "[tc]\nqdisc.root=fq\n", "tc.qdisc.root=fq"),
        ("networkmanager", "[bond]\nfail_over_mac=active\n", "bond.fail_over_mac=active"),
        ("networkmanager", "[something-new]\nkey=value\n", "something-new.key=value"),
        ("ifcfg", "ZONE=internal\n", "ZONE=internal"),
        ("ifcfg", "MACADDR=02:00:00:00:00:AA\n", "MACADDR=02"),
        ("ifcfg", "KEY_MGMT=IEEE8021X\nIEEE_8021X_PASSWORD=secret\n", "KEY_MGMT=..."),
        ("ifcfg", 'ETHTOOL_OPTS="-G eth1 rx 4096"\n', "ETHTOOL_OPTS=-G eth1"),
        ("ifcfg", "ROUTING_RULE_1='pref 5 from 10.0.0.5 table 100'\n", "ROUTING_RULE_1=pref"),
        ("ifcfg", "BRIDGE=br0\n", "BRIDGE=br0"),
        ("ifcfg", "VRF=blue\n", "VRF=blue"),
        ("ifcfg", "SRIOV_TOTAL_VFS=8\n", "SRIOV_TOTAL_VFS=8"),
        ("ifcfg", "DHCP_HOSTNAME=db\n", "DHCP_HOSTNAME=db"),
        ("ifcfg", 'BONDING_OPTS="mode=1 fail_over_mac=1"\n', "BONDING_OPTS=mode=1"),
        ("netplan", "      activation-mode: manual\n", "activation-mode=manual"),
        ("netplan", "      critical: true\n", "critical=true"),
        ("netplan", "      dhcp4-overrides: {hostname: db}\n", "dhcp4-overrides.hostname=db"),
        ("netplan", "      dhcp4-overrides:\n        send-hostname: no\n", "send-hostname=no"),
        (
            "netplan",
            "      routing-policy:\n      - from: 10.0.0.5\n        table: 7\n",
            "routing-policy=",
        ),
        (
            "netplan",
            "      routes:\n      - to: 10.9.0.0/16\n        via: 10.0.0.1\n        table: 7\n",
            "routes.table=7",
        ),
        (
            "netplan",
            "      routes: [{to: 10.9.0.0/16, via: 10.0.0.1, table: 7}]\n",
            "routes.table=7",
        ),
        ("netplan", "      routes: *common\n", "routes.alias=*common"),
        ("netplan", "      <<: *common\n", "<<=*common"),
        (
            "netplan",
            '      addresses:\n      - "10.0.0.5/24":\n          label: "eth1:0"\n',
            "addresses.label=",
        ),
        ("netplan", "      ipv6-mtu: 1400\n", "ipv6-mtu=1400"),
        ("netplan", "      renderer: NetworkManager\n", "renderer=NetworkManager"),
        ("netplan", "      openvswitch: {}\n", "openvswitch={}"),
        ("netplan", "      something-new: 1\n", "something-new=1"),
        ("netplan", "    eth9:\n      set-name: eth1\n      critical: true\n", "critical=true"),
        ("netplan", "      ? auth\n      : {key-management: 802.1x}\n", "line by line"),
        ("netplan", "  bridges:\n    eth1:\n      interfaces: [eth2]\n", "network.bridges=eth1"),
        ("networkd", "VRF=blue\n", "Network.VRF=blue"),
        ("networkd", "Bridge=br0\n", "Network.Bridge=br0"),
        ("networkd", "VLAN=eth1.50\n", "Network.VLAN=eth1.50"),
        ("networkd", "LLMNR=no\n", "Network.LLMNR=no"),
        ("networkd", "KeepConfiguration=yes\n", "Network.KeepConfiguration=yes"),
        ("networkd", "[Link]\nMACAddress=02:00:00:00:00:AA\n", "Link.MACAddress=02"),
        ("networkd", "[Link]\nARP=no\n", "Link.ARP=no"),
        (
            "networkd",
            "[RoutingPolicyRule]\nFrom=10.0.0.5\nTable=7\n",
            "RoutingPolicyRule.From=10.0.0.5",
        ),
        ("networkd", "[Route]\nGateway=10.0.0.1\nTable=7\n", "Route.Table=7"),
        ("networkd", "[DHCPv4]\nSendHostname=no\n", "DHCPv4.SendHostname=no"),
        ("networkd", "[DHCPv4]\nHostname=db\n", "DHCPv4.Hostname=db"),
        ("networkd", "[SR-IOV]\nVirtualFunction=0\n", "SR-IOV.VirtualFunction=0"),
        ("networkd", "[Network]\nVR\\\n# between\nF=blue\n", "Network.VR F=blue"),
        ("ifupdown", "  hwaddress 02:00:00:00:00:aa\n", "hwaddress=02:00:00:00:00:aa"),
        ("ifupdown", "  pre-up ethtool -G eth1 rx 4096\n", "pre-up=ethtool -G eth1"),
        ("ifupdown", "  up ip rule add from 10.0.0.5 table 7\n", "up=ip rule add"),
        ("ifupdown", "  up ip route add 10.9.0.0/16 via 10.0.0.1 table 7\n", "up=ip route add"),
        ("ifupdown", "  up ip route add 10.9.0.0/16 via 10.0.0.1; reboot\n", "up=ip route add"),
        ("ifupdown", "  post-up /usr/local/sbin/tune eth1\n", "post-up=/usr/local/sbin/tune eth1"),
        ("ifupdown", "  wpa-driver wired\n  wpa-identity secret\n", "wpa-driver=..."),
        ("ifupdown", "  vrf blue\n", "vrf=blue"),
        ("ifupdown", "  ethernet-wol g\n", "ethernet-wol=g"),
        ("ifupdown", "  hostname db\n", "hostname=db"),
        ("ifupdown", "iface eth1 inet6 tunnel\n", "method=tunnel"),
        ("ifupdown", "iface eth1:1 inet static inherits base\n", "inherits=base"),
    ],
)
def test_a_setting_that_a_link_does_not_cover_is_refused(
    backend: str, more: str, said: str
) -> None:
    with pytest.raises(common.ForeignError, match=re.escape(said)) as refused:
        taken_over(backend, more)
    path = FOREIGN_FILES[backend][0]
    assert str(refused.value).startswith(path + " ")
    assert "Fix: " in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("backend", "more"),
    [
        *((backend, "") for backend in FOREIGN_FILES),
        ("networkmanager", "zone=\n[ethernet]\ncloned-mac-address=preserve\n[proxy]\n"),
        ("networkmanager", "[ipv4]\nroute-table=0\nroute1=10.5.0.0/16,10.0.0.1\ndns=10.0.0.53;\n"),
        ("networkmanager", "[ipv6]\naddr-gen-mode=default\nmethod=auto\n[user]\na.b=c\n"),
        ("networkmanager", "[connection]\nmaster=bond0\nautoconnect=false\n"),
        # what netplan's renderer writes for every card
        ("networkmanager", "[ethernet]\nwake-on-lan=0\n[ipv6]\nip6-privacy=0\nmethod=ignore\n"),
        (
            "ifcfg",
            "HWADDR=02:00:00:00:00:0a\nIPADDR0=10.0.0.5\nPREFIX0=24\nDNS1=10.0.0.53\nZONE=\n",
        ),
        (
            "ifcfg",
            "IPV4_DHCP_TIMEOUT=90\nPERSISTENT_DHCLIENT=1\nDHCPV6C_OPTIONS=-nw\nUSERCTL=yes\n",
        ),
        (
            "netplan",
            "      dhcp4-overrides: {route-metric: 100, use-dns: false}\n      optional: true\n",
        ),
        (
            "netplan",
            "      dhcp-identifier: mac # vRA: clone\n      gateway4: 10.0.0.1\n      mtu: 9000\n",
        ),
        (
            "netplan",
            "      routes:\n      # table: 7\n      - to: ::/0\n        via: fe80::1\n        on-link: true\n",
        ),
        ("netplan", "      nameservers: {search: [a.b], addresses: [10.0.0.53, fd00::53]}\n"),
        ("netplan", "    eth8: {dhcp4: true, critical: true}\n    eth9:\n      critical: true\n"),
        (
            "networkd",
            "Address=10.0.0.5/24\nGateway=10.0.0.1\n[DHCPv4]\nRouteMetric=100\nUseMTU=true\n",
        ),
        ("networkd", "; VRF=blue\n[Link]\nMTUBytes=9000\nRequiredForOnline=no\nMACAddress=\n"),
        (
            "ifupdown",
            "  hwaddress ether 02:00:00:00:00:0A\n  mtu 9000\n  dns-nameservers 10.0.0.53\n",
        ),
        ("ifupdown", "  up ip route add 10.9.0.0/16 \\\n    via 10.0.0.1 dev eth1 || true\n"),
        (
            "ifupdown",
            "  post-up route add -net 10.9.0.0 netmask 255.255.0.0 gw 10.0.0.1 metric 3 || true\n",
        ),
        ("ifupdown", "  pre-up ip link set dev eth1 mtu 9000\niface eth9 inet dhcp\n  vrf blue\n"),
    ],
)
def test_settings_that_a_link_covers_are_no_loss(backend: str, more: str) -> None:
    path = FOREIGN_FILES[backend][0]
    assert backend == "networkd" or path in taken_over(backend, more) or "autoconnect=false" in more


# What a card sets besides addresses stays in the entry: netplan merges it with ours.
@pytest.mark.parametrize(
    "line",
    [
        "wakeonlan: true",
        "macaddress: 02:00:00:00:00:aa",
        "virtual-function-count: 8",
        "embedded-switch-mode: switchdev",
        "auth: {key-management: 802.1x, identity: node1}",
        "emit-lldp: true",
        "generic-receive-offload: false",
        "link: enp1",
    ],
)
def test_netplan_keeps_other_settings_of_a_nic(line: str) -> None:
    path = FOREIGN_FILES["netplan"][0]
    network = yaml.safe_load(str(taken_over("netplan", f"      {line}\n")[path]))["network"]
    assert network["ethernets"] == {"eth1": yaml.safe_load(line)}


def test_netplan_cannot_keep_half_of_a_line() -> None:
    text = "network:\n  ethernets:\n    eth1: {dhcp4: true, match: {macaddress: '02'}}\n"
    machine = Machine({"/etc/netplan/01.yaml": text})
    with pytest.raises(common.ForeignError, match="write each key of that entry on a line"):
        machine.foreign("netplan", [link()])


@pytest.mark.parametrize(
    ("backend", "path", "text", "said"),
    [
        (
            "networkmanager",
            "/run/NetworkManager/system-connections/netplan-eth1.nmconnection",
            "[connection]\ninterface-name=eth1\n[802-1x]\neap=tls;\n",
            "802-1x.eap=...",
        ),
        (
            "ifcfg",
            "/etc/sysconfig/network-scripts/rule-eth1",
            "from 10.0.0.5 lookup 7\n",
            "rule=from",
        ),
        (
            "ifcfg",
            "/etc/sysconfig/network-scripts/rule6-eth1",
            "from fd00::5 lookup 7\n",
            "rule=from",
        ),
        (
            "ifcfg",
            "/etc/sysconfig/network-scripts/route-eth1",
            "default via 10.0.0.1 table 7\n",
            "route=default",
        ),
        (
            "ifcfg",
            "/etc/sysconfig/network-scripts/route-eth1",
            "ADDRESS0=10.9.0.0\nOPTIONS0='table 7'\n",
            "route.OPTIONS0=",
        ),
        (
            "networkd",
            "/etc/systemd/network/20-x.network.d/vrf.conf",
            "[Network]\nVRF=blue\n",
            "Network.VRF=blue",
        ),
        (
            "networkd",
            "/usr/lib/systemd/network/20-x.network.d/a.conf",
            "[Link]\nARP=no\n",
            "Link.ARP=no",
        ),
    ],
)
def test_a_setting_in_a_second_file_is_refused_as_well(
    backend: str, path: str, text: str, said: str
) -> None:
    with pytest.raises(common.ForeignError, match=re.escape(said)) as refused:
        taken_over(backend, "", {path: text})
    assert str(refused.value).startswith(path)


@pytest.mark.parametrize(
    ("backend", "path", "text"),
    [
        # udev reads it, whoever configures the interface
        ("networkd", "/etc/systemd/network/10-eth1.link", "[Link]\nMACAddress=02:00:00:00:00:AA\n"),
        ("networkd", "/etc/systemd/network/21-y.network.d/vrf.conf", "[Network]\nVRF=blue\n"),
        (
            "networkd",
            "/etc/systemd/network/20-x.network.d/fullmesh.conf",
            common.HEAD + "[Network]\nVLAN=a\n",
        ),
        ("ifcfg", "/etc/sysconfig/network-scripts/rule-eth2", "from 10.0.0.5 lookup 7\n"),
        ("ifcfg", "/etc/sysconfig/network-scripts/rule-eth1", "# none\n"),
        (
            "ifcfg",
            "/etc/sysconfig/network-scripts/route-eth1",
            "ADDRESS0=10.9.0.0\nNETMASK0=255.255.0.0\nGATEWAY0=10.0.0.1\n",
        ),
        (
            "networkmanager",
            "/run/NetworkManager/system-connections/eth1.nmconnection",
            "[connection]\ninterface-name=eth1\nzone=a\n[.nmmeta]\nnm-generated=true\n",
        ),
        # the VRF is another entry, which stays
        (
            "netplan",
            "/etc/netplan/60-vrf.yaml",
            "network:\n  vrfs:\n    blue:\n      table: 7\n      interfaces: [eth1]\n",
        ),
    ],
)
def test_a_file_that_still_counts_afterwards_is_no_loss(backend: str, path: str, text: str) -> None:
    assert path not in taken_over(backend, "", {path: text})


def test_networkd_refuses_a_netdev_with_extra_settings() -> None:
    path = "/etc/systemd/network/25-bond0.netdev"
    head = "[NetDev]\nName=bond0\nKind=bond\n[Bond]\nMode=802.3ad\nMIIMonitorSec=100ms\n"
    assert path not in Machine({path: head}).foreign("networkd", [BOND])
    machine = Machine({path: head + "ARPIntervalSec=1\n"})
    with pytest.raises(common.ForeignError, match=r"Bond\.ARPIntervalSec=1"):
        machine.foreign("networkd", [BOND])
    # overruled by ours before this change: it is not this change that loses it
    machine.files.update(networkd.build_files([BOND]))
    assert path not in machine.foreign("networkd", [BOND])


def test_a_member_that_names_our_bond_by_uuid_stays() -> None:
    base = "/etc/NetworkManager/system-connections/"
    bond = "[connection]\nid=b\nuuid=u-1\ntype=bond\ninterface-name=bond0\n[bond]\nmode=802.3ad\n"
    member = "[connection]\nid=m\ntype=ethernet\ninterface-name=eth2\nmaster=u-1\nslave-type=bond\n"
    machine = Machine({base + "b.nmconnection": bond, base + "m.nmconnection": member})
    assert set(machine.foreign("networkmanager", [BOND])) == set(machine.files)
    with pytest.raises(common.ForeignError, match=r"connection\.master=u-1"):
        machine.foreign("networkmanager", [link(interface="eth2")])


def test_a_changed_hardware_address_is_not_the_permanent_one() -> None:
    text = "iface eth1 inet dhcp\n  hwaddress 02:00:00:00:00:0a\n"
    was_set = {"/sys/class/net/eth1/addr_assign_type": "3\n", **ADDRESS}
    with pytest.raises(common.ForeignError, match="hwaddress=02:00:00:00:00:0a"):
        Machine({"/etc/network/interfaces": text, **was_set}).foreign("ifupdown", [link()])
    # cloud-init names a card by its own address
    path, main = "/etc/network/interfaces.d/50-cloud-init", "source interfaces.d/*\n"
    machine = Machine({"/etc/network/interfaces": main, path: text, **was_set})
    assert path in machine.foreign("ifupdown", [link()])


def test_ifupdown_keeps_settings_that_apply_to_any_owner() -> None:
    text = "no-auto-down eth1\nno-scripts eth1\nauto eth1\niface eth1 inet dhcp\n"
    assert ifupdown.comment_out_stanzas(text, ["eth1"]).startswith(
        "no-auto-down eth1\nno-scripts eth1\n#"
    )


def test_a_vlan_does_not_take_its_parents_profile() -> None:
    # the VLAN that is there already has the hardware address of eth0, which carries our ssh
    files = {
        "/sys/class/net/vlan7/address": MAC,
        "/sys/class/net/eth0/address": MAC,
        "/etc/NetworkManager/system-connections/x.nmconnection": recorded(
            "cloud-init-eth0.nmconnection"
        ),
        "/etc/netplan/50-cloud-init.yaml": recorded("50-cloud-init-subiquity.netplan"),
    }
    assert Machine(files).foreign("networkmanager", [BARE]) == {}
    assert Machine(files).foreign("netplan", [BARE]) == {}


def test_a_bond_member_is_known_by_its_permanent_address() -> None:
    files = {
        "/sys/class/net/eth2/address": "02:00:00:00:00:99",
        "/sys/class/net/eth2/bonding_slave/perm_hwaddr": MAC,
    }
    assert common.read_permanent_macs(Machine(files).read, ["eth2"]) == {MAC}


def test_an_ifcfg_file_is_disabled_if_ours_is_a_keyfile() -> None:
    path = "/etc/sysconfig/network-scripts/ifcfg-ens33"
    before = recorded("ifcfg-ens33-el7")
    machine = Machine({path: before})
    after = str(machine.foreign("networkmanager", [link(interface="ens33")])[path])
    assert sourced(after)["ONBOOT"] == "no"
    assert after.replace('# fullmesh: ONBOOT="yes"', 'ONBOOT="yes"') == before + "ONBOOT=no\n"
    assert machine.settle("networkmanager", [link(interface="ens33")]) == {}


def test_an_ifcfg_file_for_our_nic_is_disabled_with_cloud_init() -> None:
    path = "/etc/sysconfig/network-scripts/ifcfg-Wired_connection_1"
    before = recorded("ifcfg-eth0-el8-cloud").replace("DEVICE=eth0\n", "")
    route = "/etc/sysconfig/network-scripts/route-eth1"  # only read when its profile is brought up
    machine = Machine({path: before, route: "default via 10.9.0.1\n", **ADDRESS})
    changes = machine.foreign("networkmanager", [link()])
    assert set(changes) == {path, CLOUD}
    assert sourced(str(changes[path]))["ONBOOT"] == "no"
    assert machine.settle("networkmanager", [link()]) == {}


def test_backups_and_ifcfg_files_of_other_nics_are_unchanged() -> None:
    base = "/etc/sysconfig/network-scripts/ifcfg-"
    machine = Machine(
        {base + "ens33": recorded("ifcfg-ens33-el7"), base + "eth1.bak": "DEVICE=eth1\n"}
    )
    assert machine.foreign("networkmanager", [link()]) == {}


def test_debians_main_file_loses_our_stanzas_alone() -> None:
    before = recorded("interfaces-debian")
    machine = Machine(dict(MAIN))
    changes = machine.foreign("ifupdown", [link()])
    after = str(changes["/etc/network/interfaces"])
    lines = after.splitlines()
    # eth0 keeps its line, ours is taken off it
    assert lines.pop(lines.index("allow-hotplug eth0")) == "allow-hotplug eth0"
    assert kept(before, "\n".join(lines)) == [
        "allow-hotplug eth0 eth1",
        "iface eth1 inet static",
        "address 10.9.0.7/24",
        "up ip route add 10.8.0.0/16 \\",
        "via 10.9.0.1",
        "iface eth1:0 inet static",
        "address 10.9.0.8/24",
    ]
    found = ifupdown.map_stanza_files(
        Machine({"/etc/network/interfaces": after}).read, lambda _: []
    )
    assert set(found) == {"lo", "eth0"}
    assert machine.settle("ifupdown", [link()]) == {}
    assert "eth1" in ifupdown.map_stanza_files(machine.read, machine.listed)


def test_the_cloud_init_stanza_is_removed_for_good() -> None:
    path = "/etc/network/interfaces.d/50-cloud-init"
    files = {"/etc/network/interfaces": "source-directory /etc/network/interfaces.d\n"}
    machine = Machine({**files, **ADDRESS, path: recorded("interfaces-50-cloud-init")})
    changes = machine.foreign("ifupdown", [link()])
    assert set(changes) == {path, CLOUD}
    assert kept(recorded("interfaces-50-cloud-init"), str(changes[path])) == [
        "auto eth1",
        "iface eth1 inet dhcp",
        "hwaddress 02:00:00:00:00:0a",
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "source /etc/network/interfaces.d/fullmesh\n"),
        ("auto lo", "auto lo\nsource /etc/network/interfaces.d/fullmesh\n"),
        (
            "source /etc/network/interfaces.d/*.cfg\n",
            "source /etc/network/interfaces.d/*.cfg\nsource /etc/network/interfaces.d/fullmesh\n",
        ),
        ("source /etc/network/interfaces.d/*\n", None),
        ("source interfaces.d/*\n", None),
        ("source-directory /etc/network/interfaces.d\n", None),
    ],
)
def test_the_main_file_includes_ours(before: str, after: str | None) -> None:
    machine = Machine({"/etc/network/interfaces": before})
    changes = machine.foreign("ifupdown", [link()])
    assert changes.get("/etc/network/interfaces") == after
    assert machine.settle("ifupdown", [link()]) == {}


def test_files_that_source_each_other_end() -> None:
    loop = {"/etc/network/interfaces": "source /etc/network/interfaces\niface eth1 inet dhcp\n"}
    assert set(ifupdown.map_stanza_files(Machine(loop).read, Machine(loop).listed)) == {"eth1"}


def test_networkd_adds_a_vlan_to_a_foreign_parent_by_drop_in() -> None:
    path = "/etc/systemd/network/00-fullmesh-eth1.network.d"
    state = {
        "/sys/class/net/eth0/ifindex": "6\n",
        "/run/systemd/netif/links/6": recorded("networkd-link-netplan"),
    }
    machine = Machine(state)
    changes = machine.foreign("networkd", [BARE])
    assert set(changes) == {"/etc/systemd/network/10-netplan-eth1.network.d/fullmesh.conf"}
    assert pairs(str(next(iter(changes.values())))) == [("Network.VLAN", "vlan7")]
    # told again, so that it is not taken for a leftover of ours
    assert machine.settle("networkd", [BARE]) == {}
    assert machine.foreign("networkd", [BARE]) == changes
    assert path not in changes


def test_networkd_writes_a_file_for_an_unmanaged_parent() -> None:
    ((path, content),) = Machine().foreign("networkd", [BARE]).items()
    assert path == "/etc/systemd/network/00-fullmesh-eth0.network"
    assert ("Network.KeepConfiguration", "yes") in pairs(str(content))


@pytest.mark.parametrize(
    ("files", "entry"),
    [
        ({}, {"critical": True}),
        ({netplan.PATH: common.HEAD + 'network: {ethernets: {"eth0": {}}}\n'}, {"critical": True}),
        ({"/etc/netplan/1.yaml": "network:\n  ethernets:\n    eth0.5: {}\n"}, {"critical": True}),
        ({"/etc/netplan/50-cloud-init.yaml": recorded("50-cloud-init.netplan")}, {}),
        ({"/etc/netplan/50.yaml": recorded("50-cloud-init-subiquity.netplan")}, {}),
        ({"/etc/netplan/1.yaml": "macaddress: " + MAC, "/sys/class/net/eth0/address": MAC}, {}),
    ],
)
def test_netplan_leaves_a_parent_that_no_file_knows_its_addresses(
    files: dict[str, str], entry: dict[str, Any]
) -> None:
    machine = Machine(files)
    (one,) = network_owner.prepare_links(machine.read, machine.listed, [BARE])
    network = yaml.safe_load(netplan.build_files([one])[netplan.PATH])["network"]
    assert network["ethernets"]["eth0"] == entry


def test_cloud_inits_networkd_files_are_overruled_and_not_written_again() -> None:
    path = "/etc/systemd/network/10-cloud-init-eth1.network"
    machine = Machine({path: "[Match]\nName=eth1\n[Network]\nDHCP=ipv4\n"})
    assert set(machine.foreign("networkd", [link()])) == {CLOUD}
    assert machine.settle("networkd", [link()]) == {}
    assert machine.foreign("networkd", [link(interface="eth7")]) == {}
    # ours is read first
    assert sorted([path, *networkd.build_files([link()])])[0] in networkd.build_files([link()])


# --- the kernel's view, recorded --------------------------------------------------------------

SEEN = ip_tool.parse_links(BOND_JSON)
LACP = link(
    interface="bond0",
    addresses=[],
    mtu=1450,
    bond={
        "mode": "802.3ad",
        "members": ["eth1", "eth2"],
        "miimon": 100,
        "lacp_rate": "fast",
        "xmit_hash_policy": "layer3+4",
    },
)
TAGGED = link(
    interface="bond0.7",
    addresses=["10.82.0.2/24", "fd82::2/64"],
    vlan={"id": 7, "parent": "bond0"},
)


def test_a_complete_kernel_state_lacks_nothing() -> None:
    assert static_ip.find_link_faults(LACP, SEEN, []) == []
    assert static_ip.find_link_faults(TAGGED, SEEN, []) == []


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (TAGGED | {"vlan": {"id": 8, "parent": "bond0"}}, "bond0.7 is VLAN 7 of bond0, not 8 of"),
        (TAGGED | {"vlan": {"id": 7, "parent": "eth1"}}, "not 7 of eth1"),
        (TAGGED | {"interface": "eth1"}, "eth1 is not a VLAN"),
        (TAGGED | {"interface": "eth1.9"}, "there is no eth1.9 yet"),
        (LACP | {"bond": LACP["bond"] | {"mode": "active-backup"}}, "has not mode active-backup"),
        (LACP | {"bond": LACP["bond"] | {"miimon": 50}}, "has not miimon 50"),
        (LACP | {"bond": LACP["bond"] | {"lacp_rate": "slow"}}, "has not lacp_rate slow"),
        (
            LACP | {"bond": LACP["bond"] | {"members": ["eth1", "eth3"]}},
            "eth3 is not a member of bond0",
        ),
        (LACP | {"bond": LACP["bond"] | {"members": ["eth1"]}}, "eth2 is a member of bond0 that"),
        (LACP | {"interface": "bond0.7"}, "bond0.7 is no bond"),
        (LACP | {"mtu": 9000}, "the MTU of bond0 is 1450, not 9000"),
    ],
)
def test_missing_bond_and_vlan_state_in_the_kernel(wanted: Link, words: str) -> None:
    assert words in "; ".join(static_ip.find_link_faults(wanted, SEEN, []))


# --- apply and restore ------------------------------------------------------------------------


def snapshot(name: str, links: list[Link], **says: tuple[int, str]) -> dict[str, Any]:
    machine = Machine(
        {},
        {
            "ip -d -j addr show": (0, BOND_JSON),
            "ip -j -4 route*": (
                0,
                json.dumps(
                    [
                        {"dst": "default", "gateway": "10.82.0.254", "dev": "bond0.7"},
                        {"dst": "10.82.0.0/24", "dev": "bond0.7", "protocol": "kernel"},
                        {"dst": "10.7.0.0/16", "gateway": "10.1.1.1", "dev": "eth9"},
                    ]
                ),
            ),
            "ip -j -6 route*": (0, "[]"),
            "nmcli*--active": (0, recorded("nmcli-active")),
            "ifquery --state": (0, recorded("ifquery-state")),
            "networkctl --version": (0, "systemd 252 (252.39-1~deb12u2)\n"),
            "systemctl is-active*": (0, ""),
            **says,
        },
    )
    found: dict[str, Any] = network_owner.get_backend(name).read_snapshot(
        machine.run, network_owner.list_affected_interfaces(links)
    )
    json.dumps(found)
    return found


@pytest.mark.parametrize("name", EVERY)
def test_a_snapshot_contains_kernel_only_state(name: str) -> None:
    before = snapshot(name, [TAGGED, LACP])
    assert list(before["links"]) == ["eth1", "eth2", "bond0", "bond0.7"]
    assert before["links"]["bond0.7"]["addresses"] == ["10.82.0.2/24", "fd82::2/64"]
    assert before["links"]["eth1"]["master"] == "bond0"
    assert [one["to"] for one in before["routes"]] == ["default"]


def flat(commands: list[list[str]]) -> list[str]:
    return [" ".join(command) for command in commands]


def deleted(lines: list[str]) -> list[str]:
    """The devices that are removed where they are there, in order."""
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
def test_restore_sets_addresses_mtu_and_routes_after_the_owner(
    name: str,
) -> None:
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
def test_only_the_interfaces_that_are_named_are_touched(name: str) -> None:
    before = snapshot(name, [link(interface="eth1"), link(interface="eth2")])
    links = [link(interface="eth1"), link(interface="eth2", addresses=["10.5.0.1/24"])]
    lines = flat(
        network_owner.get_backend(name).build_activation_commands(links, before, 30, ["eth2"])
    )
    acting = [one for one in lines if "load" not in one and "eth1" in one]
    assert acting == []
    assert [one for one in lines if "eth2" in one]


@pytest.mark.parametrize("name", EVERY)
def test_a_bond_of_another_mode_is_made_anew(name: str) -> None:
    before = snapshot(name, [LACP])
    other = LACP | {"bond": {"mode": "active-backup", "members": ["eth1", "eth2"], "miimon": 100}}
    assert "ip link delete bond0" in flat(
        network_owner.get_backend(name).build_activation_commands([other], before)
    )
    assert "ip link delete bond0" not in flat(
        network_owner.get_backend(name).build_activation_commands([LACP], before)
    )


def test_a_vlan_of_another_tag_is_made_anew() -> None:
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
    """networkd leaves a living device as it is (systemd#9627), ifupdown's stanza makes none where one stands."""
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
    # neither can be named before its owner has made it
    assert not [one for one in lines if "flush dev bond0" in one]
    assert not [one for one in lines if "networkctl reconfigure" in one and "bond0" in one]
    # what somebody had made by hand nobody makes again
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
    """A command for a device that is gone fails, and would undo the change."""
    other = LACP | {"bond": {"mode": "active-backup", "members": ["eth1", "eth2"], "miimon": 100}}
    before = kernel_state.with_remade([TAGGED, other], snapshot(name, [TAGGED, LACP]))
    lines = flat(network_owner.get_backend(name).build_activation_commands([TAGGED, other], before))
    acting = ("networkctl reconfigure", "ip addr flush", "ifdown")
    assert not [one for one in lines if one.startswith(acting) and "bond0" in one]


def test_devices_that_an_undo_recreates() -> None:
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
    """And the failure is still told."""
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
        (("", "inet 10.0.0.9/24 brd"), ["sleep 0.5"] * 3),  # a server that is silent
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


def test_ifupdown_stops_a_dhcp_client_of_the_old_file() -> None:
    before = snapshot("ifupdown", [link(interface="eth1")], **{"cat /run/dhclient.*": (0, "7\n")})
    lines = flat(ifupdown.build_activation_commands([link()], before))
    assert lines == [
        "dhclient -x -pf /run/dhclient.eth1.pid eth1",
        "ip addr flush dev eth1 scope global",
        "ifup --force eth1",
    ]
    back = flat(ifupdown.build_reactivation_commands(["eth1"], before))
    assert "systemd-run --scope --quiet ifup --force eth1" in back


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
    """In words of its own: NetworkManager would keep it from being the default route otherwise."""
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


# --- before anything is written ---------------------------------------------------------------


def refused(argv: list[str]) -> tuple[int, str, str]:
    return 78, "", f"{argv[-1]}/etc/netplan/90-fullmesh.yaml:4:7: Error in network definition"


@pytest.mark.parametrize(
    ("name", "tool"),
    [("netplan", "netplan generate"), ("ifupdown", "ifup --no-act --all --force -i")],
)
def test_the_tool_reads_it_first_and_its_words_come_back(name: str, tool: str) -> None:
    asked: list[list[str]] = []

    def run(argv: list[str]) -> tuple[int, str, str]:
        asked.append(argv)
        assert Path(argv[-1]).exists()
        return refused(argv)

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
    assert call(refused, {}) == ""


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
