"""Show the mesh of many nodes: blocks of nodes, with details only for links that deviate. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from fullmesh.report import model
from fullmesh.result.types import MeshSummary, Result

MOST_NODES = 100  # nodes in the list: those with problems, then the slowest


def get_block_mesh(result: Result) -> MeshSummary | None:
    """Return the mesh of many nodes, or None if each link has its own row."""
    mesh = result.get("mesh")
    return mesh if mesh and "by_node" in mesh and "rtt_us" in mesh else None


def count_links(result: Result) -> tuple[int, int, int]:
    """Return the numbers of ordered pairs that are open, were tested, and exist."""
    size = len(result["plan"].get("nodes") or result["nodes"])
    mesh = result.get("mesh")
    if mesh:
        return mesh["open"], mesh["tried"], mesh["pairs"]
    links = result["links"]
    return sum(link["verdict"] == model.OPEN for link in links), len(links), size * (size - 1)


def split_into_blocks(nodes: Sequence[str], side: int) -> list[list[str]]:
    """Split the nodes into blocks, as verify/schedule.py assigns them."""
    found: list[list[str]] = [[] for _ in range(side)]
    for number, name in enumerate(nodes):
        found[number * side // len(nodes)].append(name)
    return found


def find_largest_block(nodes: Sequence[str], figures: Sequence[Sequence[int]]) -> int:
    """Return the number of nodes in the largest block."""
    return max((len(held) for held in split_into_blocks(nodes, len(figures))), default=0)


def label_blocks(nodes: Sequence[str], side: int) -> list[str]:
    """Name each block by its first and last node."""
    return [
        held[0] if len(held) == 1 else f"{held[0]} to {held[-1]}"
        for held in split_into_blocks(nodes, side)
    ]


def list_first_nodes(nodes: Sequence[str], side: int) -> list[str]:
    """List the first node of each block."""
    return [held[0] for held in split_into_blocks(nodes, side)]


def find_single_node_blocks(nodes: Sequence[str], side: int) -> set[int]:
    """Return the blocks with one node, which has no link to itself."""
    return {block for block, held in enumerate(split_into_blocks(nodes, side)) if len(held) == 1}


def map_nodes_to_blocks(nodes: Sequence[str], side: int) -> dict[str, int]:
    """Map each node to its block."""
    return {
        name: block for block, held in enumerate(split_into_blocks(nodes, side)) for name in held
    }


def count_block_verdicts(
    result: Result, nodes: Sequence[str], side: int
) -> dict[tuple[int, int], dict[str, int]]:
    """Map blocks with problems to the states of their links that are not open, with counts."""
    place = map_nodes_to_blocks(nodes, side)
    found: dict[tuple[int, int], dict[str, int]] = {}
    for link in result["links"]:
        if link["verdict"] != model.OPEN and link["from"] in place and link["to"] in place:
            held = found.setdefault((place[link["from"]], place[link["to"]]), {})
            held[link["verdict"]] = held.get(link["verdict"], 0) + 1
    return found


def pick_block_verdict(held: dict[str, int]) -> str:
    """Choose the state that represents a block."""
    order = {word: index for index, word in enumerate(model.WORST)}
    return min(held, key=lambda word: order.get(word, len(order)))


def select_listed_nodes(mesh: MeshSummary, trouble: Sequence[str]) -> list[str]:
    """Select the nodes to list: those with problems first, then those with the longest round trips."""
    by_node = mesh.get("by_node", {})
    slow = sorted(by_node, key=lambda name: -by_node[name]["rtt_us"])
    return list(dict.fromkeys([*trouble, *slow]))[:MOST_NODES]
