"""Check the cluster plan's settings with a fixed set of values, and the expected number of nodes."""

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
    """Check that the inventory has ``fullmesh_expected_nodes`` hosts. 0 means any number.

    AWX gives each job of a sliced template an inventory with the hosts of that slice only (its user guide, "Job
    Slicing"). A plan of one slice would lock out the nodes of the other slices.
    """
    try:
        wanted = plan_ports.parse_port_number(value, lowest=0, highest=100_000)
    except ValueError as error:
        faults.append(
            Fault("PL-135", f"fullmesh_expected_nodes {error}", "Set the number of nodes, or 0")
        )
        return
    if wanted and wanted != len(hosts):
        faults.append(
            Fault(
                "PL-135",
                f"The inventory has {len(hosts)} nodes in torch_nodes, fullmesh_expected_nodes is {wanted}",
                "Give every run the whole inventory and select a part with --limit (AWX: use the template's limit "
                "instead of job slicing), or update fullmesh_expected_nodes if nodes joined or left",
            )
        )


def check_run_choices(hosts: Mapping[str, HostSettings], faults: list[Fault]) -> None:
    """Check the settings of each host that control a run."""
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
