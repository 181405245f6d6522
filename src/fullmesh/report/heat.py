"""Draw the N x N matrix as an SVG, with one path per state or level, so that 200 x 200 links are a few paths."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

LEVELS = 7
GUTTER = 14  # characters of a node's name next to the rows
MOST_LABELS = 24
Key = Callable[[int, int], str]


@dataclass(frozen=True)
class HeatLayer:
    """All cells of one kind.

    Attributes:
        kind: the CSS class.
        says: for the legend.
        path: SVG path data, in cells.
        cells: the number of cells.
        letter: for the legend.
    """

    kind: str
    says: str
    path: str
    cells: int
    letter: str = ""


@dataclass(frozen=True)
class HeatLabel:
    """The name of a row or column."""

    at: float
    text: str


@dataclass(frozen=True)
class Heatmap:
    """A picture of the matrix.

    Attributes:
        name: state, latency or bandwidth.
        title: the heading.
        size: cells on a side.
        gutter: cells left and above for the names.
        layers: the layers to draw.
        labels: names next to rows and above columns.
        of: the meaning of a cell.
    """

    name: str
    title: str
    size: int
    gutter: float
    font: float
    layers: Sequence[HeatLayer]
    labels: Sequence[HeatLabel] = field(default_factory=tuple)
    of: str = "links"


def find_cell_runs(size: int, key: Key) -> dict[str, list[tuple[int, int, int]]]:
    """Find neighboring cells of a row with the same key, as (row, first column, length)."""
    found: dict[str, list[tuple[int, int, int]]] = {}
    for row in range(size):
        start = 0
        current = key(row, 0)
        for column in range(1, size + 1):
            now = key(row, column) if column < size else ""
            if column == size or now != current:
                found.setdefault(current, []).append((row, start, column - start))
                start, current = column, now
    return found


def format_svg_path(cells: Sequence[tuple[int, int, int]]) -> str:
    """Format rectangles of one cell's height as path data."""
    return "".join(f"M{column} {row}h{length}v1h-{length}z" for row, column, length in cells)


def shorten_node_names(nodes: Sequence[str]) -> list[str]:
    """Shorten names to fit next to the rows: drop a common domain, and keep the end of long names."""
    if all(len(name) <= GUTTER for name in nodes):
        return list(nodes)
    domains = {name.partition(".")[2] for name in nodes}
    if len(domains) == 1 and not any(name.replace(".", "").isdecimal() for name in nodes):
        nodes = [name.partition(".")[0] for name in nodes]
    return [name if len(name) <= GUTTER else f"…{name[1 - GUTTER :]}" for name in nodes]


def make_heat_labels(nodes: Sequence[str]) -> list[HeatLabel]:
    """Make labels for the rows, as many as are readable."""
    step = max(1, math.ceil(len(nodes) / MOST_LABELS))
    return [
        HeatLabel(index + 0.5, name)
        for index, name in enumerate(shorten_node_names(nodes))
        if index % step == 0
    ]


def compute_level_bounds(values: Sequence[float], high_is_bad: bool) -> list[float]:
    """Compute the upper bounds of the levels. They are logarithmic, so that factors of 2 and 10 both show.

    The best and the worst level differ by at least a factor of 2, because noise would otherwise look like a fault.
    """
    low, high = max(min(values), 1e-6), max(*values, 1e-6)
    if high_is_bad:
        high = max(high, 2 * low)
    else:
        low = min(low, high / 2)
    step = (high / low) ** (1 / LEVELS)
    return [low * step ** (level + 1) for level in range(LEVELS - 1)] + [high]


def find_level(value: float, upper: Sequence[float]) -> int:
    """Return the first level that contains a value."""
    return next((i for i, bound in enumerate(upper) if value <= bound), len(upper) - 1)


def draw_heatmap(
    name: str, title: str, nodes: Sequence[str], key: Key, legend: dict[str, tuple[str, str]]
) -> Heatmap:
    """Draw a matrix.

    Args:
        name: state, latency or bandwidth.
        title: the heading.
        nodes: in the order of rows and columns.
        key: the kind of the cell (row, column).
        legend: kind -> (letter, sentence), in the order of drawing.
    """
    found = find_cell_runs(len(nodes), key)
    layers = [
        HeatLayer(
            kind, says, format_svg_path(found[kind]), sum(cells[2] for cells in found[kind]), letter
        )
        for kind, (letter, says) in legend.items()
        if kind in found
    ]
    size = len(nodes)
    font = max(1.0, size / MOST_LABELS) * 0.72
    return Heatmap(
        name, title, size, font * 0.62 * GUTTER + 0.4, font, layers, make_heat_labels(nodes)
    )
