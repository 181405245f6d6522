"""The mesh of many nodes as a report shows it: blocks of nodes, and in full only what deviates. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from fullmesh.report import model
from fullmesh.result.types import Mesh, Result

MOST_NODES = 100  # nodes listed one by one: those with trouble, then the slowest


def mesh_of(result: Result) -> Mesh | None:
    """The picture of many nodes; None where each link has its own row."""
    mesh = result.get("mesh")
    return mesh if mesh and "by_node" in mesh and "rtt_us" in mesh else None


def counts(result: Result) -> tuple[int, int, int]:
    """How many ordered pairs are open, were tried, and there are."""
    size = len(result["plan"].get("nodes") or result["nodes"])
    mesh = result.get("mesh")
    if mesh:
        return mesh["open"], mesh["tried"], mesh["pairs"]
    links = result["links"]
    return sum(link["verdict"] == model.OPEN for link in links), len(links), size * (size - 1)


def parts(nodes: Sequence[str], side: int) -> list[list[str]]:
    """The nodes of each block, as verify/schedule.py gives them out."""
    found: list[list[str]] = [[] for _ in range(side)]
    for number, name in enumerate(nodes):
        found[number * side // len(nodes)].append(name)
    return found


def most(nodes: Sequence[str], figures: Sequence[Sequence[int]]) -> int:
    """How many nodes a block has at most."""
    return max((len(held) for held in parts(nodes, len(figures))), default=0)


def labels(nodes: Sequence[str], side: int) -> list[str]:
    """A name for each block: its first and last node."""
    return [
        held[0] if len(held) == 1 else f"{held[0]} to {held[-1]}" for held in parts(nodes, side)
    ]


def firsts(nodes: Sequence[str], side: int) -> list[str]:
    """The first node of each block."""
    return [held[0] for held in parts(nodes, side)]


def alone(nodes: Sequence[str], side: int) -> set[int]:
    """The blocks of one node, which has no link to itself."""
    return {block for block, held in enumerate(parts(nodes, side)) if len(held) == 1}


def places(nodes: Sequence[str], side: int) -> dict[str, int]:
    """Node -> its block."""
    return {name: block for block, held in enumerate(parts(nodes, side)) for name in held}


def words(result: Result, nodes: Sequence[str], side: int) -> dict[tuple[int, int], dict[str, int]]:
    """Blocks with trouble -> the words of their links that are not open, with their numbers."""
    place = places(nodes, side)
    found: dict[tuple[int, int], dict[str, int]] = {}
    for link in result["links"]:
        if link["verdict"] != model.OPEN and link["from"] in place and link["to"] in place:
            held = found.setdefault((place[link["from"]], place[link["to"]]), {})
            held[link["verdict"]] = held.get(link["verdict"], 0) + 1
    return found


def worst(held: dict[str, int]) -> str:
    """The word that a block is drawn with."""
    order = {word: index for index, word in enumerate(model.WORST)}
    return min(held, key=lambda word: order.get(word, len(order)))


def listed(mesh: Mesh, trouble: Sequence[str]) -> list[str]:
    """The nodes that are worth a line: those with trouble first, then those with the longest round trips."""
    by_node = mesh.get("by_node", {})
    slow = sorted(by_node, key=lambda name: -by_node[name]["rtt_us"])
    return list(dict.fromkeys([*trouble, *slow]))[:MOST_NODES]
