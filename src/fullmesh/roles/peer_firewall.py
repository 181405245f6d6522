"""Check the settings of the peers' firewall, and build the request to a node's firewall."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

from fullmesh.faults import Fault
from fullmesh.foreign_text import parse_decimal
from fullmesh.model.addresses import parse_bare_address, parse_network
from fullmesh.observed.peer_list import PeerFirewall
from fullmesh.observed.ports import parse_port_entry
from fullmesh.plain import parse_switch

CODES: dict[str, str] = {
    "PF-101": "peer_firewall_mode is not one of the four",
    "PF-102": "A peer or controller is not an address, or there are no peers",
    "PF-103": "A port is not written like 123/udp or 50000-54095/tcp",
    "PF-104": "peer_firewall_zone is not a name that firewalld can use",
    "PF-105": "peer_firewall_rollback_seconds is too short for a new connection",
    "PF-106": "The firewall is set to `off` in a group whose name suggests production",
    "PF-107": "peer_firewall_rdma, _ufw or _existing_services has a value that does not exist",
    "PF-110": "ufw is active on the node, but the settings do not allow Fullmesh to replace it",
    "PF-111": "Another firewall service is active, which starting firewalld would stop",
    "PF-112": "firewalld is masked",
    "PF-113": "Another zone claims a peer's address (mode peers_only)",
    "PF-114": "Another program has runtime-only settings, which a reload would drop",
    "PF-115": "Starting firewalld would close sshd's port in the default zone",
    "PF-116": "firewalld does not accept the configuration with Fullmesh's files",
    "PF-117": "firewalld did not start, stop or reload",
    "PF-118": "The kernel's rules differ from the files",
    "PF-119": "The guard that reverts the firewall could not be started",
    "PF-120": "No connection confirmed the change in time, so the node reverted its firewall",
    "PF-121": "No new connection could be made after the change",
    "PF-122": "ufw has rules that firewalld cannot take over",
    "PF-123": "Another zone claims the cluster's interface (mode peers_only)",
    "PF-124": "A rule outside firewalld drops the peers' traffic",
    "PF-125": "ufw could not be switched off or on",
    "PF-126": "firewalld uses the iptables backend, which is not supported",
    "PF-127": "firewalld is too old to have policies",
    "PF-128": "firewalld flushed the iptables rules of other programs, and they could not be restored in their order",
    "PF-129": "Starting firewalld would block services that are reachable today",
    "PF-130": "The gate between two firewalls could not be opened",
    "PF-201": "The firewall is off, as configured",
    "PF-202": "The firewall is off, but ufw is active",
    "PF-203": "firewalld replaced ufw",
    "PF-204": "A rule carried over from ufw opens the cluster's ports to other clients than peers",
    "PF-205": "A rule outside firewalld drops forwarded traffic of peers",
    "PF-206": "A rule outside firewalld may drop the peers' traffic",
    "PF-207": "The old tables of iptables are in use and cannot be read",
    "PF-208": "The undo's reload dropped runtime-only settings of another program",
    "PF-209": "The zone of the cluster's interface opens the cluster's ports to everyone",
    "PF-210": "Peers can no longer reach services that they reached before, as configured",
    "PF-211": "The first start of firewalld blocks services that were reachable, as configured",
    "PF-180": "A node whose list of peers changes no longer has firewalld",
}

# peer_firewall_existing_services -> the request's word for it.
STARTS = {"refuse": "refuse", "open": "carry", "block": "cut"}
# Setting -> its allowed values. ``off`` is not a request to a node's firewall.
WORDS = {
    name: get_args(kind)
    for name, kind in get_type_hints(PeerFirewall).items()
    if get_origin(kind) is Literal and name != "start"
} | {"existing_services": tuple(STARTS)}
OFF = "off"
MODES = (*WORDS["mode"], OFF)
PROTOCOLS = ("tcp", "udp", "sctp", "dccp")
# one of these as a word of a group's name: prod, gpu-production, live_eu
PRODUCTION = re.compile(r"(?:^|[_.-])(?:prod|production|live)(?:[_.-]|$)", re.IGNORECASE)
# firewalld: chain names have 28 characters, which leaves 17. `-ssh` and `-job` of the policies take 4 of them.
ZONE = re.compile(r"[a-z][a-z0-9_-]{0,12}\Z")
# a reload and a new ssh connection take 2 to 5 s on a loaded node
SHORTEST_ROLLBACK = 20
RESERVED_ZONES = frozenset(
    [
        "block",
        "dmz",
        "drop",
        "external",
        "home",
        "internal",
        "nm-shared",
        "public",
        "trusted",
        "work",
        "docker",
        "libvirt",
    ]
)


def parse_firewall_mode(value: object) -> str:
    """Return the mode by its name. YAML reads a bare ``off`` as false."""
    return OFF if value is False else parse_word(value)


def parse_word(value: object) -> str:
    """Return the setting as text. YAML reads a bare ``true`` as a boolean."""
    return str(value).strip().lower()


def build_firewall_request(options: Mapping[str, Any]) -> PeerFirewall:
    """Build the request to a node's firewall from the role's variables, without the role's prefix."""
    others = options["others"]
    request = {
        **{name: parse_word(options[name]) for name in ("rdma", "ufw")},
        "start": STARTS[parse_word(options["existing_services"])],
        "mode": parse_firewall_mode(options["mode"]),
        "zone": str(options["zone"]),
        "peers": list(options["peers"]),
        "controllers": list(options["controllers"]),
        "ports": list(options["ports"]),
        "controller_ports": list(others["controllers"]),
        "public_ports": list(others["everybody"]),
        "tunnel_peers": list(options["tunnel"]["peers"]),
        "tunnel_ports": list(options["tunnel"]["ports"]),
        "rollback_seconds": int(options["rollback_seconds"]),
    }
    return cast("PeerFirewall", request)


def find_firewall_faults(options: Mapping[str, Any], groups: Sequence[str] = ()) -> list[Fault]:
    """Return all faults in the variables of a host in *groups* at once."""
    found = _find_production_faults(groups, options)
    peers, others = options["peers"], options["others"]
    if parse_firewall_mode(options["mode"]) not in MODES:
        step = f"Choose one of {', '.join(MODES)}"
        found.append(Fault("PF-101", f"peer_firewall_mode is {options['mode']!r}", step))
    if not peers:
        step = "Load playbooks/vars/wiring.yml, which takes them from the plan"
        found.append(Fault("PF-102", "peer_firewall_peers is empty", step))
    found += _find_address_faults("peer_firewall_peers", peers)
    found += _find_network_faults("peer_firewall_controllers", options["controllers"])
    tunnel = options["tunnel"]
    found += _find_address_faults("peer_firewall_tunnel", tunnel["peers"])
    wired = [*options["ports"], *others["controllers"], *others["everybody"], *tunnel["ports"]]
    found += _find_port_faults("peer_firewall_ports", wired)
    return found + _find_option_faults(options)


def _find_address_faults(name: str, addresses: Sequence[Any]) -> list[Fault]:
    found = []
    for text in addresses:
        try:
            parse_bare_address(text)
        except ValueError:
            step = "Write single addresses without a prefix, such as 192.0.2.11 or fd00::11"
            found.append(Fault("PF-102", f"{name}: {str(text)!r} is not an address", step))
    return found


def _find_network_faults(name: str, networks: Sequence[Any]) -> list[Fault]:
    found = []
    for text in networks:
        try:
            written = str(parse_bare_address(text)) if "%" in str(text) else str(text)
            network = parse_network(written.split("%", maxsplit=1)[0])
        except ValueError:
            step = "Write addresses or networks, such as 192.0.2.7, 198.51.100.0/24 or fd00::7"
            found.append(
                Fault("PF-102", f"{name}: {str(text)!r} is neither an address nor a network", step)
            )
        else:
            if not network.prefixlen:
                step = "Allow ssh in the default zone instead (firewall-cmd --permanent --add-service=ssh)"
                found.append(Fault("PF-102", f"{name}: {str(text)!r} is everybody", step))
    return found


def _find_port_faults(name: str, ports: Sequence[Any]) -> list[Fault]:
    step = (
        "Write it like 123/udp or 50000-54095/tcp, the lower port first and without leading zeros"
    )
    return [
        Fault("PF-103", f"{name}: {str(port)!r} is not a port with its protocol", step)
        for port in ports
        if not is_port_entry(port)
    ]


def is_port_entry(text: object) -> bool:
    """Return whether *text* is a port or range with its protocol, in the kernel's own format.

    The kernel prints 0123 and 123-123 as 123. A protocol alone would open all of its ports.
    """
    found = parse_port_entry(text)
    if found is None:
        return False
    span, protocol = found
    return span.first > 0 and protocol in PROTOCOLS and str(text) == f"{span}/{protocol}"


def _find_production_faults(groups: Sequence[str], options: Mapping[str, Any]) -> list[Fault]:
    named = [group for group in groups if PRODUCTION.search(group)]
    if (
        parse_firewall_mode(options["mode"]) != OFF
        or parse_switch(options["off_confirmed"])
        or not named
    ):
        return []
    text = f"peer_firewall_mode is off for a host in the group {named[0]}"
    step = "Every port would be open to everyone. If you want that, set peer_firewall_off_confirmed to true"
    return [Fault("PF-106", text, step)]


def _find_word_faults(options: Mapping[str, Any]) -> list[Fault]:
    return [
        Fault(
            "PF-107",
            f"peer_firewall_{name} is {options[name]!r}",
            f"Choose one of {', '.join(words)}",
        )
        for name, words in WORDS.items()
        if name != "mode" and parse_word(options[name]) not in words
    ]


def _find_option_faults(options: Mapping[str, Any]) -> list[Fault]:
    found = _find_word_faults(options)
    zone, seconds = str(options["zone"]), options["rollback_seconds"]
    if not ZONE.match(zone) or zone in RESERVED_ZONES:
        step = "Use up to 13 letters, digits, - and _, but no zone of firewalld itself"
        found.append(Fault("PF-104", f"peer_firewall_zone is {zone!r}", step))
    number = parse_decimal(str(seconds))
    if number is None or 0 < number < SHORTEST_ROLLBACK:
        step = f"Use {SHORTEST_ROLLBACK} or more, or 0 to confirm nothing"
        found.append(Fault("PF-105", f"peer_firewall_rollback_seconds is {seconds!r}", step))
    return found
