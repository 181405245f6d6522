"""VLANs and bonds in the inventory: their plan, and all their faults at once."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fullmesh import node_values
from fullmesh.faults import Fault, InvalidInputError
from fullmesh.model import nics, plan, stacks
from fullmesh.model.node_view import resolve_node_interfaces
from fullmesh.roles import preflight

MAC = "02:00:00:00:00:0a"
BOND = {"mode": "802.3ad", "members": ["eth1", "eth2"]}
OVER = {
    "vlan": {"id": 100, "parent": "bond0"},
    "addresses": ["10.0.0.11/24"],
}


def read(*entries: dict[str, Any]) -> tuple[list[nics.NodeLink], list[Fault]]:
    faults: list[Fault] = []
    return nics.read_node_links("a", {"fullmesh_links": list(entries)}, faults), faults


def plans(*entries: dict[str, Any]) -> list[dict[str, Any]]:
    found, faults = read(*entries)
    assert faults == []
    return [link.as_plan() for link in found]


def codes(*entries: dict[str, Any]) -> list[str]:
    return sorted({fault.code for fault in read(*entries)[1]})


def test_a_vlan_over_a_bond_gets_names() -> None:
    vlan, bond = plans(OVER, {"bond": BOND})
    assert (vlan["interface"], vlan["vlan"]) == ("bond0.100", {"id": 100, "parent": "bond0"})
    assert bond["interface"] == "bond0"
    assert bond["bond"] == {"mode": "802.3ad", "members": ["eth1", "eth2"], "miimon": 100}
    assert (vlan["bond"], bond["vlan"], bond["addresses"]) == ({}, {}, [])


def test_the_link_with_an_address_comes_first_in_any_order() -> None:
    assert [one["interface"] for one in plans({"bond": BOND}, OVER)] == ["bond0.100", "bond0"]


def test_a_free_name_is_found_for_each_bond() -> None:
    found = plans(
        {"bond": {"mode": "balance-rr", "members": ["eth1"]}, "addresses": "10.0.0.11/24"},
        {"bond": {"mode": "balance-rr", "members": ["eth2"]}, "addresses": "10.1.0.11/24"},
        {
            "interface": "bond0",
            "bond": {"mode": "balance-rr", "members": ["eth3"]},
            "addresses": "10.2.0.11/24",
        },
    )
    assert [one["interface"] for one in found] == ["bond1", "bond2", "bond0"]


@pytest.mark.parametrize(
    ("parent", "number", "name"),
    [
        ("eth1", 100, "eth1.100"),
        ("enp129s0f0", 4094, "enp129s0f0.4094"),
        ("enp129s0f0np0", 100, "vlan100"),
    ],
)
def test_a_name_that_is_too_long_for_the_kernel(parent: str, number: int, name: str) -> None:
    assert stacks.derive_vlan_name(parent, number) == name
    assert len(name) <= 15


def test_members_and_parents_may_be_chosen_by_mac() -> None:
    found = plans(
        {
            "bond": {"mode": "active-backup", "members": [MAC.upper(), "eth2"], "primary": MAC},
            "addresses": "10.0.0.11/24",
        },
        {"vlan": {"id": 5, "parent": "02:00:00:00:00:0B"}, "addresses": "10.1.0.11/24"},
    )
    assert found[0]["bond"]["members"] == [MAC, "eth2"]
    assert found[0]["bond"]["primary"] == MAC
    assert (found[1]["interface"], found[1]["vlan"]["parent"]) == ("", "02:00:00:00:00:0b")


def bond(**more: Any) -> dict[str, Any]:
    return {"bond": BOND | more, "addresses": "10.0.0.11/24"}


def vlan(**more: Any) -> dict[str, Any]:
    return {"vlan": {"id": 100, "parent": "eth1"} | more, "addresses": "10.0.0.11/24"}


CARD = {"interface": "eth1", "addresses": "10.0.0.11/24"}


@pytest.mark.parametrize(
    ("entries", "code", "words"),
    [
        ([{"vlan": 100, "addresses": "10.0.0.11/24"}], "PL-124", "cannot read vlan 100"),
        ([vlan(tag=1)], "PL-124", "cannot read vlan"),
        ([vlan(id=0)], "PL-124", "vlan id 0 is not between 1 and 4094"),
        ([vlan(id=4095)], "PL-124", "4095"),
        ([vlan(id="x")], "PL-124", "'x'"),
        ([vlan(id="²")], "PL-124", "²"),
        ([vlan(parent="")], "PL-124", "vlan parent '' is neither"),
        ([vlan(parent="a name")], "PL-124", "'a name'"),
        ([{"bond": "eth1", "addresses": "10.0.0.11/24"}], "PL-125", "cannot read bond"),
        ([bond(slaves=2)], "PL-125", "cannot read bond ['slaves']"),
        ([bond(mode="lacp")], "PL-125", "bond mode 'lacp'"),
        ([bond(mode="broadcast")], "PL-125", "broadcast"),
        ([bond(members=[])], "PL-125", "bond members []"),
        ([bond(members="eth1")], "PL-125", "bond members 'eth1'"),
        ([bond(members=["eth1", "eth1"])], "PL-125", "different NICs"),
        ([bond(members=["a/b"])], "PL-125", "a/b"),
        ([bond(miimon=0)], "PL-125", "miimon 0 is not between 1 and 10000"),
        ([bond(miimon="fast")], "PL-125", "miimon 'fast'"),
        ([bond(updelay=150)], "PL-125", "updelay 150 is not a multiple of miimon 100"),
        ([bond(lacp_rate="often")], "PL-125", "lacp_rate 'often'"),
        ([bond(xmit_hash_policy="l4")], "PL-125", "xmit_hash_policy 'l4'"),
        ([bond(primary="eth1")], "PL-125", "bond mode 802.3ad has no primary"),
        ([bond(mode="active-backup", lacp_rate="fast")], "PL-125", "has no lacp_rate"),
        ([bond(mode="balance-rr", xmit_hash_policy="layer2")], "PL-125", "no xmit_hash_policy"),
        (
            [bond(mode="active-backup", primary="eth9")],
            "PL-125",
            "'eth9' is not one of its members",
        ),
        ([bond(), bond()], "PL-126", "eth1 is in 2 bonds"),
        ([bond(), CARD], "PL-126", "eth1 is a member of a bond and used by itself"),
        ([bond(), vlan()], "PL-126", "Give its addresses and VLANs to the bond"),
        ([vlan(), {**vlan(), "interface": "v"}], "PL-127", "2 links are VLAN 100 of eth1"),
        ([vlan(), vlan(parent="eth1.100", id=2)], "PL-127", "on top of the VLAN eth1.100"),
        ([{**vlan(), "mtu": 9000}], "PL-127", "MTU 9000, eth1 itself 1500"),
        ([{**vlan(), "mtu": 9000}, {**CARD, "mtu": 8000}], "PL-127", "eth1 itself 8000"),
        ([{"bond": BOND}], "PL-103", "bond0 has no address"),
        ([{"interface": "eth1"}], "PL-103", "eth1 has no address"),
        ([{"vlan": {"id": 1, "parent": "eth1"}}], "PL-103", "eth1.1 has no address"),
        ([{**vlan(), "bond": BOND}], "PL-117", "it combines a MAC"),
        ([{**vlan(), "interface": MAC}], "PL-117", "Write one link for each"),
    ],
)
def test_each_fault_is_named(entries: list[dict[str, Any]], code: str, words: str) -> None:
    faults = read(*entries)[1]
    assert code in {fault.code for fault in faults}
    assert words in " ".join(str(fault) for fault in faults)


def test_all_faults_are_reported_at_once() -> None:
    wrong = [
        {"vlan": {"id": 5000, "parent": ""}, "addresses": "10.0.0.11"},
        {"bond": {"mode": "x", "members": [], "miimon": 0}, "addresses": "10.0.0.12/24", "mtu": 1},
    ]
    faults = read(*wrong)[1]
    assert len(faults) == 7
    assert {fault.code for fault in faults} == {"PL-104", "PL-123", "PL-124", "PL-125"}


def test_a_parent_with_the_same_mtu_carries_the_vlan() -> None:
    found = plans({**vlan(), "mtu": 9000}, {"interface": "eth1", "mtu": 9000})
    assert [one["mtu"] for one in found] == [9000, 9000]


NAMES = st.sampled_from(["eth1", "eth2", "bond0", "bond0.5", MAC, "", None, 5, "a b"])
NONSENSE = st.none() | st.integers() | st.text(max_size=8) | st.lists(NAMES, max_size=3)
BONDS = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from([*stacks.MODES, "x"]) | NONSENSE,
        "members": st.lists(NAMES, max_size=3) | NONSENSE,
        "miimon": st.integers(-1, 20000) | NONSENSE,
        "updelay": st.integers(-1, 20000) | NONSENSE,
        "lacp_rate": st.sampled_from(["slow", "fast"]) | NONSENSE,
        "primary": NAMES,
    },
)
VLANS = st.fixed_dictionaries(
    {}, optional={"id": st.integers(-1, 5000) | NONSENSE, "parent": NAMES}
)
ENTRIES = st.fixed_dictionaries(
    {},
    optional={
        "interface": NAMES,
        "vlan": VLANS | NONSENSE,
        "bond": BONDS | NONSENSE,
        "addresses": st.sampled_from(["10.0.0.11/24", "10.0.0.12/24", "x", []]) | NONSENSE,
        "mtu": st.sampled_from([0, 1500, 9000, "x"]),
    },
)


@given(st.lists(ENTRIES, max_size=4))
def test_no_input_crashes_it_or_passes_unchecked(entries: list[Any]) -> None:
    found, faults = read(*entries)
    assert all(re.fullmatch(r"PL-\d{3}", fault.code) for fault in faults)
    if faults:
        return
    assert len(found) == len(entries)
    for link in found:
        assert link.interface or link.mac or link.vlan or link.addresses
        assert not link.interface or node_values.INTERFACE_NAME.match(link.interface)
        if link.vlan:
            assert 1 <= link.vlan.number <= 4094
        if link.bond:
            assert link.bond.members
    assert found[0].addresses


# --- what the node has ------------------------------------------------------------------------


def facts(*cards: tuple[str, str, str, list[str]]) -> list[dict[str, Any]]:
    return [
        {"name": name, "mac": mac, "kind": kind, "addresses": held}
        for name, mac, kind, held in cards
    ]


def derive_links(*entries: dict[str, Any]) -> dict[str, Any]:
    return plan.derive_plan({"a": {"fullmesh_links": list(entries)}})


TWO = (("ens1", MAC, "", []), ("ens2", "02:00:00:00:00:0b", "", []))


def test_the_node_reports_the_names_of_its_nics() -> None:
    whole = derive_links(
        {
            "bond": {
                "mode": "active-backup",
                "members": [MAC, "02:00:00:00:00:0b"],
                "primary": "02:00:00:00:00:0b",
            },
            "addresses": "10.0.0.11/24",
        }
    )
    node = resolve_node_interfaces(whole, "a", facts(*TWO))
    assert node["links"][0]["bond"]["members"] == ["ens1", "ens2"]
    assert node["links"][0]["bond"]["primary"] == "ens2"
    assert node["interface"] == "bond0"


def test_a_vlan_is_named_after_the_card_with_the_mac() -> None:
    whole = derive_links({"vlan": {"id": 7, "parent": MAC}, "addresses": "10.0.0.11/24"})
    assert resolve_node_interfaces(whole, "a", facts(*TWO))["interface"] == "ens1.7"
    # the VLAN that then exists has its parent's address, and must not be taken for it
    later = facts(("ens1.7", MAC, "vlan", ["10.0.0.11/24"]), *TWO)
    assert resolve_node_interfaces(whole, "a", later)["links"][0]["vlan"]["parent"] == "ens1"


def list_missing_links(whole: dict[str, Any], *cards: tuple[str, str, str, list[str]]) -> list[str]:
    seen = {"interfaces": facts(*cards)}
    return [str(fault) for fault in preflight._find_link_faults(whole, "a", seen)]


def test_a_bond_or_vlan_may_be_missing_but_not_its_nics() -> None:
    whole = derive_links(OVER, {"bond": BOND})
    assert list_missing_links(whole, ("eth1", MAC, "", []), ("eth2", "", "", [])) == []
    (fault,) = list_missing_links(whole, ("eth1", MAC, "", []))
    assert "PR-104" in fault
    assert "eth2" in fault


def test_a_vlan_needs_its_parent() -> None:
    whole = derive_links({"vlan": {"id": 7, "parent": "eth9"}, "addresses": "10.0.0.11/24"})
    (fault,) = list_missing_links(whole, *TWO)
    assert "no interface eth9" in fault


def test_a_nic_gives_its_address_to_its_own_bond_only() -> None:
    whole = derive_links({"bond": BOND, "addresses": "10.0.0.11/24"})
    held = ("eth1", MAC, "", ["10.0.0.11/24"])
    assert list_missing_links(whole, held, ("eth2", "", "", [])) == []
    other = ("eth5", "", "", ["10.0.0.11/24"])
    (fault,) = list_missing_links(whole, ("eth1", MAC, "", []), ("eth2", "", "", []), other)
    assert "PR-106" in fault


def test_the_plan_refuses_with_every_code() -> None:
    with pytest.raises(InvalidInputError) as refused:
        derive_links(bond(mode="x"), vlan(id=0), vlan(parent="eth1"))
    assert {fault.code for fault in refused.value.faults} >= {"PL-124", "PL-125"}
