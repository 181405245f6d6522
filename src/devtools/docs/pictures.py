"""``python -m devtools.docs.pictures``: the drawings of the documentation, made from what is written here.

A card of its own colour lies behind each: a drawing does not know whether the page that shows it is light or dark.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from fullmesh.settings import PLAN_SETTINGS, ROOT

PICTURES = ROOT / "docs/pictures"
WIDTH, HEIGHT = 1056, 600
LINE = 18  # between two lines of a box
STYLE = """
text { font: 14px system-ui, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif; fill: #1b2430; }
.title { font-weight: 600; font-size: 15px; }
.small { font-size: 12.5px; fill: #465465; }
.box { fill: #ffffff; stroke: #9fb0c3; }
.part { fill: #eef4fb; stroke: #b9cbe0; }
.safe { fill: #fdf3e1; stroke: #e0bf83; }
.proof { fill: #e9f6ec; stroke: #9ccaa8; }
.arrow { stroke: #38587a; stroke-width: 1.6; fill: none; marker-end: url(#head); }
.link { stroke: #2f7d46; stroke-width: 2.2; fill: none; marker-end: url(#green); marker-start: url(#green); }
"""
HEADS = "".join(
    f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    f'orient="auto-start-reverse"><path d="M0 0 8 4 0 8z" fill="{colour}"/></marker>'
    for name, colour in (("head", "#38587a"), ("green", "#2f7d46"))
)


@dataclass(frozen=True)
class Box:
    """A part of the drawing: its place, its title, what is said in it."""

    x: int
    y: int
    width: int
    height: int
    title: str
    lines: Sequence[str] = ()
    kind: str = "box"

    def drawn(self) -> Iterator[str]:
        """Its elements."""
        place = f'x="{self.x}" y="{self.y}" width="{self.width}" height="{self.height}"'
        yield f'<rect class="{self.kind}" {place} rx="7"/>'
        yield text(self.x + 12, self.y + 23, self.title, "title")
        for number, line in enumerate(self.lines, 1):
            yield text(self.x + 12, self.y + 23 + number * LINE, line, "small")


def text(x: int, y: int, words: str, kind: str) -> str:
    """One line of text."""
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(words)}</text>'


def path(points: str, kind: str) -> str:
    """A line with its heads."""
    return f'<path class="{kind}" d="{points}"/>'


def node(x: int, name: str) -> Iterator[Box]:
    """A node with what it gets."""
    yield Box(x, 40, 264, 420, name)
    yield Box(x + 14, 76, 236, 92, "network", ARMED, "safe")
    yield Box(
        x + 14, 180, 236, 74, "firewall, on", ("exactly the plan's ports,", "to peers only"), "safe"
    )
    yield Box(x + 14, 266, 236, 54, "kernel", ("the same range of ports, pinned",), "part")
    yield Box(x + 14, 332, 236, 54, "torch, NCCL", ("one version, checked by hash",), "part")
    yield Box(x + 14, 398, 236, 54, "jobs", ("torchrun, Open MPI, Slurm …",), "part")


def architecture() -> str:
    """The parts and what goes between them."""
    first, second = 348, 776
    store, meeting = (
        PLAN_SETTINGS["fullmesh_master_port"],
        PLAN_SETTINGS["fullmesh_rendezvous_port"],
    )
    boxes = [
        Box(16, 40, 262, 420, "controller"),
        Box(30, 76, 234, 54, "inventory", ("machines and their addresses",), "part"),
        Box(30, 158, 234, 92, "cluster plan", PLANNED, "part"),
        Box(
            30, 278, 234, 74, "site.yml", ("changes the nodes that", "differ from the plan"), "part"
        ),
        Box(30, 378, 234, 74, "runs/<time>/", ("report.html, result.json,", "junit.xml"), "proof"),
        *node(first, "node 1"),
        *node(second, "node 2"),
        Box(348, 484, 692, 100, "verification", PROVED, "proof"),
    ]
    arrows = [
        path("M147 130V156", "arrow"),
        path("M147 250V276", "arrow"),
        path("M264 308H346", "arrow"),
        path("M312 308V20H908V38", "arrow"),
        path("M346 534H147V454", "arrow"),
        *(path(f"M602 {y}H786", "link") for y in (300, 425)),
    ]
    parts = [part for box in boxes for part in box.drawn()]
    words = [text(318, 302, "ssh", "small"), text(580, 16, "ssh", "small")]
    label = (f"store {store}", f"rendezvous {meeting}", "data range")
    words += [text(622, 252 + 17 * number, line, "small") for number, line in enumerate(label)]
    words.append(text(622, 416, "tensors of a job", "small"))
    body = "\n".join([*parts, *arrows, *words])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">\n'
        "<title>The controller derives one plan, configures the nodes, and proves that they work</title>\n"
        f"<style>{STYLE}</style>\n<defs>{HEADS}</defs>\n"
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="#f7f9fc"/>\n{body}\n</svg>\n'
    )


ARMED = (
    "address, names, clock; each",
    "change takes itself back unless",
    "we return and confirm it",
)
PLANNED = (
    "ranks, ports, names, peers,",
    "firewall, environment: derived",
    "once, all faults told at once",
)
PROVED = (
    "names, clocks, versions; every link in both directions; the store; Gloo's and NCCL's",
    "collectives with checked values; a training job.",
    "What is broken is named: node, direction, port, cause, and the command that fixes it.",
)
DRAWINGS = {"architecture.svg": architecture}


def main() -> int:
    """Write them all."""
    PICTURES.mkdir(exist_ok=True)
    for name, draw in DRAWINGS.items():
        (PICTURES / name).write_text(draw(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
