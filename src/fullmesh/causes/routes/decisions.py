"""Routing decisions of a node's kernel about its peers: refusals, wrong interfaces, static neighbours.

The probe asks the kernel for each decision (probe/ways.py), so a cause is reported only if the answer shows it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.observed.ladder import PacketRoute

ANYBODY = -1


ACCOUNTS = ("skuid", "skgid")


ALL_KINDS = ("sample", "range", "master", "rendezvous")


UNATTACHED, FULL_LENGTH = ("lo", "dummy"), ("/32", "/128")


@dataclass(frozen=True)
class BrokenLinks:
    """List links between two nodes that are broken.

    Attributes:
        pairs: directions.
        ports: the ports of the unreachable listeners, by direction.
    """

    pairs: tuple[tuple[str, str], ...]
    ports: dict[tuple[str, str], frozenset[int]]


def find_broken_links(evidence: ClusterEvidence, one: str, other: str) -> BrokenLinks:
    """Return the directions between two nodes in which a connection failed."""
    ports = {}
    for source, target in ((one, other), (other, one)):
        shut = frozenset(
            r["port"]
            for r in evidence.records(source)
            if r["node"] == target and r["verdict"] != "open" and r["kind"] != "outside"
        )
        if shut:
            ports[(source, target)] = shut
    return BrokenLinks(tuple(ports), ports)


def list_odd_decisions(evidence: ClusterEvidence, name: str) -> list[PacketRoute]:
    """List unexpected routing decisions of a node's kernel."""
    return evidence.seen.nodes.get(name, {}).get("links", {}).get("ways", [])


def find_address_owner(evidence: ClusterEvidence, address: str) -> str:
    """Return the node with an address of the plan, or ""."""
    return next((n for n in evidence.nodes if evidence.address(n) == address), "")


def list_affected_links(
    evidence: ClusterEvidence, name: str, way: PacketRoute
) -> tuple[tuple[str, str], ...]:
    """Return the directions that a decision breaks: the node's requests, or its replies."""
    peer = find_address_owner(evidence, way["peer"])
    if not peer:
        return ()
    found = find_broken_links(evidence, name, peer)
    if way["direction"] == "out":
        return tuple(pair for pair in found.pairs if pair == (name, peer))
    if way["direction"] == "answer":
        return tuple(pair for pair in found.pairs if pair == (peer, name))
    return found.pairs


def list_detoured_links(
    evidence: ClusterEvidence, name: str, way: PacketRoute
) -> tuple[tuple[str, str], ...]:
    """Return the direction whose packets arrive although they leave over another interface than the cluster's.

    An address that no network is attached to (on a loopback or dummy interface, of full length) has no interface over
    which its packets must leave.
    """
    peer, interface = (
        find_address_owner(evidence, way["peer"]),
        evidence.get_cluster_interface(name),
    )
    held = evidence.find_nic(name, interface)
    if not peer or not held or way["error"] or way["mark"] or way["dev"] in ("", interface, "lo"):
        return ()
    own = [one for one in held["addresses"] if one.partition("/")[0] == evidence.address(name)]
    if interface.startswith(UNATTACHED) or not own or own[0].endswith(FULL_LENGTH):
        return ()
    return {"out": ((name, peer),), "answer": ((peer, name),)}.get(way["direction"], ())


def list_packet_marks(evidence: ClusterEvidence, name: str) -> set[int]:
    """Return the marks that a node's packet filter sets on packets."""
    found = set()
    for chain in evidence.ruleset(name)["chains"].values():
        for rule in chain["rules"]:
            for part in rule["expr"]:
                held = part.get("mangle")
                if isinstance(held, Mapping) and held.get("key") == {"meta": {"key": "mark"}}:
                    found |= {held["value"]} if isinstance(held.get("value"), int) else set()
    return found


def group_route_decisions(
    evidence: ClusterEvidence, name: str, wanted: bool
) -> dict[tuple[str, str], list[tuple[PacketRoute, tuple[tuple[str, str], ...]]]]:
    """Group the decisions that break or misroute a link by refusal or interface. *wanted*: those that refuse."""
    found: dict[tuple[str, str], list[tuple[PacketRoute, tuple[tuple[str, str], ...]]]] = {}
    odd = list_odd_decisions(evidence, name)
    marked = list_packet_marks(evidence, name) if odd else set()
    for way in odd:
        if way["mark"] and way["mark"] not in marked:
            continue  # no rule sets this mark
        if way["uid"] != ANYBODY or bool(way["error"]) != wanted:
            continue
        if way["direction"] == "in" and not (wanted and way["rule"]):
            continue  # rp_filter, which DG-141 reports
        pairs = list_affected_links(evidence, name, way) or list_detoured_links(evidence, name, way)
        if pairs:
            key = (way["error"], way["rule"]) if wanted else (way["dev"], way["via"])
            found.setdefault(key, []).append((way, pairs))
    return found


def has_working_links(evidence: ClusterEvidence, pairs: Iterable[tuple[str, str]]) -> bool:
    """Return whether all connections of these links work, only from a different address than the cluster's."""
    return all(
        r["verdict"] == "open"
        or (r["verdict"] == "wrong_source" and r["remark"].startswith("open"))
        for source, target in pairs
        for r in evidence.records(source)
        if r["node"] == target and r["kind"] != "outside"
    )


def has_account_rule(evidence: ClusterEvidence, name: str, table: str) -> bool:
    """Return whether a table of a node's packet filter checks a packet's owner (nft(8), skuid and skgid)."""
    texts = [
        json.dumps(rule["expr"])
        for (family, held, _), chain in evidence.ruleset(name)["chains"].items()
        if f"{family} {held}" == table
        for rule in chain["rules"]
    ]
    return any(f'"{key}"' in text for text in texts for key in ACCOUNTS)
