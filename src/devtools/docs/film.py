"""A recording as a picture that moves: an SVG with a strip of screens, of which one is shown at a time.

No script is in it, so any page may show it; who asks for no motion sees the last screen. Waits are cut to ``LONGEST``,
and what still takes longer than ``WHOLE`` is shown as many times faster as it has to be, which its title says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby, pairwise

import pyte

from devtools.docs.cast import Cast

CELL, ROW = 8.0, 18  # of a font of 13.3 px
EDGE, BAR = 14, 30
LONGEST, SHORTEST = 1.2, 0.35  # seconds that a screen is shown
LAST = 8.0  # and the last one
WHOLE = 30.0  # seconds of the whole
TYPING = 0.035  # seconds a character
COLOURS = {
    "default": "#d7dde5",
    "black": "#6b7785",
    "red": "#ff7b72",
    "green": "#7ee787",
    "brown": "#e3b341",
    "blue": "#79c0ff",
    "magenta": "#d2a8ff",
    "cyan": "#76e3ea",
    "white": "#f0f6fc",
}
STYLE = (
    "text{{font:13.3px 'DejaVu Sans Mono',Menlo,Consolas,monospace;white-space:pre;fill:{default}}}"
    ".b{{font-weight:700}}"
    "#strip{{animation:play {seconds:.2f}s steps(1,end) infinite}}"
    "@media(prefers-reduced-motion:reduce){{#strip{{animation:none;transform:translateX({last}px)}}}}"
)


@dataclass(frozen=True)
class Screen:
    """What stands on the terminal from a time on: for each row its runs of text (column, style, words)."""

    at: float
    rows: tuple[tuple[tuple[int, str, str], ...], ...]


def look(screen: pyte.Screen, at: float) -> Screen:
    """A terminal at this moment."""
    rows = []
    for number in range(screen.lines):
        line, runs = screen.buffer[number], []
        cells = [(column, line[column]) for column in range(screen.columns)]
        for style, group in groupby(cells, key=lambda cell: style_of(cell[1])):
            members = list(group)
            words = "".join(cell.data for _, cell in members)
            if words.strip():
                runs.append((members[0][0], style, words.rstrip()))
        rows.append(tuple(runs))
    return Screen(at, tuple(rows))


def style_of(cell: pyte.screens.Char) -> str:
    """How a character looks, as attributes of SVG."""
    colour = COLOURS.get(cell.fg.removeprefix("bright"), f"#{cell.fg}")
    words = "" if cell.fg == "default" else f' fill="{colour}"'
    return words + (' class="b"' if cell.bold else "")


def faster(cast: Cast) -> float:
    """How many times faster than it was a recording is shown."""
    times = [0.0, *(at for at, _ in cast.events)]
    return max(1.0, sum(min(b - a, LONGEST) for a, b in pairwise(times)) / WHOLE)


def screens(cast: Cast, height: int) -> list[Screen]:
    """The screens of a recording, the command's typing first, in the times of the film."""
    speed = faster(cast)
    terminal = pyte.Screen(cast.width, height)
    stream = pyte.Stream(terminal)
    prompt = "\x1b[1;32m$\x1b[0m "
    stream.feed(prompt)
    found = [look(terminal, 0.0)]
    at = 0.6
    for letter in cast.typed:
        stream.feed(letter)
        at += TYPING
        found.append(look(terminal, at))
    stream.feed("\r\n")
    at, before = at + 0.4, 0.0
    for when, text in cast.events:
        stream.feed(text)
        at += min(when - before, LONGEST) / speed
        before = when
        found.append(look(terminal, at))
    return thinned(found)


def thinned(found: Sequence[Screen]) -> list[Screen]:
    """Without screens that are the same as the one before, or that are shown for too short to be read."""
    kept: list[Screen] = []
    for screen in found:
        if kept and screen.rows == kept[-1].rows:
            continue
        while len(kept) > 1 and screen.at - kept[-1].at < SHORTEST and kept[-1].at > kept[0].at:
            # the later one of a quick pair stays, at the time of the earlier one
            screen = Screen(kept.pop().at, screen.rows)  # noqa: PLW2901 (the time is all that changes)
            break
        kept.append(screen)
    return kept


def svg(cast: Cast, height: int) -> str:
    """The film."""
    shown = screens(cast, height)
    wide, high = round(cast.width * CELL) + 2 * EDGE, height * ROW + BAR + 2 * EDGE
    total = shown[-1].at + LAST
    rows: dict[tuple[tuple[int, str, str], ...], str] = {}
    frames, steps = [], []
    for number, screen in enumerate(shown):
        used = []
        for place, row in enumerate(screen.rows):
            if row:
                name = rows.setdefault(row, f"r{len(rows)}")
                used.append(f'<use href="#{name}" y="{place * ROW}"/>')
        frames.append(f'<g transform="translate({number * wide})">{"".join(used)}</g>')
        steps.append(f"{screen.at / total:.4%}{{transform:translateX({-number * wide}px)}}")
    last = -(len(shown) - 1) * wide
    steps.append(f"to{{transform:translateX({last}px)}}")
    drawn = "".join(f'<g id="{name}">{"".join(map(run, row))}</g>\n' for row, name in rows.items())
    style = STYLE.format(default=COLOURS["default"], seconds=total, last=last)
    speed = faster(cast)
    said = f", shown {speed:.0f} times faster" if speed > 1 else ""
    title = escape(f"{cast.typed} on a terminal: {cast.seconds:.0f} seconds{said}")
    dots = "".join(f'<circle cx="{20 + 16 * n}" cy="16" r="5" fill="#3d4653"/>' for n in range(3))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" role="img">\n<title>{title}</title>\n'
        f"<style>{style}@keyframes play{{{''.join(steps)}}}</style>\n<defs>\n{drawn}</defs>\n"
        f'<rect width="{wide}" height="{high}" rx="9" fill="#12181f"/>{dots}\n'
        f'<svg x="{EDGE}" y="{BAR}" width="{wide - 2 * EDGE}" height="{high - BAR}"><g id="strip">\n'
        + "\n".join(frames)
        + "\n</g></svg>\n</svg>\n"
    )


def run(one: tuple[int, str, str]) -> str:
    """A run of text at its place; its width is set, so that another font does not move what follows."""
    column, style, words = one
    bare = len(words) - len(words.lstrip())
    column, words = column + bare, words.lstrip()
    length = f' textLength="{len(words) * CELL:.0f}" lengthAdjust="spacingAndGlyphs"'
    return f'<text x="{column * CELL:.0f}" y="{ROW - 5}"{length}{style}>{escape(words)}</text>'


def text(cast: Cast) -> str:
    """What stands on the terminal at the end, as text."""
    terminal = pyte.Screen(cast.width, cast.height)
    stream = pyte.Stream(terminal)
    for _, words in cast.events:
        stream.feed(words)
    return "\n".join(line.rstrip() for line in terminal.display).strip("\n")
