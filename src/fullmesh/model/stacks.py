"""Read the VLANs and bonds of a node, and check how its links depend on each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from fullmesh import node_values
from fullmesh.faults import Fault
from fullmesh.foreign_text import parse_decimal
from fullmesh.model import addresses
from fullmesh.observed.links import BondLink as PlanBond
from fullmesh.observed.links import VlanLink as PlanVlan

# IEEE 802.1Q: 0 is "no VLAN", 4095 is reserved.
LOWEST_VLAN, HIGHEST_VLAN = 1, 4094
LONGEST_NAME = 15  # IFNAMSIZ - 1
# The kernel's Documentation/networking/bonding.rst, without "broadcast", which sends every frame on every NIC.
MODES = (
    "active-backup",
    "802.3ad",
    "balance-rr",
    "balance-xor",
    "balance-tlb",
    "balance-alb",
)
WITH_PRIMARY = ("active-backup", "balance-tlb", "balance-alb")
WITH_HASH = ("802.3ad", "balance-xor", "balance-tlb")
WORDS = {
    "lacp_rate": ("slow", "fast"),
    "xmit_hash_policy": ("layer2", "layer2+3", "layer3+4", "encap2+3", "encap3+4"),
    "ad_select": ("stable", "bandwidth", "count"),
}
ONLY_IN = {
    "lacp_rate": ("802.3ad",),
    "ad_select": ("802.3ad",),
    "xmit_hash_policy": WITH_HASH,
    "primary": WITH_PRIMARY,
}
MILLISECONDS = ("miimon", "updelay", "downdelay")
# Without it a dead cable is never noticed (the kernel's default is 0, "off").
MIIMON = 100
SLOWEST_MIIMON = 10000
BOND_FIELDS = frozenset({"mode", "members", "primary", *MILLISECONDS, *WORDS})
VLAN_FIELDS = frozenset({"id", "parent"})


class LinkView(Protocol):
    """The part of a link that this module reads."""

    @property
    def interface(self) -> str:
        """Return its name."""

    @property
    def mac(self) -> str:
        """Return its hardware address if it was chosen by it."""

    @property
    def mtu(self) -> int:
        """Return its MTU in bytes. 0 leaves it unchanged."""

    @property
    def addresses(self) -> Sequence[addresses.Interface]:
        """Return its addresses."""

    @property
    def vlan(self) -> VlanSettings | None:
        """Return its VLAN settings."""

    @property
    def bond(self) -> BondSettings | None:
        """Return its bond settings."""


@dataclass(frozen=True)
class VlanSettings:
    """IEEE 802.1Q: a tag on the frames of another interface.

    Attributes:
        number: the tag, 1-4094.
        parent: name or MAC of the interface that carries it.
    """

    number: int
    parent: str

    def as_plan(self) -> PlanVlan:
        """Return plain data."""
        return {"id": self.number, "parent": self.parent}


@dataclass(frozen=True)
class BondSettings:
    """Several NICs as one interface.

    Attributes:
        mode: the kernel's name of it.
        members: names or MACs, at least one.
        options: the other options of the kernel's driver, (name, value).
    """

    mode: str
    members: tuple[str, ...]
    options: tuple[tuple[str, str | int], ...] = ()

    def as_plan(self) -> PlanBond:
        """Return plain data."""
        made = {"mode": self.mode, "members": list(self.members), **dict(self.options)}
        return cast("PlanBond", made)


def is_interface_or_mac(text: object) -> bool:
    """Return whether *text* is the name or the MAC of an interface."""
    written = str(text)
    return bool(node_values.MAC.match(written) or node_values.INTERFACE_NAME.match(written))


def normalize_interface(text: object) -> str:
    """Return a MAC in lower case, and a name unchanged."""
    written = str(text)
    return written.lower() if node_values.MAC.match(written) else written


def read_vlan(where: str, value: Any, faults: list[Fault]) -> VlanSettings | None:
    """Read ``{id: 100, parent: eth1}``. Errors go to *faults*."""
    if not value:
        return None
    if not isinstance(value, Mapping) or not value.keys() <= VLAN_FIELDS:
        faults.append(
            Fault("PL-124", f"{where}: cannot read vlan {value!r}", "Write {id: 100, parent: eth1}")
        )
        return None
    number = parse_decimal(str(value.get("id", "")), HIGHEST_VLAN, LOWEST_VLAN)
    parent = value.get("parent") or ""
    if number is None:
        faults.append(
            Fault(
                "PL-124",
                f"{where}: vlan id {value.get('id')!r} is not between {LOWEST_VLAN} and {HIGHEST_VLAN}",
                "Use the tag that your switch is configured with",
            )
        )
    if not is_interface_or_mac(parent):
        faults.append(
            Fault(
                "PL-124",
                f"{where}: vlan parent {parent!r} is neither an interface name nor a MAC",
                "Name the NIC or bond that carries the VLAN",
            )
        )
        return None
    return None if number is None else VlanSettings(number, normalize_interface(parent))


def read_bond(where: str, value: Any, faults: list[Fault]) -> BondSettings | None:
    """Read ``{mode: 802.3ad, members: [eth1, eth2]}``. Errors go to *faults*."""
    if not value:
        return None
    if not isinstance(value, Mapping) or not value.keys() <= BOND_FIELDS:
        seen = sorted(value.keys() - BOND_FIELDS) if isinstance(value, Mapping) else repr(value)
        known = ", ".join(sorted(BOND_FIELDS))
        faults.append(Fault("PL-125", f"{where}: cannot read bond {seen}", f"Known: {known}"))
        return None
    before = len(faults)
    mode = str(value.get("mode", ""))
    if mode not in MODES:
        faults.append(
            Fault("PL-125", f"{where}: bond mode {mode!r}", f"Use one of {', '.join(MODES)}")
        )
    members = _read_bond_members(where, value.get("members"), faults)
    options: dict[str, str | int] = {"miimon": MIIMON}
    for name in sorted(value.keys() - {"mode", "members"}):
        options[name] = _read_bond_option(where, name, value[name], faults)
    if mode in MODES:
        faults += _find_bond_option_faults(where, mode, members, options)
    return BondSettings(mode, members, tuple(options.items())) if len(faults) == before else None


def _read_bond_members(where: str, value: Any, faults: list[Fault]) -> tuple[str, ...]:
    given = value if isinstance(value, list) else []
    members = tuple(normalize_interface(one) for one in given)
    if (
        not members
        or not all(is_interface_or_mac(one) for one in given)
        or len(set(members)) < len(members)
    ):
        faults.append(
            Fault(
                "PL-125",
                f"{where}: bond members {value!r}",
                "Use a list of different NICs by name or MAC, such as [eth1, eth2]",
            )
        )
    return members


def _read_bond_option(where: str, name: str, value: Any, faults: list[Fault]) -> str | int:
    if name in MILLISECONDS:
        text = str(value)
        lowest = 1 if name == "miimon" else 0
        number = parse_decimal(text, SLOWEST_MIIMON, lowest)
        if number is not None:
            return number
        faults.append(
            Fault(
                "PL-125",
                f"{where}: bond {name} {value!r} is not between {lowest} and {SLOWEST_MIIMON}",
                "Give milliseconds, such as 100",
            )
        )
        return 0
    if name in WORDS and value not in WORDS[name]:
        choices = ", ".join(WORDS[name])
        faults.append(Fault("PL-125", f"{where}: bond {name} {value!r}", f"Use one of {choices}"))
    return normalize_interface(value)


def _find_bond_option_faults(
    where: str, mode: str, members: Sequence[str], options: Mapping[str, str | int]
) -> list[Fault]:
    """Find options that the kernel would reject, or silently round."""
    faults = [
        Fault("PL-125", f"{where}: bond mode {mode} has no {name}", f"It belongs to {words}")
        for name, modes in ONLY_IN.items()
        if name in options and mode not in modes
        for words in [", ".join(modes)]
    ]
    if "primary" in options and options["primary"] not in members:
        faults.append(
            Fault(
                "PL-125",
                f"{where}: bond primary {options['primary']!r} is not one of its members",
                f"Use one of {', '.join(members)}, with the same spelling",
            )
        )
    beat = options["miimon"]
    for name in ("updelay", "downdelay"):
        delay = options.get(name, 0)
        if isinstance(delay, int) and isinstance(beat, int) and beat and delay % beat:
            faults.append(
                Fault(
                    "PL-125",
                    f"{where}: bond {name} {delay} is not a multiple of miimon {beat}",
                    "Use a multiple, because the kernel would round it",
                )
            )
    return faults


# --- checks between the links of one node --------------------------------------------------


def derive_vlan_name(parent: str, number: int) -> str:
    """Derive ``eth1.100``, or ``vlan100`` if that is too long for the kernel (15 bytes), as with ``enp129s0f0np0``."""
    name = f"{parent}.{number}"
    return name if len(name) <= LONGEST_NAME else f"vlan{number}"


def find_stack_faults(host: str, links: Sequence[LinkView]) -> list[Fault]:
    """Find faults that no single link shows: NICs used twice, VLANs on VLANs, parents with a small MTU."""
    return [
        *_find_shared_interfaces(host, links),
        *_find_vlan_faults(host, links),
        *_find_idle_links(host, links),
    ]


def _find_shared_interfaces(host: str, links: Sequence[LinkView]) -> list[Fault]:
    uses = Counter(one for link in links if link.bond for one in link.bond.members)
    own = {name for link in links for name in (link.interface, link.mac) if name}
    own |= {link.vlan.parent for link in links if link.vlan}
    faults = [
        Fault("PL-126", f"{host}: {one} is in {count} bonds", "Use each NIC in one bond only")
        for one, count in sorted(uses.items())
        if count > 1
    ]
    faults += [
        Fault(
            "PL-126",
            f"{host}: {one} is a member of a bond and used by itself",
            "Give its addresses and VLANs to the bond",
        )
        for one in sorted(uses.keys() & own)
    ]
    return faults


def _find_vlan_faults(host: str, links: Sequence[LinkView]) -> list[Fault]:
    faults = []
    vlans = {link.interface for link in links if link.vlan and link.interface}
    tags = Counter((link.vlan.parent, link.vlan.number) for link in links if link.vlan)
    for (parent, number), count in sorted(tags.items()):
        if count > 1:
            faults.append(
                Fault(
                    "PL-127",
                    f"{host}: {count} links are VLAN {number} of {parent}",
                    "Merge them into one link that lists all addresses",
                )
            )
    for link in links:
        if not link.vlan:
            continue
        if link.vlan.parent in vlans:
            faults.append(
                Fault(
                    "PL-127",
                    f"{host}: VLAN {link.vlan.number} is on top of the VLAN {link.vlan.parent}",
                    "Put it on the NIC or bond below",
                )
            )
        faults += _find_mtu_faults(host, link, links)
    return faults


def _find_mtu_faults(host: str, link: LinkView, links: Sequence[LinkView]) -> list[Fault]:
    """Find VLANs with a larger MTU than their parent's. The kernel rejects them (net/8021q/vlan_dev.c)."""
    parent = link.vlan.parent if link.vlan else ""
    below = [one.mtu or 1500 for one in links if parent in (one.interface, one.mac)]
    # the MTU of a parent outside the inventory is unknown: assume 1500, the default of a NIC
    most = below[0] if below else 1500
    if link.mtu <= most:
        return []
    return [
        Fault(
            "PL-127",
            f"{host}: the VLAN on {parent} has MTU {link.mtu}, {parent} itself {most}",
            f"Add a link for {parent} with mtu {link.mtu} (it needs no address)",
        )
    ]


def _find_idle_links(host: str, links: Sequence[LinkView]) -> list[Fault]:
    """Find links without addresses. Only a link that carries a VLAN may have none."""
    parents = {link.vlan.parent for link in links if link.vlan}
    return [
        Fault(
            "PL-103",
            f"{host}: {link.interface or link.mac or 'a link'} has no address",
            "Add one, such as 10.0.0.11/24. Only a NIC or bond that carries a VLAN needs none",
        )
        for link in links
        if not link.addresses and not {link.interface, link.mac} & parents
    ]
