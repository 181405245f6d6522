"""Rates of all pairs: the order of the measurements, and the cause of slow pairs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

Way = tuple[str, str]  # who sends, who receives
Kind = Literal["all", "node", "out", "in", "link"]
# Of a node that is slow one way the other way is slow as well: acknowledgements wait behind the data.
ONE_WAY = 0.5


def schedule_rate_rounds(names: Sequence[str]) -> list[list[Way]]:
    """List every pair once, in rounds without a node in two pairs: N-1 rounds, N if N is odd (circle method)."""
    if len(names) < 2:  # noqa: PLR2004 (a pair)
        return []
    circle: list[str | None] = [*names, *([None] if len(names) % 2 else [])]
    found = []
    for _ in range(len(circle) - 1):
        half = len(circle) // 2
        facing = zip(circle[:half], reversed(circle[half:]), strict=True)
        found.append([(a, b) for a, b in facing if a is not None and b is not None])
        circle.insert(1, circle.pop())
    return found


@dataclass(frozen=True)
class SlowCulprit:
    """The part that makes transfers slow: all nodes, one node (sending, receiving or both), or one link."""

    kind: Kind
    node: str
    ways: tuple[Way, ...]


def list_node_suspects(measured: Iterable[Way]) -> Iterator[tuple[Kind, str, frozenset[Way]]]:
    """List each node and direction with the ways that it would slow down. One peer alone proves nothing."""
    every = list(measured)
    for node in sorted({end for way in every for end in way}):
        out = frozenset(way for way in every if way[0] == node)
        back = frozenset(way for way in every if way[1] == node)
        kinds: tuple[tuple[Kind, frozenset[Way]], ...] = (
            ("node", out | back),
            ("out", out),
            ("in", back),
        )
        for kind, ways in kinds:
            if len({end for way in ways for end in way}) > 2:  # noqa: PLR2004 (itself and at least two others)
                yield kind, node, ways


def find_slow_culprits(rates: Mapping[Way, float], slow: Iterable[Way]) -> list[SlowCulprit]:
    """Find the fewest causes that explain all slow ways. A node that sends fast to any peer is not slow to all.

    Args:
        rates: of everything that was measured.
        slow: those of them that are too slow.
    """
    left = set(slow)
    if left and left == set(rates) and len({end for way in rates for end in way}) > 2:  # noqa: PLR2004 (two have one link)
        return [SlowCulprit("all", "", tuple(sorted(left)))]
    found = []
    whole = [one for one in list_node_suspects(rates) if one[2] <= left]
    while whole:
        kind, node, ways = max(whole, key=lambda one: len(one[2] & left))
        if len({end for way in ways & left for end in way} - {node}) < 2:  # noqa: PLR2004 (what is left is a link)
            break
        ways |= {way for way in left if is_ack_delayed(way, rates, ways)}
        found.append(
            SlowCulprit(narrow_direction(kind, node, ways, rates), node, tuple(sorted(ways & left)))
        )
        left -= ways
        whole = [one for one in whole if one[1] != node]
    for here, there in sorted({(min(way), max(way)) for way in left}):
        both = [way for way in ((here, there), (there, here)) if way in left]
        worst = min(both, key=lambda way: (rates[way], way))
        found.append(SlowCulprit("link", worst[0], (worst, *(way for way in both if way != worst))))
    return found


def is_ack_delayed(way: Way, rates: Mapping[Way, float], slow: frozenset[Way]) -> bool:
    """Return whether a direction is slow only because the opposite, slower one delays its acknowledgements."""
    back = (way[1], way[0])
    return back in slow and rates[back] < ONE_WAY * rates[way]


def narrow_direction(
    kind: Kind, node: str, ways: Iterable[Way], rates: Mapping[Way, float]
) -> Kind:
    """Return the direction that is slow, if one is far slower than the other."""
    if kind != "node":
        return kind
    out = median(rates[way] for way in ways if way[0] == node)
    back = median(rates[way] for way in ways if way[1] == node)
    if out < ONE_WAY * back:
        return "out"
    return "in" if back < ONE_WAY * out else "node"
