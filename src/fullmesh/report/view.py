"""Compute the content of report.html from a result. The template only prints it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from fullmesh.report import blocks, model
from fullmesh.report.model import (
    OPEN,
    UNKNOWN,
    format_figure,
    get_link_rate,
    get_link_state,
    get_plan_nodes,
)
from fullmesh.result.types import (
    CheckId,
    CheckRow,
    Inner,
    LinkRow,
    MeshSummary,
    NodeSummary,
    Result,
)

MOST_BROKEN = 400  # links listed one by one
MOST_SLOW = 10
MOST_NAMES = 12
STATUS = {
    "passed": ("✓", "passed", "ok"),
    "failed": ("✕", "failed", "bad"),
    "skipped": ("○", "skipped", "mild"),
    "not_run": ("-", "not run", "mild"),
}
Property = Literal["os", "kernel", "python", "torch", "torch_nccl", "nccl"]
VERSIONS: tuple[tuple[Property, str], ...] = (
    ("os", "operating system"),
    ("kernel", "kernel"),
    ("python", "Python"),
    ("torch", "torch"),
    ("torch_nccl", "torch's own NCCL"),
    ("nccl", "system's NCCL"),
)
FACTS = (
    ("software", "torch_cuda", "torch's CUDA"),
    ("software", "driver_cuda", "GPU driver's CUDA"),
    ("software", "glibc", "glibc"),
    ("software", "nic_driver", "NIC driver"),
    ("software", "locale", "locale"),
    ("software", "time_zone", "time zone"),
    ("interface", "mtu", "MTU"),
    ("interface", "speed", "link speed, Mbit/s"),
    ("sysctls", "port_range", "data ports in force"),
    ("sysctls", "somaxconn", "somaxconn"),
    ("limits", "nofile", "open files"),
    ("limits", "memlock", "locked memory"),
)


LABELS = tuple(row[-1] for row in (*VERSIONS, *FACTS))


class ShownCheck(CheckRow):
    """A check, with its symbol, its word, its CSS class and its share of the time in percent."""

    letter: str
    word: str
    kind: str
    width: float


@dataclass(frozen=True)
class MatrixCell:
    """One link in the table."""

    kind: str
    letter: str
    word: str
    lines: Sequence[str]


@dataclass(frozen=True)
class NodeRow:
    """The summary of one node's links."""

    name: str
    address: str
    out: str
    into: str
    worst: str
    median_rtt: str
    worst_rtt: str
    trouble: int


@dataclass(frozen=True)
class PropertyRow:
    """One property over all nodes."""

    label: str
    common: str
    others: Sequence[tuple[str, str]]
    values: Sequence[tuple[str, bool]]

    @property
    def drifts(self) -> bool:
        """Return whether nodes differ."""
        return bool(self.others)


def build_matrix_cell(link: LinkRow | None) -> MatrixCell:
    """Build the table cell of one link."""
    if link is None:
        return MatrixCell(UNKNOWN, "?", "not tried", [])
    state = get_link_state(link["verdict"])
    if state.word != OPEN:
        word = link["verdict"].replace("_", " ")
        ports = [str(port["port"]) for port in link["ports"]]
        more = f" +{len(ports) - 3}" if len(ports) > 3 else ""  # noqa: PLR2004 (the room in a cell)
        return MatrixCell(
            state.word, state.letter, word, [", ".join(ports[:3]) + more] if ports else []
        )
    lines = [format_figure(link["rtt_ms"], "ms"), format_figure(get_link_rate(link), "Gbit/s")]
    if link.get("loss"):
        lines.append(f"{100 * link['loss']:.2g} % sent again")
    return MatrixCell(OPEN, state.letter, "open", [line for line in lines if line])


def build_matrix_rows(result: Result) -> list[tuple[str, list[MatrixCell | None]]]:
    """Build the matrix as rows of cells, with None on the diagonal."""
    links, nodes = model.index_links(result), get_plan_nodes(result)
    return [
        (
            source,
            [None if source == to else build_matrix_cell(links.get((source, to))) for to in nodes],
        )
        for source in nodes
    ]


def _describe_share(held: Sequence[LinkRow], wanted: int) -> str:
    good = sum(link["verdict"] == OPEN for link in held)
    return f"{good} of {wanted}"


def build_node_rows(result: Result) -> list[NodeRow]:
    """Build the matrix by node, with the problems first."""
    nodes = get_plan_nodes(result)
    if mesh := blocks.get_block_mesh(result):
        return build_mesh_rows(result, mesh)
    out: dict[str, list[LinkRow]] = {name: [] for name in nodes}
    into: dict[str, list[LinkRow]] = {name: [] for name in nodes}
    for link in result["links"]:
        out.setdefault(link["from"], []).append(link)
        into.setdefault(link["to"], []).append(link)
    found = [_build_node_row(result, name, out[name], into[name], len(nodes) - 1) for name in nodes]
    return sorted(found, key=lambda row: -row.trouble)


def build_mesh_rows(result: Result, mesh: MeshSummary) -> list[NodeRow]:
    """Build the rows for many nodes: those with problems, and the slowest."""
    into: dict[str, Counter[str]] = {}
    for link in result["links"]:
        if link["verdict"] != OPEN:
            into.setdefault(link["to"], Counter())[link["verdict"]] += 1
            into.setdefault(link["from"], Counter())[link["verdict"]] += 1
    troubled = sorted(into, key=lambda name: -into[name].total())
    rows = []
    for name in blocks.select_listed_nodes(mesh, troubled):
        held = mesh.get("by_node", {}).get(name)
        if held is None:
            continue
        bad = into.get(name, Counter())
        words = ", ".join(f"{w.replace('_', ' ')} ({n})" for w, n in bad.most_common())
        came = sum(link["to"] == name and link["verdict"] != OPEN for link in result["links"])
        longest = held["rtt_us"] / 1000
        rows.append(
            NodeRow(
                name=name,
                address=result["nodes"][name]["address"] if name in result["nodes"] else "",
                out=f"{held['open']} of {held['peers']}",
                into=f"all but {came}" if came else "all that tried",
                worst=words,
                median_rtt="",
                worst_rtt=format_figure(longest, "ms") if longest else "",
                trouble=bad.total(),
            )
        )
    return rows


def _build_node_row(
    result: Result,
    name: str,
    out: Sequence[LinkRow],
    into: Sequence[LinkRow],
    wanted: int,
) -> NodeRow:
    trouble = Counter(x["verdict"] for x in (*out, *into) if x["verdict"] != OPEN)
    words = ", ".join(f"{w.replace('_', ' ')} ({n})" for w, n in trouble.most_common())
    rtts = [link["rtt_ms"] for link in (*out, *into) if link["rtt_ms"] is not None]
    return NodeRow(
        name=name,
        address=result["nodes"][name]["address"] if name in result["nodes"] else "",
        out=_describe_share(out, wanted),
        into=_describe_share(into, wanted),
        worst=words,
        median_rtt=format_figure(median(rtts), "ms") if rtts else "",
        worst_rtt=format_figure(max(rtts), "ms") if rtts else "",
        trouble=2 * wanted - sum(x["verdict"] == OPEN for x in (*out, *into)),
    )


def list_broken_links(result: Result) -> list[LinkRow]:
    """List the links that are not open, worst first."""
    order = {word: index for index, word in enumerate(model.WORST)}
    found = [link for link in result["links"] if link["verdict"] != OPEN]
    return sorted(found, key=lambda link: order.get(link["verdict"], len(order)))


def list_slow_links(result: Result) -> list[LinkRow]:
    """List the open links with the longest round trips."""
    found = [link for link in result["links"] if link["rtt_ms"] is not None]
    return sorted(found, key=lambda link: -(link["rtt_ms"] or 0.0))[:MOST_SLOW]


def list_properties(node: NodeSummary) -> dict[str, str]:
    """List the properties of a node to compare: its versions and observed settings, as text, by label."""
    found: dict[str, object] = {label: node[key] for key, label in VERSIONS}
    for group, key, label in FACTS:
        found[label] = (node["facts"].get(group) or {}).get(key)
    return {k: "" if held is None else " ".join(str(held).split()) for k, held in found.items()}


def compare_versions(result: Result) -> list[PropertyRow]:
    """Compare each property that at least one node has: the most common value, and the nodes that differ."""
    found = []
    held_by = {name: list_properties(node) for name, node in result["nodes"].items()}
    for label in LABELS:
        values = {name: held[label] for name, held in held_by.items()}
        if not any(values.values()):
            continue
        common = Counter(values.values()).most_common(1)[0][0]
        by_value: dict[str, list[str]] = {}
        for node, value in values.items():
            if value != common:
                by_value.setdefault(value, []).append(node)
        others = [(value or "none", join_node_names(held)) for value, held in by_value.items()]
        cells = [(value or "none", value != common) for value in values.values()]
        found.append(PropertyRow(label, common or "none", others, cells))
    return found


def select_differing_nodes(result: Result) -> list[tuple[int, str]]:
    """Select the nodes for the list, with their positions: all or, of many nodes, those that differ."""
    every = list(enumerate(result["nodes"]))
    if not blocks.get_block_mesh(result):
        return every
    held = compare_versions(result)
    odd = [(row, name) for row, name in every if any(one.values[row][1] for one in held)]
    return odd[: blocks.MOST_NODES]


def join_node_names(held: Sequence[str]) -> str:
    """Join the first node names and count the rest."""
    shown = ", ".join(held[:MOST_NAMES])
    return shown if len(held) <= MOST_NAMES else f"{shown} and {len(held) - MOST_NAMES} more"


def build_shown_checks(result: Result) -> list[ShownCheck]:
    """Build the checks with symbols and their share of the time."""
    longest = max([check["seconds"] for check in result["rungs"]] or [0.0]) or 1.0
    found: list[ShownCheck] = []
    for check in result["rungs"]:
        letter, word, kind = STATUS[check["status"]]
        width = max(1.0, 100 * check["seconds"] / longest)
        found.append(
            {**check, "letter": letter, "word": word, "kind": kind, "width": round(width, 1)}
        )
    return found


def describe_measured(result: Result) -> list[str]:
    """Describe the measurements of this run in sentences."""
    lines = []
    size = len(get_plan_nodes(result))
    good, tried, pairs = blocks.count_links(result)
    held = sum(1 for node in result["nodes"].values() if node["facts"])
    if held:
        lines.append(
            f"{held} of {size} nodes were surveyed: addresses, names, clocks, versions, limits."
        )
    if tried:
        connections = _get_detail(result, "L2", "connections")
        more = f", {connections} connections" if connections else ""
        lines.append(f"{tried} of {pairs} directed links were tested, {good} are open{more}.")
    outside = _get_detail(result, "L2", "outsider") or []
    if outside:
        words = Counter(str(one.get("verdict", "?")) for one in outside)
        said = ", ".join(f"{word} ({count})" for word, count in words.items())
        lines.append(f"{len(outside)} ports were tested from outside the cluster: {said}.")
    ranks = _get_detail(result, "L3", "ranks") or []
    if ranks:
        done = sum(rank.get("step") == "done" for rank in ranks)
        lines.append(f"A real Gloo job ran: {done} of {len(ranks)} ranks completed it.")
    return lines


def _get_detail(result: Result, check: CheckId, key: str) -> Any:
    for held in result["rungs"]:
        if held["id"] == check:
            return held["details"].get(key)
    return None


def list_failed_logs(result: Result) -> list[Inner]:
    """Return the ends of the logs of ranks that did not complete the job."""
    ranks = _get_detail(result, "L3", "ranks") or []
    return [rank for rank in ranks if rank.get("log") and rank.get("step") != "done"]
