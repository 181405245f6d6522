"""Draw a matrix that is too wide for a table, with the data that the pointer shows for each cell. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict

from fullmesh.report import blocks, model
from fullmesh.report.heat import (
    Heatmap,
    compute_level_bounds,
    draw_heatmap,
    find_level,
    make_heat_labels,
)
from fullmesh.report.model import (
    OPEN,
    SELF,
    UNKNOWN,
    format_figure,
    get_link_rate,
    get_link_state,
    get_plan_nodes,
)
from fullmesh.result.types import LinkRow, MeshSummary, Result

TABLE_NODES = 8  # up to this number, the matrix is a table with its values


class MatrixData(TypedDict, total=False):
    """The data of links for the page's script: rows of numbers, kept short because there may be 40,000."""

    nodes: list[str]
    words: list[str]
    rows: list[list[Any]]


def round_figure(value: float | None) -> float | None:
    """Round a value to four digits for the page's data."""
    return None if value is None else float(f"{value:.4g}")


def draw_state_heatmap(nodes: Sequence[str], links: Mapping[tuple[str, str], LinkRow]) -> Heatmap:
    """Draw the matrix by state."""

    def kind(row: int, column: int) -> str:
        if row == column:
            return SELF
        link = links.get((nodes[row], nodes[column]))
        return UNKNOWN if link is None else get_link_state(link["verdict"]).word

    legend = {state.word: (state.letter, state.says) for state in model.STATES.values()}
    return draw_heatmap("state", "State", nodes, kind, legend)


@dataclass(frozen=True)
class HeatScale:
    """The scale of a picture of values."""

    name: str
    title: str
    unit: str
    high_is_bad: bool

    def kind(self, level: int, last: int) -> str:
        """Return the CSS class of a level: the darkest is the worst."""
        return f"l{level if self.high_is_bad else last - level}"


LATENCY = HeatScale("latency", "Round trip", "ms", high_is_bad=True)
BANDWIDTH = HeatScale("bandwidth", "Bandwidth", "Gbit/s", high_is_bad=False)


def draw_level_heatmap(
    scale: HeatScale,
    nodes: Sequence[str],
    values: Mapping[tuple[str, str], float],
    *,
    whole: bool = False,
) -> Heatmap | None:
    """Draw the matrix by a value, or return None if there is none. *whole*: the diagonal has values too."""
    if not values:
        return None
    upper = compute_level_bounds(list(values.values()), scale.high_is_bad)
    last = len(upper) - 1

    def kind(row: int, column: int) -> str:
        value = values.get((nodes[row], nodes[column]))
        if row == column and not whole:
            return SELF
        if value is None:
            return "none"
        return scale.kind(find_level(value, upper), last)

    legend: dict[str, tuple[str, str]] = {}
    for level, bound in enumerate(upper):
        legend[scale.kind(level, last)] = ("", f"up to {format_figure(bound, scale.unit)}")
    legend["none"] = ("?", "no value (not open, or not sampled)")
    return draw_heatmap(scale.name, scale.title, nodes, kind, legend)


def draw_heatmaps(result: Result) -> list[Heatmap]:
    """Draw the pictures of a matrix that is too wide for a table."""
    nodes, links = get_plan_nodes(result), model.index_links(result)
    if mesh := blocks.get_block_mesh(result):
        return draw_block_heatmaps(result, nodes, mesh)
    if not links or len(nodes) <= TABLE_NODES:
        return []
    good = {pair: link for pair, link in links.items() if link["verdict"] == OPEN}
    rtt = {p: link["rtt_ms"] for p, link in good.items() if link["rtt_ms"] is not None}
    rates = {
        pair: value for pair, link in good.items() if (value := get_link_rate(link)) is not None
    }
    drawn = [
        draw_state_heatmap(nodes, links),
        draw_level_heatmap(LATENCY, nodes, rtt),
        draw_level_heatmap(BANDWIDTH, nodes, rates),
    ]
    return [one for one in drawn if one is not None]


def draw_block_heatmaps(result: Result, nodes: Sequence[str], mesh: MeshSummary) -> list[Heatmap]:
    """Draw the pictures for many nodes. A cell is a block of links, shown by its worst link."""
    figures = mesh.get("rtt_us", [])
    names = blocks.label_blocks(nodes, len(figures))
    trouble = blocks.count_block_verdicts(result, nodes, len(figures))
    alone = blocks.find_single_node_blocks(nodes, len(figures))

    def kind(row: int, column: int) -> str:
        held = trouble.get((row, column))
        if held:
            return get_link_state(blocks.pick_block_verdict(held)).word
        if row == column and row in alone:
            return SELF
        return OPEN if figures[row][column] else UNKNOWN

    legend = {state.word: (state.letter, state.says) for state in model.STATES.values()}
    values = {
        (names[row], names[column]): value / 1000
        for row, held in enumerate(figures)
        for column, value in enumerate(held)
        if value
    }
    most = blocks.find_largest_block(nodes, figures)
    drawn = [
        draw_heatmap("state", f"State, in blocks of {most} nodes", names, kind, legend),
        draw_level_heatmap(LATENCY, names, values, whole=True),
    ]
    # a row only has room for one name. The pointer shows both ends of a block.
    marks = make_heat_labels(blocks.list_first_nodes(nodes, len(figures)))
    return [
        replace(one, labels=marks, of="blocks of links" if most > 1 else "links")
        for one in drawn
        if one is not None
    ]


def build_block_data(result: Result, nodes: Sequence[str], mesh: MeshSummary) -> MatrixData:
    """Build the data of every block of links."""
    figures = mesh.get("rtt_us", [])
    names = blocks.label_blocks(nodes, len(figures))
    trouble, alone = (
        blocks.count_block_verdicts(result, nodes, len(figures)),
        blocks.find_single_node_blocks(nodes, len(figures)),
    )
    said = ["not tried", OPEN]
    rows: list[list[Any]] = []
    for row, held in enumerate(figures):
        cells: list[Any] = []
        for column, value in enumerate(held):
            bad = trouble.get((row, column), {})
            text = ", ".join(f"{w.replace('_', ' ')} ({n})" for w, n in bad.items())
            if row == column and row in alone:
                cells.append(None)
                continue
            word = text or (OPEN if value else "not tried")
            if word not in said:
                said.append(word)
            cells.append([said.index(word), round_figure(value / 1000) if value else None])
        rows.append(cells)
    return {"nodes": names, "words": said, "rows": rows}


def build_matrix_data(result: Result) -> MatrixData:
    """Build short data of every link for pointer and keyboard, or {} for a table."""
    nodes, links = get_plan_nodes(result), model.index_links(result)
    if mesh := blocks.get_block_mesh(result):
        return build_block_data(result, nodes, mesh)
    if not links or len(nodes) <= TABLE_NODES:
        return {}
    words: list[str] = ["not tried"]
    rows: list[list[Any]] = []
    for source in nodes:
        row: list[Any] = []
        for target in nodes:
            link = links.get((source, target))
            word = "not tried" if link is None else link["verdict"].replace("_", " ")
            if word not in words:
                words.append(word)
            held: list[Any] = [words.index(word)]
            if link is not None:
                held += [
                    round_figure(x)
                    for x in (link["rtt_ms"], link["ms"], get_link_rate(link), link.get("loss"))
                ]
                held += [[port["port"] for port in link["ports"][:8]]] if link["ports"] else []
            row.append(held if source != target else 0)
        rows.append(row)
    return {"nodes": nodes, "words": words, "rows": rows}
