"""Read ``fullmesh_services``: services with ports next to torch's jobs, and the machines that may reach them.

Pure. The presets' numbers are in :mod:`fullmesh.model.service_presets`. Code that opens, reserves or tests a
service's port uses this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, cast, get_args

from fullmesh.faults import Fault
from fullmesh.model import ports
from fullmesh.model.service_presets import BY_NAME, MASTER, PresetPort
from fullmesh.model.types import ClusterPlan, Protocol, Reach, ServicePort
from fullmesh.observed.ports import PortRange, parse_port_entry, parse_port_range

SETTING = "fullmesh_services"
NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
KEYS = ("name", "nodes", "ports", "reach")
REACHES: tuple[Reach, ...] = get_args(Reach)
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)


CLOSED = "none"  # a reach: the port is reserved, and opened to no client
SSH_PORT = 22


@dataclass(frozen=True)
class TakenPort:
    """A port, or a range, that is already in use. *who* names its owner in a sentence.

    A service may name a port that is *open_on_request*, and nothing else: its owner does not open it by itself.
    """

    who: str
    span: PortRange
    open_on_request: bool = False
    protocol: Protocol = "tcp"


class MalformedServiceError(ValueError):
    """A malformed entry. Its fault has the code, the problem and the next step."""

    def __init__(self, code: str, text: str, step: str) -> None:
        super().__init__(text)
        self.fault = Fault(code, text, step)


def read_services(value: object, order: Sequence[str], faults: list[Fault]) -> list[ServicePort]:
    """Read the ports of all services. Malformed entries are faults.

    Args:
        value: of the setting.
        order: the nodes by rank, the master first.
        faults: the list that faults are added to.
    """
    if not isinstance(value, list):
        step = f"Use a list: names of presets ({', '.join(BY_NAME)}) or mappings"
        faults.append(Fault("PL-130", f"{SETTING} is {value!r}", step))
        return []
    found: list[ServicePort] = []
    names: set[str] = set()
    for at, entry in enumerate(value):
        where = f"{SETTING}[{at}]"
        try:
            name = _read_service_name(entry, where)
            if name in names:
                raise MalformedServiceError(
                    "PL-130", f"{where}: {name} is named twice", "Name each service once"
                )
        except MalformedServiceError as error:
            faults.append(error.fault)
            continue
        names.add(name)
        own: Mapping[str, Any] = entry if isinstance(entry, Mapping) else {}
        found += _read_service(name, own, order, faults)
    return found


def _read_service_name(entry: object, where: str) -> str:
    if isinstance(entry, str):
        if entry in BY_NAME:
            return entry
        step = f"Presets are {', '.join(BY_NAME)}. Write a service of your own as a mapping with name and ports"
        raise MalformedServiceError("PL-130", f"{where}: there is no preset {entry!r}", step)
    if not isinstance(entry, Mapping):
        step = "Write the name of a preset, or {name: inference, ports: [8000/tcp]}"
        raise MalformedServiceError("PL-130", f"{where} is {entry!r}", step)
    name = entry.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        step = "Use small letters, digits and '-', up to 31, a letter first"
        raise MalformedServiceError(
            "PL-130", f"{where}: {name!r} is not a name for a service", step
        )
    unknown = sorted(str(key) for key in entry if key not in KEYS)
    if unknown:
        step = f"Known: {', '.join(KEYS)}"
        raise MalformedServiceError(
            "PL-130", f"{where} ({name}): unknown {', '.join(unknown)}", step
        )
    return name


def _read_service(
    name: str, own: Mapping[str, Any], order: Sequence[str], faults: list[Fault]
) -> list[ServicePort]:
    """Read the ports of one service."""
    preset = {one.part: one for one in BY_NAME[name].ports} if name in BY_NAME else None
    written = _read_service_ports(name, own.get("ports"), preset, faults)
    everywhere = _read_service_nodes(name, own.get("nodes"), order, faults)
    reach = own.get("reach")
    by_part = reach if isinstance(reach, Mapping) else dict.fromkeys(written, reach)
    for part in sorted(str(part) for part in by_part if part not in written):
        step = f"Its parts are {', '.join(written) or 'none'}"
        faults.append(Fault("PL-132", f"{SETTING}, {name}: reach names {part!r}", step))
    found = []
    for part, text in written.items():
        given = preset[part] if preset else None
        try:
            span, protocol = _parse_service_span(name, part, text)
            who = _read_reach(name, part, by_part.get(part), given)
        except MalformedServiceError as error:
            faults.append(error.fault)
            continue
        one: ServicePort = {
            "service": name,
            "part": part,
            "first": span.first,
            "last": span.last,
            "protocol": protocol,
            "reach": who,
            "nodes": list(order[:1]) if given and given.where == MASTER else list(everywhere),
        }
        if given and given.per_cpu:
            one["per_cpu"] = given.per_cpu
        found.append(one)
    return found


def _read_service_ports(
    name: str, value: object, preset: Mapping[str, PresetPort] | None, faults: list[Fault]
) -> dict[str, object]:
    """Map each part to the ports that the user wrote, or to the preset's ports."""
    if preset is not None:
        if value is None:
            return {part: one.ports for part, one in preset.items()}
        unknown = sorted(map(str, value.keys() - preset)) if isinstance(value, Mapping) else [""]
        if unknown:
            text = f"{SETTING}, {name}: ports is {value!r}"
            step = f"Use a mapping of its parts: {', '.join(preset) or 'it has none'}"
            faults.append(Fault("PL-131", text, step))
            return {}
        given = cast("Mapping[str, object]", value)
        return {part: given.get(part, one.ports) for part, one in preset.items()}
    if isinstance(value, Mapping) and value:
        return {str(part): text for part, text in value.items()}
    if isinstance(value, list) and value:
        return {str(text): text for text in value}
    step = "Use a list such as [8000/tcp, 9000-9010/udp]"
    faults.append(Fault("PL-131", f"{SETTING}, {name}: ports is {value!r}", step))
    return {}


def _parse_service_span(name: str, part: str, text: object) -> tuple[PortRange, Protocol]:
    """Read ``8000``, ``8000/tcp`` or ``9000-9010/udp``. The default protocol is tcp."""
    entry = parse_port_entry(text)
    if entry is None:
        span = parse_port_range(text)
        entry = (span, "tcp") if span and "/" not in str(text) else None
    where = f"{SETTING}, {name} {part}"
    step = "Write it like 8000/tcp or 9000-9010/udp, within 1-65535"
    bad = entry is None or isinstance(text, bool) or entry[0].first < 1
    if bad or entry is None or entry[1] not in PROTOCOLS:
        raise MalformedServiceError(
            "PL-131", f"{where}: {text!r} is neither a port nor a range", step
        )
    if entry[1] == "tcp" and SSH_PORT in entry[0]:
        step = "Set fullmesh_controllers: the firewall never blocks ssh from there"
        raise MalformedServiceError("PL-131", f"{where}: {text!r} is the port of ssh", step)
    return entry[0], entry[1]


def _read_reach(name: str, part: str, value: object, preset: PresetPort | None) -> list[Reach]:
    if value is None:
        value = list(preset.reach) if preset else ["peers"]
    words = value if isinstance(value, list) else [value]
    if words == [CLOSED]:
        return []
    if not words or any(word not in REACHES for word in words):
        text = f"{SETTING}, {name} {part}: reach is {value!r}"
        step = f"Use one or more of {', '.join(REACHES)}, or {CLOSED}"
        raise MalformedServiceError("PL-132", text, step)
    return [word for word in REACHES if word in words]


def _read_service_nodes(
    name: str, value: object, order: Sequence[str], faults: list[Fault]
) -> list[str]:
    """Read the nodes of a service, in the plan's order. The default is all nodes, ``master`` is rank 0's node."""
    if value is None:
        return list(order)
    words = [str(word) for word in (value if isinstance(value, list) else [value])]
    wanted = {order[0] if word == MASTER and word not in order else word for word in words}
    strangers = sorted(wanted - set(order))
    if strangers or not wanted:
        text = f"{SETTING}, {name}: nodes is {value!r}"
        faults.append(
            Fault("PL-133", text, f"Name nodes of the inventory ({', '.join(order)}), or master")
        )
        return list(order)
    return [host for host in order if host in wanted]


def service_port_to_range(port: ServicePort) -> PortRange:
    """Return the port range of a service."""
    return PortRange(port["first"], port["last"])


def describe_service_port(port: ServicePort) -> str:
    """Name a port in a sentence."""
    return f"{SETTING}, {port['service']} {port['part']} {service_port_to_range(port)}/{port['protocol']}"


def check_service_ports(
    services: Sequence[ServicePort],
    taken: Sequence[TakenPort],
    data: PortRange | None,
    faults: list[Fault],
) -> None:
    """Check that no port of a service belongs to another owner or is inside the data range.

    Args:
        services: the services that were read.
        taken: ports that already have an owner.
        data: the data range, from which the kernel assigns ports.
        faults: the list that faults are added to.
    """
    for port in services:
        if data is not None and service_port_to_range(port).shared(data):
            text = f"{describe_service_port(port)} is inside the data range {data}"
            faults.append(Fault("PL-110", text, "Move one of the two"))
        for other in taken:
            span = service_port_to_range(port)
            if other.open_on_request and span == other.span:
                continue
            if port["protocol"] == other.protocol and span.shared(other.span):
                text = f"{describe_service_port(port)} meets {other.who} {other.span}"
                faults.append(Fault("PL-111", text, "Use a different port for each service"))
    for one, other_port in combinations(services, 2):
        if _has_port_overlap(one, other_port):
            text = f"{describe_service_port(one)} meets {describe_service_port(other_port)}"
            faults.append(Fault("PL-111", text, "Use a different port for each service"))


def _has_port_overlap(one: ServicePort, other: ServicePort) -> bool:
    same = one["protocol"] == other["protocol"] and set(one["nodes"]) & set(other["nodes"])
    return bool(same) and bool(service_port_to_range(one).shared(service_port_to_range(other)))


def find_small_ranges(plan: ClusterPlan, host: str, cpus: int) -> Iterator[ServicePort]:
    """Yield the ranges of a host that are too small for its CPUs."""
    for port in plan.get("services", []):
        if (
            host in port["nodes"]
            and len(service_port_to_range(port)) < port.get("per_cpu", 0) * cpus
        ):
            yield port


def list_open_ports(plan: ClusterPlan, who: Reach, host: str = "") -> list[str]:
    """List the ports that *who* may reach on *host* (on any node if empty), as firewalld writes them.

    Ports that everybody may reach are listed for ``everybody`` only, so that nothing is opened twice.
    """
    found = [] if who != "peers" else list(plan["open_ports"])
    for port in plan.get("services", []):
        wide = "everybody" in port["reach"] and who != "everybody"
        if who in port["reach"] and not wide and (not host or host in port["nodes"]):
            found.append(f"{service_port_to_range(port)}/{port['protocol']}")
    return list(dict.fromkeys(found))


def list_probe_ports(plan: ClusterPlan, host: str) -> list[int]:
    """List the ports of a host's services on which the probe listens: both ends of each tcp range that peers reach.

    Ports below 1024 are left out: only root can listen there.
    """
    found: list[int] = []
    for port in plan.get("services", []):
        if host not in port["nodes"] or port["protocol"] != "tcp":
            continue
        if {"peers", "everybody"} & set(port["reach"]):
            ends = dict.fromkeys((port["first"], port["last"]))
            found += [one for one in ends if one >= ports.LOWEST_PORT]
    return found


def find_port_service(plan: ClusterPlan, host: str, number: int) -> str:
    """Return the service of a host's tcp port, such as ``ray gcs``, or an empty text."""
    for port in plan.get("services", []):
        if (
            host in port["nodes"]
            and port["protocol"] == "tcp"
            and number in service_port_to_range(port)
        ):
            return f"{port['service']} {port['part']}"
    return ""


def find_range_services(plan: ClusterPlan, protocol: str, span: PortRange) -> list[str]:
    """List the services of the plan with ports in *span*. A single port is named with its part, such as ``ray gcs``."""
    found = [
        port
        for port in plan.get("services", [])
        if port["protocol"] == protocol and service_port_to_range(port).shared(span)
    ]
    if len(found) == 1:
        return [f"{found[0]['service']} {found[0]['part']}"]
    return list(dict.fromkeys(port["service"] for port in found))


def is_peers_only_port(plan: ClusterPlan, host: str, number: int) -> bool:
    """Return whether a host's tcp port belongs to a service that only peers may reach."""
    return any(
        port["reach"] == ["peers"]
        for port in plan.get("services", [])
        if host in port["nodes"]
        and port["protocol"] == "tcp"
        and number in service_port_to_range(port)
    )
