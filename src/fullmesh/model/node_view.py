"""Return a node's own view of the plan: its links with the interfaces that were found for them."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Sequence

from fullmesh import node_values
from fullmesh.model import stacks
from fullmesh.model.types import ClusterPlan, PlanLink, PlanNode
from fullmesh.observed.node import Interface


def resolve_node_interfaces(
    plan: ClusterPlan, host: str, interfaces: Sequence[Interface]
) -> PlanNode:
    """Return the plan's entry of *host*, with the name of the existing interface for each link.

    A bond's members and a VLAN's parent get names too, even if the inventory chose them by MAC. The bond or VLAN
    itself need not exist yet.

    Args:
        plan: the cluster plan.
        host: inventory name.
        interfaces: of node_facts. Empty before the survey.
    """
    node: PlanNode = json.loads(json.dumps(plan["nodes"][host]))
    for link in node["links"]:
        vlan, bond = link.get("vlan") or {}, link.get("bond") or {}
        if vlan:
            vlan["parent"] = find_interface_name(vlan["parent"], interfaces) or vlan["parent"]
            if not node_values.MAC.match(vlan["parent"]):
                link["interface"] = link["interface"] or stacks.derive_vlan_name(
                    vlan["parent"], vlan["id"]
                )
        elif bond:
            names = [find_interface_name(one, interfaces) or one for one in bond["members"]]
            if "primary" in bond:
                bond["primary"] = names[bond["members"].index(bond["primary"])]
            bond["members"] = names
        else:
            link["interface"] = find_link_interface(link, interfaces)
    if "wireguard" not in plan:  # the tunnel's interface has its name from the plan
        node["interface"] = node["links"][0]["interface"]
    return node


# Device types that copy the hardware address of another device.
BORROWERS = ("vlan", "bond", "bridge", "macvlan")


def find_interface_name(wanted: str, interfaces: Sequence[Interface]) -> str:
    """Return the name of the interface with the name or MAC *wanted*, or ""."""
    for interface in interfaces:
        if node_values.MAC.match(wanted):
            match = (
                interface["mac"].lower() == wanted.lower() and interface["kind"] not in BORROWERS
            )
        else:
            match = interface["name"] == wanted
        if match:
            return interface["name"]
    return ""


def find_link_interface(link: PlanLink, interfaces: Sequence[Interface]) -> str:
    """Return the interface of *link*: by name, MAC, pattern, or its current address. Return "" if there is none."""
    if link.get("pattern"):
        matching = list_matching_nics(link["pattern"], interfaces)
        return matching[0] if len(matching) == 1 else ""
    if link["interface"] or link["mac"]:
        return find_interface_name(link["interface"] or link["mac"], interfaces)
    for interface in interfaces:
        held = {entry.split("/", 1)[0] for entry in interface["addresses"]}
        if any(entry.split("/", 1)[0] in held for entry in link["addresses"]):
            return interface["name"]
    return ""


def list_matching_nics(pattern: str, interfaces: Sequence[Interface]) -> list[str]:
    """List the NICs whose names match the pattern of a rail."""
    return [
        one["name"]
        for one in interfaces
        if one["kind"] not in BORROWERS and fnmatch.fnmatchcase(one["name"], pattern)
    ]
