"""The cluster plan's settings that are one of a few values, or a number that the inventory is held against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fullmesh import settings
from fullmesh.faults import Fault
from fullmesh.model import plan_ports
from fullmesh.model.plan_hosts import HostSettings
from fullmesh.plain import parse_switch


def read_routed(value: Any, faults: list[Fault]) -> bool:
    """Read ``fullmesh_routed``."""
    found = parse_switch(value)
    if found is None:
        faults.append(Fault("PL-120", f"fullmesh_routed is {value!r}", "Use true or false"))
    return bool(found)


def check_node_count(value: Any, hosts: Mapping[str, HostSettings], faults: list[Fault]) -> None:
    """As many hosts as ``fullmesh_nodes`` says; 0: nobody says.

    AWX gives each job of a sliced template an inventory of that slice's hosts alone (its user guide, "Job Slicing"). A
    plan of them would make the nodes of other slices strangers.
    """
    try:
        wanted = plan_ports.parse_port_number(value, lowest=0, highest=100_000)
    except ValueError as error:
        faults.append(Fault("PL-135", f"fullmesh_nodes {error}", "Give the number of nodes, or 0"))
        return
    if wanted and wanted != len(hosts):
        faults.append(
            Fault(
                "PL-135",
                f"the inventory has {len(hosts)} nodes in torch_nodes, fullmesh_nodes is {wanted}",
                "Give every run the whole inventory, a part of it with --limit (AWX: the template's limit instead of "
                "job slicing), or set fullmesh_nodes anew when nodes joined or left",
            )
        )


def check_run_choices(hosts: Mapping[str, HostSettings], faults: list[Fault]) -> None:
    """How a run goes about its work, by host."""
    for host, chosen in hosts.items():
        converge = chosen.get("fullmesh_converge", settings.PLAN_SETTINGS["fullmesh_converge"])
        if converge not in ("auto", "always"):
            faults.append(
                Fault("PL-120", f"{host}: fullmesh_converge is {converge!r}", "Use auto or always")
            )
        default = settings.PLAN_SETTINGS["fullmesh_wait_seconds"]
        try:
            plan_ports.parse_port_number(
                chosen.get("fullmesh_wait_seconds", default), lowest=0, highest=86400
            )
        except ValueError as error:
            text = f"{host}: fullmesh_wait_seconds {error}"
            faults.append(Fault("PL-120", text, f"Give seconds, like {default}"))
