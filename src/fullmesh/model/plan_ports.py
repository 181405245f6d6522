"""Read the ports of the cluster plan: the named ports, and the data range with the size that it needs."""

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

# The port of the distributions' node_exporter (role monitoring_tools). Fullmesh does not open it.
EXPORTER, EXPORTER_PORT = "monitoring_tools_node_exporter", 9100
EXISTING_EXPORTER_DIR = "monitoring_tools_textfile_dir"


class RankLimits(NamedTuple):
    """Upper limits for the ranks on a node and in total, rounded up so that one more node changes nothing."""

    local: int
    world: int


def parse_port_number(value: Any, *, lowest: int, highest: int) -> int:
    """Read a whole number.

    Raises:
        ValueError: *value* is not a whole number from *lowest* to *highest*.
    """
    text = str(value)
    number = parse_decimal(text, highest, lowest)
    if number is None or isinstance(value, bool):
        raise ValueError(f"{text!r} is not a whole number between {lowest} and {highest}")
    return number


def read_named_ports(common: Mapping[str, Any], faults: list[Fault]) -> dict[str, int]:
    """Read the named ports: master and rendezvous."""
    result: dict[str, int] = {}
    wanted = {
        "fullmesh_master_port": common["fullmesh_master_port"],
        "fullmesh_rendezvous_port": common["fullmesh_rendezvous_port"],
    }
    for name, value in wanted.items():
        try:
            result[name] = ports.parse_port(value)
        except ValueError as error:
            faults.append(Fault("PL-109", f"{name}: {error}", "Choose a free port, such as 29500"))
    for port, count in Counter(result.values()).items():
        if count > 1:
            names = ", ".join(name for name, value in result.items() if value == port)
            faults.append(
                Fault("PL-111", f"{names} are all {port}", "Use a different port for each service")
            )
    return result


def read_process_groups(common: Mapping[str, Any], faults: list[Fault]) -> int:
    """Read the number of process groups of a job. Return 0, with a fault, if it is malformed."""
    try:
        return parse_port_number(common["fullmesh_process_groups"], lowest=1, highest=4096)
    except ValueError as error:
        faults.append(
            Fault(
                "PL-114",
                f"fullmesh_process_groups {error}",
                "Set the number of groups that a job makes",
            )
        )
        return 0


def read_data_range(
    common: Mapping[str, Any], most: RankLimits, groups: int, faults: list[Fault], *, unknown: bool
) -> PortRange | None:
    """Return the data range for at most *most* ranks. If the ranks of a node are *unknown*, it fits any machine."""
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
    """Return the range for the largest machine that still fits. The survey checks whether it is large enough.

    Raises:
        ValueError: not even the known ranks fit.
    """
    for gpus in (auto.MOST_GPUS, auto.MOST_GPUS // 2, auto.MOST_GPUS // 4):
        if gpus > most.local:
            try:
                return ports.choose_default_range(gpus, groups, most.world)
            except ValueError:
                continue
    return ports.choose_default_range(most.local, groups, most.world)


def find_port_count_faults(data: PortRange, local_ranks: int, groups: int) -> list[Fault]:
    """Return a fault if the ranks of a node need more ports than the range has."""
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
    """Check that no named port is inside the data range."""
    for name, port in named.items():
        if data is not None and port in data:
            # The kernel would assign the port to an outgoing connection sooner or later: EADDRINUSE at random.
            faults.append(
                Fault(
                    "PL-110",
                    f"{name} {port} is inside the data range {data.first}-{data.last}",
                    "Move one of the two",
                )
            )


def list_exporter_hosts(hosts: Mapping[str, HostSettings]) -> list[str]:
    """List the hosts on which Fullmesh installs node_exporter."""
    return [
        host
        for host, own in hosts.items()
        if parse_switch(own.get(EXPORTER, False)) and not own.get(EXISTING_EXPORTER_DIR)
    ]


def list_taken_ports(
    hosts: Mapping[str, HostSettings], named: Mapping[str, int], ssh: Mapping[str, int]
) -> list[TakenPort]:
    """List the ports that no service may use. *ssh* maps hosts to the ports of their sshd."""
    found = [TakenPort(name, PortRange(port, port)) for name, port in named.items()]
    if list_exporter_hosts(hosts):
        span = PortRange(EXPORTER_PORT, EXPORTER_PORT)
        found.append(TakenPort("node_exporter's port", span, open_on_request=True))
    return found + [
        TakenPort(f"ssh on {host}", PortRange(port, port)) for host, port in ssh.items()
    ]


def check_exporter_port(
    hosts: Mapping[str, HostSettings],
    named: Mapping[str, int],
    data: PortRange | None,
    faults: list[Fault],
) -> None:
    """Check that the port of an installed node_exporter is none of the cluster's ports.

    A service may name it, so that Prometheus on a peer reaches it. The port of a node_exporter that the user installed
    is unknown.
    """
    brought = list_exporter_hosts(hosts)
    if not brought:
        return
    who = f"{EXPORTER} is on for {', '.join(brought)}, and node_exporter's port {EXPORTER_PORT}"
    if data is not None and EXPORTER_PORT in data:
        faults.append(
            Fault(
                "PL-110",
                f"{who} is inside the data range {data.first}-{data.last}",
                "Move fullmesh_data_ports, or leave node_exporter off",
            )
        )
    for name in ("fullmesh_master_port", "fullmesh_rendezvous_port"):
        if named.get(name) == EXPORTER_PORT:
            faults.append(Fault("PL-111", f"{who} is {name}", f"Use another port for {name}"))
