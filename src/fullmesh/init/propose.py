"""Choose the network for the cluster from the machines' answers, with reasons. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

from fullmesh.faults import Fault, InvalidInputError
from fullmesh.observed.first_look import Default, Ways
from fullmesh.observed.node import Facts, Interface

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
# Interfaces that programs create for themselves, by the kernel's DEVTYPE and by their fixed names.
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
# The network over a USB4 or Thunderbolt cable between two machines (thunderbolt-net). Most kernels do not report its
# speed. The slowest cable has 20 Gbit/s, of which IP gets about half.
CABLE = "thunderbolt"
CABLE_SPEED = 10_000
WIFI = "wlan"


@dataclass(frozen=True)
class MachineAnswer:
    """The answer of a machine. ``ways`` is None if it is unknown."""

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
        """Return whether an address and an interface describe the link completely."""
        return self.default is None and self.card["mtu"] == USUAL_MTU


@dataclass(frozen=True)
class NetworkProposal:
    """A network that joins all machines.

    Attributes:
        network: its addresses.
        seats: by machine.
        speed: of its slowest NIC in Mbit/s, 0 if unknown.
        rdma: every NIC in it belongs to an RDMA device.
        ssh: Fullmesh's ssh connections use it.
    """

    network: Network
    seats: Mapping[str, NetworkAttachment]
    speed: int
    rdma: bool
    ssh: bool

    @property
    def rank(self) -> tuple[bool, bool, int, bool]:
        """Return a sort key. The best network has the largest key."""
        wired = all(seat.card["kind"] != WIFI for seat in self.seats.values())
        return (wired, self.rdma, self.speed, not self.ssh)

    def reasons(self) -> list[str]:
        """Return the reasons for this network as sentences."""
        cards = sorted({seat.card["name"] for seat in self.seats.values()})
        found = [f"{len(self.seats)} nodes have an address in {self.network} ({', '.join(cards)})"]
        if self.speed:
            slowest = format_link_speed(self.speed)
            cable = all(seat.card["name"].startswith(CABLE) for seat in self.seats.values())
            found.append(
                f"it is a USB4 cable, with {slowest} or more"
                if cable
                else f"its slowest NIC runs at {slowest}"
            )
        if self.rdma:
            found.append("every NIC in it is an RDMA device")
        found.append(
            "ssh uses it as well"
            if self.ssh
            else "ssh uses another network, so this one only carries jobs"
        )
        leased = sorted(name for name, seat in self.seats.items() if seat.leased)
        if leased:
            found.append(
                f"DHCP assigned the address of {', '.join(leased)}: Fullmesh makes it static, so reserve it in DHCP"
            )
        return found


def format_link_speed(mbit: int) -> str:
    """Format a speed with its unit."""
    if not mbit:
        return "unknown speed"
    return f"{mbit / 1000:g} Gbit/s" if mbit >= 1000 else f"{mbit} Mbit/s"  # noqa: PLR2004 (a unit prefix)


def rate_interface(card: Interface) -> int:
    """Return an interface's speed in Mbit/s, 0 if unknown."""
    return card["speed"] or (CABLE_SPEED if card["name"].startswith(CABLE) else 0)


def is_usable_interface(card: Interface) -> bool:
    """Return whether an interface could carry a cluster."""
    if card["name"] == "lo" or card["kind"] in OTHERS or card["name"].startswith(OTHERS_NAMED):
        return False
    return card["carrier"] or card["state"] == "up"


def list_attachments(answer: MachineAnswer) -> dict[Network, NetworkAttachment]:
    """Return every network of a machine, with its attachment."""
    found: dict[Network, NetworkAttachment] = {}
    ways = answer.ways
    for card in answer.facts["fullmesh"]["interfaces"]:
        if not is_usable_interface(card):
            continue
        for text in card["addresses"]:
            address = ipaddress.ip_interface(text)
            if address.network.prefixlen == address.max_prefixlen:
                continue  # a VIP or a loopback address of a router, not a network
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
    """Return the address that Fullmesh's ssh connection used, or an empty text for a local one."""
    words = answer.ways["session"] if answer.ways else []
    return words[2] if len(words) > 2 else ""  # noqa: PLR2004 (client, port, server, port)


def propose_networks(answers: Mapping[str, MachineAnswer]) -> list[NetworkProposal]:
    """Return every network that joins all machines, best first. If two are equal, IPv4 comes before IPv6."""
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
        speed = min(rate_interface(seat.card) for seat in own.values())
        found.append(NetworkProposal(network, own, speed, rdma, ssh))
    return sorted(found, key=lambda one: (one.network.version, *(-int(part) for part in one.rank)))


def is_rdma_interface(answer: MachineAnswer, card: str) -> bool:
    """Return whether an RDMA device of the machine uses an interface."""
    ports = answer.facts["fullmesh"]["rdma"]
    return any(gid["interface"] == card for port in ports for gid in port["gids"])


def describe_attachments(answer: MachineAnswer) -> str:
    """List a machine's addresses and interfaces."""
    found = list_attachments(answer).values()
    return ", ".join(f"{seat.address} on {seat.card['name']}" for seat in found) or "no address"


def choose_proposal(answers: Mapping[str, MachineAnswer], wanted: str = "") -> NetworkProposal:
    """Return the requested network, or the best one.

    Raises:
        InvalidInputError: there is none.
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
                "Give the cluster's interfaces addresses in one network. Or copy inventory/prod and edit it: it may "
                "have addresses that the nodes do not have yet",
            )
        ]
    )
