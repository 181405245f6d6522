"""Network backends refuse settings that they would lose."""

from __future__ import annotations

import re

import pytest
import yaml
from ansible.module_utils.fullmesh.network.backends import (
    common,
    ifupdown,
    networkd,
    networkmanager,
)
from backend_links import ADDRESS, BARE, BOND, MAC, Machine, networkd_state, read_recording
from network_samples import link

# A foreign file for eth1 of each backend, and one that a planned link covers completely.
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


def take_over(
    backend: str, more: str, files: dict[str, str] | None = None
) -> dict[str, str | None]:
    """Take over foreign files, with *more* settings than addresses in the one for eth1."""
    path, text = FOREIGN_FILES[backend]
    state = networkd_state("networkd-link")
    state["/run/systemd/netif/links/6"] = f"NETWORK_FILE={path}\n"
    node = {path: text + more, **ADDRESS, **(state if backend == "networkd" else {})}
    machine = Machine({**node, **(files or {})})
    owner = "networkmanager" if backend == "ifcfg" else backend
    # the same file does not matter if another interface is taken over
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
        take_over(backend, more)
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
        # netplan's renderer writes these for every interface
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
    assert backend == "networkd" or path in take_over(backend, more) or "autoconnect=false" in more


# An interface's other settings stay in the entry, because netplan merges it with ours.
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
    network = yaml.safe_load(str(take_over("netplan", f"      {line}\n")[path]))["network"]
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
        take_over(backend, "", {path: text})
    assert str(refused.value).startswith(path)


@pytest.mark.parametrize(
    ("backend", "path", "text"),
    [
        # udev reads it, whichever program configures the interface
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
    assert path not in take_over(backend, "", {path: text})


NETPLAN_PROFILE = "/run/NetworkManager/system-connections/netplan-NM-1-2.nmconnection"
SAVED = "/etc/netplan/90-NM-1-2.yaml"
# As libnetplan 0.106 writes it from a profile of NetworkManager.
SAVED_TEXT = """network:
  version: 2
  ethernets:
    NM-1-2:
      renderer: NetworkManager
      match:
        name: "eth1"
      dhcp4: true
      networkmanager:
        uuid: "1-2"
        name: "lan"
"""
BOUND = "[connection]\nid=lan\nuuid=1-2\ninterface-name=eth1\n"


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({SAVED: SAVED_TEXT}, SAVED),
        ({SAVED: 'network: {ethernets: {"NM-1-2": {renderer: NetworkManager}}}\n'}, SAVED),
        ({SAVED: SAVED_TEXT, "/etc/netplan/99-x.yaml": "network:\n"}, SAVED),
        ({SAVED: SAVED_TEXT.replace("NM-1-2:", "NM-1-20:")}, NETPLAN_PROFILE),
        ({}, NETPLAN_PROFILE),
    ],
)
@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("zone=trusted\n", "connection.zone=trusted"),
        ("autoconnect-priority=200\n", "autoconnect-priority=200"),
    ],
)
def test_a_profile_of_netplan_is_refused_with_the_name_of_netplans_file(
    files: dict[str, str], named: str, more: str, said: str
) -> None:
    """The profile itself is made again at each boot."""
    with pytest.raises(common.ForeignError, match=re.escape(said)) as refused:
        take_over("networkmanager", "", {**files, NETPLAN_PROFILE: BOUND + more})
    assert str(refused.value).startswith(named + " ")
    assert NETPLAN_PROFILE not in str(refused.value) or named == NETPLAN_PROFILE


@pytest.mark.parametrize("more", ["", "autoconnect-priority=199\n", "autoconnect-priority=-7\n"])
def test_a_profile_of_netplan_with_a_lower_priority_stays(more: str) -> None:
    files = {SAVED: SAVED_TEXT, NETPLAN_PROFILE: BOUND + more}
    assert {SAVED, NETPLAN_PROFILE}.isdisjoint(take_over("networkmanager", "", files))


@pytest.mark.parametrize("autoconnect", ["", "autoconnect=false\n"])
def test_fullmeshs_profile_that_networkmanager_has_moved_is_refused(autoconnect: str) -> None:
    number = networkmanager.build_profile_uuid("eth1")
    path = NETPLAN_PROFILE.replace("1-2", number)
    saved = {SAVED.replace("1-2", number): SAVED_TEXT.replace("1-2", number)}
    moved = {path: BOUND.replace("1-2", number) + autoconnect}
    with pytest.raises(common.ForeignError) as refused:
        take_over("networkmanager", "", {**saved, **moved})
    file = next(iter(saved))
    assert str(refused.value).startswith(f"{file} has the profile of Fullmesh")
    assert f"mv {file} /root/ && netplan generate" in str(refused.value)
    own = networkmanager.build_keyfile_path("eth1")
    assert own in str(refused.value)
    # NetworkManager ignores the copy that an undo keeps
    copies = {
        f"{own}.fullmesh-kept-20261128~": moved[path],
        "/etc/NetworkManager/system-connections/.x": moved[path],
    }
    assert copies.keys().isdisjoint(take_over("networkmanager", "", copies))
    # Fullmesh's own file has this uuid, also if NetworkManager has written it without its head
    assert take_over("networkmanager", "", {own: moved[path]}) is not None


@pytest.mark.parametrize(
    "entry",
    [
        '      match:\n        name: "eth1"  # the second port\n      dhcp4: true\n',
        "      match: {name: eth1}\n      dhcp4: true\n",
        "      match: {driver: x, name: 'eth1'}\n      dhcp4: true\n",
    ],
)
def test_netplan_takes_over_an_entry_that_matches_the_name(entry: str) -> None:
    text = "network:\n  version: 2\n  ethernets:\n    lan:\n"
    changed = take_over("netplan", "", {"/etc/netplan/60-x.yaml": text + entry})
    network = yaml.safe_load(str(changed["/etc/netplan/60-x.yaml"]))["network"]
    assert list(network["ethernets"]) == ["eth1"]
    assert list(network["ethernets"]["eth1"]) == ["match"]
    pattern = entry.replace("eth1", "eth*")
    other = take_over("netplan", "", {"/etc/netplan/60-x.yaml": text + pattern})
    assert "/etc/netplan/60-x.yaml" not in other


def test_netplan_refuses_an_entry_of_networkmanager_with_its_file() -> None:
    """networkd is the owner, and NetworkManager is off or does not manage the interface."""
    with pytest.raises(common.ForeignError, match="renderer=NetworkManager") as refused:
        take_over("netplan", "", {SAVED: SAVED_TEXT})
    assert str(refused.value).startswith(SAVED + " ")
    flow = "network:\n  ethernets:\n    lan: {match: {name: eth1}, critical: true}\n"
    with pytest.raises(common.ForeignError, match="line by line"):
        take_over("netplan", "", {"/etc/netplan/60-x.yaml": flow})


def test_networkd_refuses_a_netdev_with_extra_settings() -> None:
    path = "/etc/systemd/network/25-bond0.netdev"
    head = "[NetDev]\nName=bond0\nKind=bond\n[Bond]\nMode=802.3ad\nMIIMonitorSec=100ms\n"
    assert path not in Machine({path: head}).foreign("networkd", [BOND])
    machine = Machine({path: head + "ARPIntervalSec=1\n"})
    with pytest.raises(common.ForeignError, match=r"Bond\.ARPIntervalSec=1"):
        machine.foreign("networkd", [BOND])
    # ours already overruled it before this change, so this change does not lose it
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
    # cloud-init names an interface by its current address
    path, main = "/etc/network/interfaces.d/50-cloud-init", "source interfaces.d/*\n"
    machine = Machine({"/etc/network/interfaces": main, path: text, **was_set})
    assert path in machine.foreign("ifupdown", [link()])


def test_ifupdown_keeps_settings_that_apply_to_any_owner() -> None:
    text = "no-auto-down eth1\nno-scripts eth1\nauto eth1\niface eth1 inet dhcp\n"
    assert ifupdown.comment_out_stanzas(text, ["eth1"]).startswith(
        "no-auto-down eth1\nno-scripts eth1\n#"
    )


def test_a_vlan_does_not_take_its_parents_profile() -> None:
    # the existing VLAN has the hardware address of eth0, which carries our ssh
    files = {
        "/sys/class/net/vlan7/address": MAC,
        "/sys/class/net/eth0/address": MAC,
        "/etc/NetworkManager/system-connections/x.nmconnection": read_recording(
            "cloud-init-eth0.nmconnection"
        ),
        "/etc/netplan/50-cloud-init.yaml": read_recording("50-cloud-init-subiquity.netplan"),
    }
    assert Machine(files).foreign("networkmanager", [BARE]) == {}
    assert Machine(files).foreign("netplan", [BARE]) == {}


def test_a_bond_member_is_known_by_its_permanent_address() -> None:
    files = {
        "/sys/class/net/eth2/address": "02:00:00:00:00:99",
        "/sys/class/net/eth2/bonding_slave/perm_hwaddr": MAC,
    }
    assert common.read_permanent_macs(Machine(files).read, ["eth2"]) == {MAC}
