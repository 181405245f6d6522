"""Which network the machines can be a cluster on, with the reasons: a pure function of what they answered."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

from fullmesh.faults import Fault, InvalidInputError
from fullmesh.observed.first_look import Default, Ways
from fullmesh.observed.node import Facts, Interface

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
# Interfaces that programs make for themselves, by the kernel's DEVTYPE and by the names that they always have.
OTHERS = ("bridge", "veth", "tun", "wireguard", "vxlan", "dummy", "macvlan", "ipvlan", "wwan")
OTHERS_NAMED = (
    "docker",
    "virbr",
    "cni",
    "flannel",
    "cali",
    "veth",
    "br-",
    "tailscale",
    "zt",
    "podman",
)
USUAL_MTU = 1500
WIFI = "wlan"


@dataclass(frozen=True)
class MachineAnswer:
    """What a machine answered; ``ways`` is None where that could not be asked."""

    facts: Facts
    ways: Ways | None


@dataclass(frozen=True)
class NetworkAttachment:
    """A machine's place on a network."""

    card: Interface
    address: str
    default: Default | None
    leased: bool
    dns: tuple[str, ...]
    search: tuple[str, ...]
    owner: str

    @property
    def simple(self) -> bool:
        """Whether an address and a card say all that the card has."""
        return self.default is None and self.card["mtu"] == USUAL_MTU


@dataclass(frozen=True)
class NetworkProposal:
    """A network that all machines are on.

    Attributes:
        network: its addresses.
        seats: by machine.
        speed: of its slowest card, Mbit/s; 0 where a driver names none.
        rdma: every card of it belongs to an RDMA device.
        ssh: our ssh connections use it.
    """

    network: Network
    seats: Mapping[str, NetworkAttachment]
    speed: int
    rdma: bool
    ssh: bool

    @property
    def rank(self) -> tuple[bool, bool, int, bool]:
        """The better, the larger."""
        wired = all(seat.card["kind"] != WIFI for seat in self.seats.values())
        return (wired, self.rdma, self.speed, not self.ssh)

    def reasons(self) -> list[str]:
        """Why this one, in words."""
        cards = sorted({seat.card["name"] for seat in self.seats.values()})
        found = [f"{len(self.seats)} nodes have an address in {self.network} ({', '.join(cards)})"]
        if self.speed:
            found.append(f"its slowest card runs at {format_link_speed(self.speed)}")
        if self.rdma:
            found.append("every card of it is an RDMA device")
        found.append(
            "ssh uses it as well"
            if self.ssh
            else "ssh uses another one, so it carries the jobs alone"
        )
        leased = sorted(name for name, seat in self.seats.items() if seat.leased)
        if leased:
            found.append(
                f"DHCP gave {', '.join(leased)} the address: Fullmesh makes it a fixed one, so reserve it there"
            )
        return found


def format_link_speed(mbit: int) -> str:
    """A speed as it stands on a box."""
    if not mbit:
        return "unknown speed"
    return f"{mbit / 1000:g} Gbit/s" if mbit >= 1000 else f"{mbit} Mbit/s"  # noqa: PLR2004 (1000 of one are the other)


def is_usable_interface(card: Interface) -> bool:
    """Whether a card could carry a cluster."""
    if card["name"] == "lo" or card["kind"] in OTHERS or card["name"].startswith(OTHERS_NAMED):
        return False
    return card["carrier"] or card["state"] == "up"


def list_attachments(answer: MachineAnswer) -> dict[Network, NetworkAttachment]:
    """Every network that a machine is on, and its place there."""
    found: dict[Network, NetworkAttachment] = {}
    ways = answer.ways
    for card in answer.facts["fullmesh"]["interfaces"]:
        if not is_usable_interface(card):
            continue
        for text in card["addresses"]:
            address = ipaddress.ip_interface(text)
            if address.network.prefixlen == address.max_prefixlen:
                continue  # a VIP or a loopback address of a router: no network at all
            default = next(
                (
                    one
                    for one in (ways["defaults"] if ways else [])
                    if one["dev"] == card["name"]
                    and one["family"] == address.version
                    and one["via"]
                ),
                None,
            )
            found.setdefault(
                address.network,
                NetworkAttachment(
                    card=card,
                    address=text,
                    default=default,
                    leased=bool(ways and card["name"] in ways["leased"]),
                    dns=tuple(ways["dns"]) if ways and default else (),
                    search=tuple(ways["search"]) if ways and default else (),
                    owner=ways["owners"].get(card["name"], "") if ways else "",
                ),
            )
    return found


def find_ssh_address(answer: MachineAnswer) -> str:
    """The address to which our ssh connection went; empty for a local one."""
    words = answer.ways["session"] if answer.ways else []
    return words[2] if len(words) > 2 else ""  # noqa: PLR2004 (client, port, server, port)


def propose_networks(answers: Mapping[str, MachineAnswer]) -> list[NetworkProposal]:
    """Every network that joins all machines, the best first; IPv4 before IPv6 where nothing else tells them apart."""
    seats = {name: list_attachments(answer) for name, answer in answers.items()}
    first, *others = seats.values()
    shared = [network for network in first if all(network in one for one in others)]
    found = []
    for network in shared:
        own = {name: one[network] for name, one in seats.items()}
        ssh = any(
            find_ssh_address(answers[name]) == seat.address.partition("/")[0]
            for name, seat in own.items()
        )
        rdma = all(
            is_rdma_interface(answers[name], seat.card["name"]) for name, seat in own.items()
        )
        speed = min(seat.card["speed"] for seat in own.values())
        found.append(NetworkProposal(network, own, speed, rdma, ssh))
    return sorted(found, key=lambda one: (one.network.version, *(-int(part) for part in one.rank)))


def is_rdma_interface(answer: MachineAnswer, card: str) -> bool:
    """Whether an RDMA device of the machine uses a card."""
    ports = answer.facts["fullmesh"]["rdma"]
    return any(gid["interface"] == card for port in ports for gid in port["gids"])


def describe_attachments(answer: MachineAnswer) -> str:
    """Where a machine is, in words."""
    found = list_attachments(answer).values()
    return ", ".join(f"{seat.address} on {seat.card['name']}" for seat in found) or "no address"


def choose_proposal(answers: Mapping[str, MachineAnswer], wanted: str = "") -> NetworkProposal:
    """The network that was asked for, or the best one.

    Raises:
        RefusedError: there is none.
    """
    found = propose_networks(answers)
    if wanted:
        found = [one for one in found if str(one.network) == wanted]
    if found:
        return found[0]
    seen = "; ".join(f"{name}: {describe_attachments(answer)}" for name, answer in answers.items())
    what = (
        f"the network {wanted} does not join all nodes" if wanted else "no network joins all nodes"
    )
    raise InvalidInputError(
        [
            Fault(
                "IN-104",
                f"{what} ({seen})",
                "Give the cluster's cards addresses of one network, or write the inventory by hand: a copy of "
                "inventory/prod may name addresses that the nodes do not have yet",
            )
        ]
    )
