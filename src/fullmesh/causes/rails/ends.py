"""Find the ends of the plan's rails on the nodes, and describe what is wrong with one."""

from __future__ import annotations

import fnmatch
import ipaddress
from dataclasses import dataclass

from fullmesh.model.types import PlanLink, PlanRail
from fullmesh.observed.ladder import RailLink, RailProbe
from fullmesh.observed.survey import Nic, ShapedQueue
from fullmesh.result.findings import Finding
from fullmesh.verify.model import ClusterObservations

NO_PROBE: RailProbe = {"links": [], "duplicates": [], "queues": [], "heard": []}
USUAL_MBIT, BELOW_SPEED = (
    1000.0,
    0.9,
)  # a limit below this rate, or this share of the speed, slows a rail down
LOSS_LEAST, DELAY_LEAST = 0.0001, 1.0  # share of packets, milliseconds


@dataclass(frozen=True)
class RailEnd:
    """A node's end of a rail.

    Attributes:
        rail: the name of the network in the plan.
        node: the node.
        address: with its prefix, as planned.
        link: the planned settings, None if the plan has none.
        planned: the interface that the plan names, None if the node has none such.
        holder: the interface with the address, None if no interface has it.
    """

    rail: str
    node: str
    address: str
    link: PlanLink | None
    planned: Nic | None
    holder: Nic | None

    @property
    def ip(self) -> str:
        """The address without its prefix."""
        return self.address.partition("/")[0]

    @property
    def nic(self) -> Nic | None:
        """The interface of the rail."""
        return self.planned or self.holder

    @property
    def wanted(self) -> str:
        """The interface that the plan names."""
        if self.planned is not None:
            return self.planned["name"]
        if self.link is None:
            return "an interface"
        return self.link["interface"] or self.link["mac"] or self.link.get("pattern", "")


def find_planned_link(seen: ClusterObservations, name: str, address: str) -> PlanLink | None:
    """Return the planned settings of the interface with an address, which has no prefix here."""
    for link in seen.plan["nodes"][name].get("links", []):
        if any(one.partition("/")[0] == address for one in link["addresses"]):
            return link
    return None


def is_planned_nic(link: PlanLink, nic: Nic) -> bool:
    """Return whether an interface is the one that the plan names: by its name, its MAC or a pattern."""
    if link["mac"]:
        return nic["mac"] == link["mac"].lower()
    pattern = link.get("pattern", "")
    if pattern and not link["interface"]:
        return fnmatch.fnmatchcase(nic["name"], pattern)
    return nic["name"] == link["interface"]


def list_rail_ends(seen: ClusterObservations, rail: PlanRail) -> dict[str, RailEnd]:
    """Map each surveyed node to its end of a rail. Ends with the cluster address are checked as the cluster network."""
    found: dict[str, RailEnd] = {}
    length = rail["network"].partition("/")[2]
    for name, address in rail["members"].items():
        nics = seen.survey(name).get("interfaces", []) if name in seen.plan["nodes"] else []
        if not nics or address == seen.address(name):
            continue
        link = find_planned_link(seen, name, address)
        planned = [nic for nic in nics if link is not None and is_planned_nic(link, nic)]
        holders = [
            nic for nic in nics if any(one.partition("/")[0] == address for one in nic["addresses"])
        ]
        found[name] = RailEnd(
            rail["name"],
            name,
            f"{address}/{length}",
            link,
            planned[0] if planned else None,
            next((nic for nic in holders if nic in planned), holders[0] if holders else None),
        )
    return found


def map_rail_macs(seen: ClusterObservations) -> dict[str, tuple[str, str]]:
    """Map the hardware addresses of all interfaces to node and interface. Those of several nodes are left out."""
    found: dict[str, tuple[str, str]] = {}
    shared: set[str] = set()
    for name in seen.plan["nodes"]:
        for nic in seen.survey(name).get("interfaces", []):
            mac = nic["mac"]
            if mac in found and found[mac][0] != name:
                shared.add(mac)
            found.setdefault(mac, (name, nic["name"]))
    return {mac: one for mac, one in found.items() if mac and mac not in shared}


def list_global_addresses(nic: Nic) -> list[str]:
    """List the addresses of an interface without link-local ones."""
    found = []
    for text in nic["addresses"]:
        try:
            if not ipaddress.ip_interface(text).is_link_local:
                found.append(text)
        except ValueError:
            continue
    return found


def is_up(nic: Nic | None) -> bool:
    """Return whether an interface is up and has a carrier. One that does not exist is another fault."""
    return nic is None or (nic["running"] and nic["carrier"])


def is_slow_queue(nic: Nic, one: ShapedQueue) -> bool:
    """Return whether a queue slows all packets of an interface down, loses or delays them."""
    limit = BELOW_SPEED * nic["speed"] if nic["speed"] else USUAL_MBIT
    slow = 0 < one["rate"] < limit
    return one["every"] and (slow or one["loss"] >= LOSS_LEAST or one["delay"] >= DELAY_LEAST)


def describe_queue(one: ShapedQueue) -> str:
    """Describe the effect of a queue."""
    verb = "sends" if one["side"] == "egress" else "receives"
    words = [f"{verb} at most {one['rate']:g} Mbit/s"] if one["rate"] else []
    words += [f"loses {one['loss']:.2%} of the packets"] if one["loss"] else []
    words += [f"delays packets by {one['delay']:g} ms"] if one["delay"] else []
    return " and ".join(words)


def describe_detour(end: RailEnd, one: RailLink) -> str:
    """Return how packets of a rail leave the node if not by its interface and straight to the peer, else ""."""
    if one["error"]:
        return f"nowhere ({one['error']})"
    if end.holder is None or not one["dev"]:
        return ""
    if one["dev"] != end.holder["name"]:
        return f"by {one['dev']} instead of {end.holder['name']}"
    return f"through {one['via']} instead of directly" if one["via"] else ""


def describe_failure(one: RailLink) -> str:
    """Describe a failed connection."""
    words = [one["verdict"].replace("_", " "), one["errno"], one["remark"]]
    if one["verdict"] in ("no_route", "dropped") and not one["mac"] and not one["error"]:
        words.append("the peer does not answer ARP or neighbor discovery")
    return ", ".join(word for word in words if word)


def has_same_rail(root: Finding, other: Finding) -> bool:
    """Return whether the other finding is about RDMA on the root's rail, between the same nodes.

    The root's *seen* names an address of the rail, and that of RDMA the addresses of both ends.
    """
    shared = {*root.pairs} & {*other.pairs}
    words = {word.strip(":,").partition("/")[0] for word in root.seen.split()}
    ends = [
        word.strip(",") for word in other.seen.split() if word.strip(",").count(".") or ":" in word
    ]
    return bool(shared) and any(end in words for end in ends)
