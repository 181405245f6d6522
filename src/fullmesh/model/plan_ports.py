"""Ports of the cluster plan: the named ones, the data range and how wide it has to be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from fullmesh.faults import Fault
from fullmesh.foreign_text import parse_decimal
from fullmesh.model import auto, ports
from fullmesh.model.plan_hosts import HostSettings
from fullmesh.model.services import TakenPort
from fullmesh.observed.ports import PortRange
from fullmesh.plain import parse_switch

# Where the distributions' node_exporter listens (role monitoring_tools); nobody's port is opened for it.
EXPORTER, EXPORTER_PORT = "monitoring_tools_node_exporter", 9100
EXPORTER_OF_THEIRS = "monitoring_tools_textfile_dir"


class RankLimits(NamedTuple):
    """As many ranks as there are at most: on a node, and in all, rounded up so that one node more changes nothing."""

    local: int
    world: int


def parse_port_number(value: Any, *, lowest: int, highest: int) -> int:
    """Read a whole number.

    Raises:
        ValueError: *value* is none, or lies outside of *lowest* to *highest*.
    """
    text = str(value)
    number = parse_decimal(text, highest, lowest)
    if number is None or isinstance(value, bool):
        raise ValueError(f"{text!r} is not a whole number between {lowest} and {highest}")
    return number


def read_named_ports(common: Mapping[str, Any], faults: list[Fault]) -> dict[str, int]:
    """The ports that have a name: master, rendezvous, and the site's other services."""
    result: dict[str, int] = {}
    wanted = {
        "fullmesh_master_port": common["fullmesh_master_port"],
        "fullmesh_rendezvous_port": common["fullmesh_rendezvous_port"],
    }
    services = common["fullmesh_service_ports"]
    if isinstance(services, list):
        wanted |= {f"fullmesh_service_ports[{at}]": port for at, port in enumerate(services)}
    else:
        faults.append(
            Fault("PL-109", f"fullmesh_service_ports is {services!r}", "Give a list of ports")
        )
    for name, value in wanted.items():
        try:
            result[name] = ports.parse_port(value)
        except ValueError as error:
            faults.append(Fault("PL-109", f"{name}: {error}", "Choose a free port, such as 29500"))
    for port, count in Counter(result.values()).items():
        if count > 1:
            names = ", ".join(name for name, value in result.items() if value == port)
            faults.append(
                Fault("PL-111", f"{names} are all {port}", "Give each service a port of its own")
            )
    return result


def read_process_groups(common: Mapping[str, Any], faults: list[Fault]) -> int:
    """The groups that a job makes; 0 with a fault."""
    try:
        return parse_port_number(common["fullmesh_process_groups"], lowest=1, highest=4096)
    except ValueError as error:
        faults.append(
            Fault("PL-114", f"fullmesh_process_groups {error}", "Give the groups that a job makes")
        )
        return 0


def read_data_range(
    common: Mapping[str, Any], most: RankLimits, groups: int, faults: list[Fault], *, unknown: bool
) -> PortRange | None:
    """The range for at most *most* ranks, or for any machine there is where the ranks of a node are *unknown*."""
    if not groups:
        return None
    written = common["fullmesh_data_ports"]
    try:
        if str(written) == "auto":
            return (
                choose_widest_range(most, groups)
                if unknown
                else ports.choose_default_range(most.local, groups, most.world)
            )
        chosen = ports.parse_range(written)
    except ValueError as error:
        code = "PL-113" if str(written) == "auto" else "PL-112"
        faults.append(Fault(code, f"fullmesh_data_ports: {error}", "Use auto, or another range"))
        return None
    faults += find_port_count_faults(chosen, most.local, groups)
    return chosen


def choose_widest_range(most: RankLimits, groups: int) -> PortRange:
    """The range for the largest machine that still fits; the look at the nodes says whether that was enough.

    Raises:
        ValueError: not even the ranks that are known fit.
    """
    for gpus in (auto.MOST_GPUS, auto.MOST_GPUS // 2, auto.MOST_GPUS // 4):
        if gpus > most.local:
            try:
                return ports.choose_default_range(gpus, groups, most.world)
            except ValueError:
                continue
    return ports.choose_default_range(most.local, groups, most.world)


def find_port_count_faults(data: PortRange, local_ranks: int, groups: int) -> list[Fault]:
    """A fault where the ranks of a node need more ports than the range has."""
    need = ports.compute_smallest_size(local_ranks, groups)
    if len(data) >= need:
        return []
    return [
        Fault(
            "PL-113",
            f"fullmesh_data_ports {data} holds {len(data)} ports, {local_ranks} rank(s) on a node"
            f" with {groups} process groups need {need}",
            "Widen the range, use auto, or lower fullmesh_process_groups",
        )
    ]


def check_port_overlap(
    named: Mapping[str, int], data: PortRange | None, faults: list[Fault]
) -> None:
    """No port with a name lies inside the data range."""
    for name, port in named.items():
        if data is not None and port in data:
            # The kernel would hand the port to an outgoing connection sooner or later: EADDRINUSE at random.
            faults.append(
                Fault(
                    "PL-110",
                    f"{name} {port} lies inside the data range {data.first}-{data.last}",
                    "Move one of the two",
                )
            )


def list_exporter_hosts(hosts: Mapping[str, HostSettings]) -> list[str]:
    """The hosts for which a node_exporter is installed."""
    return [
        host
        for host, own in hosts.items()
        if parse_switch(own.get(EXPORTER, False)) and not own.get(EXPORTER_OF_THEIRS)
    ]


def list_taken_ports(
    hosts: Mapping[str, HostSettings], named: Mapping[str, int], ssh: Mapping[str, int]
) -> list[TakenPort]:
    """The ports that no service may have; *ssh*: host -> that of its sshd."""
    found = [TakenPort(name, PortRange(port, port)) for name, port in named.items()]
    if list_exporter_hosts(hosts):
        found.append(TakenPort("node_exporter's port", PortRange(EXPORTER_PORT, EXPORTER_PORT)))
    return found + [
        TakenPort(f"ssh on {host}", PortRange(port, port)) for host, port in ssh.items()
    ]


def check_exporter_port(
    hosts: Mapping[str, HostSettings],
    named: Mapping[str, int],
    data: PortRange | None,
    faults: list[Fault],
) -> None:
    """The port of a node_exporter that is installed for a host is none of the cluster's.

    The site's other services may name it: that is how a range is kept away from it. One of the user's own has a port
    that nobody told us.
    """
    brought = list_exporter_hosts(hosts)
    if not brought:
        return
    who = f"{EXPORTER} is on for {', '.join(brought)}, and node_exporter's port {EXPORTER_PORT}"
    if data is not None and EXPORTER_PORT in data:
        faults.append(
            Fault(
                "PL-110",
                f"{who} lies inside the data range {data.first}-{data.last}",
                "Move fullmesh_data_ports, or leave node_exporter off",
            )
        )
    for name in ("fullmesh_master_port", "fullmesh_rendezvous_port"):
        if named.get(name) == EXPORTER_PORT:
            faults.append(Fault("PL-111", f"{who} is {name}", f"Give {name} a port of its own"))
