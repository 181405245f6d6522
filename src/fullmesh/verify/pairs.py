"""Evaluate check L2: every ordered pair of nodes, from the kernels' own results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any, cast

from fullmesh.observed.ladder import LinkResult, PeerKind
from fullmesh.result.findings import Finding, join_names
from fullmesh.result.types import LinkRow, PortRow, RdmaRow
from fullmesh.verify import mesh, schedule
from fullmesh.verify.blocked import (
    CODES_OF,
    OPEN,
    SAID,
    describe_drop_place,
    get_link_records,
    group_blocked_links,
    list_blocked_links,
    pick_worst_verdict,
    suggest_link_steps,
)
from fullmesh.verify.model import ClusterObservations
from fullmesh.verify.probe_wants import ONLY_MODE
from fullmesh.verify.rdma_tries import (
    find_swapped_cables,
    find_try_code,
    list_rdma_tries,
    map_rdma_rates,
    name_rail,
)


def build_link_rows(seen: ClusterObservations) -> list[LinkRow]:
    """Build one row for each ordered pair that was tested, or with many nodes for each deviating pair."""
    rows = []
    tried = index_rdma_rows(seen)
    for source in seen.plan["nodes"]:
        by_peer: dict[str, list[LinkResult]] = {}
        for record in get_link_records(seen, source):
            if record["kind"] != "outside":
                by_peer.setdefault(record["node"], []).append(record)
        for target, found in by_peer.items():
            verdict = pick_worst_verdict([record["verdict"] for record in found])
            good = [record for record in found if record["verdict"] == OPEN]
            row: LinkRow = {
                "from": source,
                "to": target,
                "verdict": verdict,
                "ms": round(median(r["ms"] for r in good), 3) if good else None,
                "rtt_ms": round(min(r["rtt_ms"] for r in good), 3) if good else None,
                "ports": [build_port_row(r) for r in found if r["verdict"] != OPEN],
            }
            add_link_rates(row, seen, found)
            if (source, target) in tried:
                row["rdma"] = tried[source, target]
            if mesh.needs_link_row(seen, row):
                rows.append(row)
        if len(seen.plan["nodes"]) > schedule.MANY and len(rows) >= mesh.ROWS_MOST:
            return rows[: mesh.ROWS_MOST]
    return rows


def build_port_row(record: LinkResult) -> PortRow:
    """Build the row of a planned port that is not open."""
    kind = cast("PeerKind", record["kind"])
    row: PortRow = {"port": record["port"], "kind": kind, "verdict": record["verdict"]}
    if errno := record.get("errno"):
        row["errno"] = errno
    if reached := record.get("reached"):
        row["reached"] = reached
    return row


def index_rdma_rows(seen: ClusterObservations) -> dict[tuple[str, str], list[RdmaRow]]:
    """Map ordered pairs of nodes to their pairs of RDMA devices that were tried, apart from spare ones."""
    found: dict[tuple[str, str], list[RdmaRow]] = {}
    tries = list_rdma_tries(seen)
    swapped, rates = find_swapped_cables(tries), map_rdma_rates(seen)
    for one in tries:
        if one.said["spare"]:
            continue
        end = next((e for e in (one.said["own"], one.said["peer"]) if e["step"]), None)
        row: RdmaRow = {
            "device": one.said["device"],
            "peer_device": one.said["peer_device"],
            "step": end["step"] if end else "",
            "error": end["error"] if end else "",
            "rail": name_rail(seen, one),
        }
        ends = (one.source, one.target, one.said["device"], one.said["peer_device"])
        if ends in rates:
            row["mbit_s"] = rates[ends]
        if code := find_try_code(one, swapped):
            row["code"] = code
        found.setdefault((one.source, one.target), []).append(row)
    for rows in found.values():
        rows.sort(key=lambda row: (row["device"], row["peer_device"]))
    return found


def add_link_rates(row: LinkRow, seen: ClusterObservations, found: Sequence[LinkResult]) -> None:
    """Add the share of lost segments and the rate, if they were measured."""
    sent = sum(record.get("segments", 0) for record in found)
    if sent:
        row["loss"] = round(sum(record.get("lost", 0) for record in found) / sent, 5)
    for rate in seen.nodes.get(row["from"], {}).get("links", {}).get("bandwidth", []):
        if rate["node"] == row["to"]:
            row["mbit_s"] = rate["mbit_s"]


def rule_open_links(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that every peer reaches every peer, on named ports and on ports that the kernel chose."""
    for group in group_blocked_links(list_blocked_links(seen)):
        block = group[0]
        sources = sorted({b.source for b in group})
        targets = sorted({b.target for b in group})
        direction = f"{join_names(sources)} -> {join_names(targets)}"
        remark = f" [{block.remark}]" if block.remark else ""
        act = block.culprit
        check, fix = suggest_link_steps(seen, block)
        others = sorted({*sources, *targets} - {act})
        yield Finding(
            CODES_OF[block.verdict],
            "L2",
            f"{direction} {SAID[block.verdict]}{describe_drop_place(block)}{remark}",
            node=act,
            peer=join_names(others),
            port=block.ports,
            direction=direction,
            seen=block.shown,
            expected=OPEN,
            check=check,
            fix=fix,
            pairs=tuple((b.source, b.target) for b in group),
            kinds=tuple(sorted({kind for b in group for kind in b.kinds})),
        )


def is_reached_from_outside(record: Mapping[str, Any]) -> bool:
    """Return whether the node itself answered: its listener's greeting, with the clock offset, was read.

    A connection alone proves nothing. The controller may have no route to the cluster's network, and a transparent
    proxy on its default route accepts connections to any address (seen in practice).
    """
    return record["verdict"] == OPEN and record["offset"] is not None


def describe_untested_guards(seen: ClusterObservations, why_not_outside: str) -> list[str]:
    """Describe the parts of the firewall that were not tested, with the reason."""
    notes = []
    if seen.mode != ONLY_MODE:
        notes.append(
            f"not tested that other ports are closed to peers: the firewall mode is {seen.mode}"
        )
    if seen.mode == "off":
        notes.append("not tested that other machines are blocked: the firewall mode is off")
    elif why_not_outside:
        notes.append(f"not tested that other machines are blocked: {why_not_outside}")
    for record in seen.outside.get("links", []):
        if record["verdict"] in (OPEN, "someone_else") and not is_reached_from_outside(record):
            notes.append(
                f"something else answered the controller at {record['address']}:{record['port']}"
                " (a proxy on the way?), so this says nothing about the node"
            )
    return notes
