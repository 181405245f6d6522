"""Evaluate check L2: every ordered pair of nodes, from the kernels' own results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any, cast

from fullmesh.observed.ladder import SLOW, LinkResult, PeerKind
from fullmesh.result.findings import WARNING, Finding, join_names
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
    swapped = find_swapped_cables(tries)
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


def rule_late_answers(seen: ClusterObservations) -> Iterator[Finding]:
    """Report open links that are slow, and those whose listener answered late because its machine is busy."""
    yield from find_slow_links(seen)
    for source in seen.plan["nodes"]:
        slow = sorted(
            {
                r["node"]
                for r in get_link_records(seen, source)
                if r["verdict"] == OPEN and r["remark"] and not r["remark"].startswith(SLOW)
            }
        )
        if slow:
            yield Finding(
                "VC-209",
                "L2",
                f"{join_names(slow)} accepted the connections of {source} but answered late. The links are open",
                node=slow[0],
                peer=source,
                direction=f"{source} -> {join_names(slow)}",
                seen="no complete answer in time",
                expected="an answer",
                check=f"on {slow[0]}: uptime",
                fix="run the verification again when the node is less busy",
                severity=WARNING,
                pairs=tuple((source, peer) for peer in slow),
            )


def find_slow_links(seen: ClusterObservations) -> Iterator[Finding]:
    """Report links that pass large packets, but so slowly that a job would hang."""
    for source in seen.plan["nodes"]:
        slow: dict[str, str] = {}
        for r in get_link_records(seen, source):
            if r["verdict"] == OPEN and r["remark"].startswith(SLOW):
                slow.setdefault(r["node"], r["remark"])
        for peer, remark in slow.items():
            yield Finding(
                "VC-209",
                "L2",
                f"{source} -> {peer}: {remark}",
                node=source,
                peer=peer,
                direction=f"{source} -> {peer}",
                seen=remark,
                expected="64 KiB there and back at once",
                check=f"on both: tc qdisc show; ethtool {seen.plan['nodes'][source]['interface'] or 'INTERFACE'}",
                fix="remove the limit on the nodes, the switch or the hypervisor",
                pairs=((source, peer),),
            )


def rule_sample_ports(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the kernel assigns ports inside the range to listeners that did not request one."""
    data = seen.plan["data_ports"]
    for name in seen.plan["nodes"]:
        ports = seen.nodes.get(name, {}).get("node", {}).get("ports", [])
        given = [p["port"] for p in ports if p["kind"] == "sample" and not p["error"]]
        out = [port for port in given if not data["first"] <= port <= data["last"]]
        if out:
            yield Finding(
                "VC-212",
                "L2",
                f"a listener on {name} got a port outside the data range",
                node=name,
                port=", ".join(map(str, out)),
                seen=", ".join(map(str, out)),
                expected=str(data["firewalld"]),
                fix=seen.apply("tuning"),
            )


def rule_outside_port(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that peers cannot reach ports outside the plan."""
    if seen.mode != ONLY_MODE:
        return
    for source in seen.plan["nodes"]:
        for record in get_link_records(seen, source):
            if record["kind"] == "outside" and record["verdict"] == OPEN:
                yield Finding(
                    "VC-210",
                    "L2",
                    f"{source} reaches {record['node']} on a port that the plan does not open",
                    node=record["node"],
                    peer=source,
                    port=f"{record['port']}/tcp",
                    direction=f"{source} -> {record['node']}",
                    seen=OPEN,
                    expected="shut",
                    check=f"on {record['node']}: firewall-cmd --list-all-zones",
                    fix=seen.apply("firewall"),
                )


def is_reached_from_outside(record: Mapping[str, Any]) -> bool:
    """Return whether the node itself answered: its listener's greeting, with the clock offset, was read.

    A connection alone proves nothing. The controller may have no route to the cluster's network, and a transparent
    proxy on its default route accepts connections to any address (seen in practice).
    """
    return record["verdict"] == OPEN and record["offset"] is not None


def rule_outsider_access(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that machines other than peers cannot reach the named ports."""
    if seen.mode == "off":
        return
    reached: dict[str, list[Mapping[str, Any]]] = {}
    for record in seen.outside.get("links", []):
        if is_reached_from_outside(record):
            reached.setdefault(record["node"], []).append(record)
    for name, found in reached.items():
        ports = ", ".join(f"{port}/tcp" for port in sorted({r["port"] for r in found}))
        yield Finding(
            "VC-211",
            "L2",
            f"the controller, which is not a peer, reaches {ports} on {name}",
            node=name,
            peer="controller",
            port=ports,
            direction=f"controller -> {name}",
            seen=", ".join(f"{r['address']}:{r['port']} open" for r in found),
            expected="open to peers only",
            check=f"on {name}: firewall-cmd --get-active-zones",
            fix=seen.apply("firewall"),
        )


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


RULES = (
    rule_open_links,
    rule_late_answers,
    rule_sample_ports,
    rule_outside_port,
    rule_outsider_access,
)


def check_links(seen: ClusterObservations) -> list[Finding]:
    """Return all findings of this check."""
    return [finding for rule in RULES for finding in rule(seen)]
