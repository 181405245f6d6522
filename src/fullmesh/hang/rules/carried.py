"""What carries a collective: the connections between its ranks, as the kernels at both ends know them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fullmesh.hang.types import Sample
from fullmesh.observed.hang import Connection

CLEARLY = 4  # times as many segments are lost one way as the other, which is then no matter of when one looked
SHOWN = 3


@dataclass(frozen=True)
class Stuck:
    """A connection whose bytes are not acknowledged, seen from the end that sends them.

    Attributes:
        here, there: host and address of its ends; the host is the address where it is not known.
        lost: segments that this end has sent and the other has not got, None where the other end is not known;
            answers_lost: the same of the way back.
        full: the other end's process does not read.
    """

    here: str
    there: str
    addresses: tuple[str, str]
    unacked: int
    again: int
    lost: int | None
    answers_lost: int | None
    full: bool

    @property
    def ways(self) -> list[tuple[str, str]]:
        """Sender and receiver of the directions that carry nothing."""
        forth, back = (self.here, self.there), (self.there, self.here)
        lost, answers = self.lost, self.answers_lost
        if self.full:
            return []
        if lost is None or answers is None:
            return [forth]
        both = [forth] if lost > 0 and lost * CLEARLY >= answers else []
        return [*both, *([back] if answers > 0 and answers * CLEARLY >= lost else [])] or [forth]


def stuck(now: Sample, members: Sequence[int]) -> Iterator[Stuck]:
    """The connections of some ranks whose bytes do not arrive, or are not taken."""
    ends: dict[tuple[str, int, str, int], Connection] = {}
    hosts: dict[str, str] = {}
    for one in now.ranks.values():
        for link in one.get("connections", []):
            ends[link["here"], link["port"], link["peer"], link["peer_port"]] = link
            hosts.setdefault(link["here"], one["host"])
    for rank in members:
        for link in now.ranks[rank].get("connections", []) if rank in now.ranks else []:
            if link["unacked"] and (link["retransmits"] or link["zero_window"]):
                other = ends.get((link["peer"], link["peer_port"], link["here"], link["port"]))
                yield Stuck(
                    now.host(rank),
                    hosts.get(link["peer"], link["peer"]),
                    (link["here"], link["peer"]),
                    link["unacked"],
                    link["retransmits"],
                    link["segments_out"] - other["segments_in"] if other else None,
                    other["segments_out"] - link["segments_in"] if other else None,
                    link["zero_window"],
                )


def said(found: Sequence[Stuck]) -> str:
    """The ways that carry nothing, in a sentence; "" where none is known."""
    ways = list(dict.fromkeys(way for one in found for way in one.ways))
    pairs = list(dict.fromkeys(frozenset(way) for way in ways))
    told = []
    for pair in pairs[:SHOWN]:
        both = [way for way in ways if frozenset(way) == pair]
        here, there = both[0]
        told.append(
            f"nothing gets through between {here} and {there}, either way"
            if len(both) > 1
            else f"nothing gets from {here} to {there}"
        )
    return "; ".join(told)


def evidence(found: Sequence[Stuck]) -> str:
    """What says so: the connection of each way with most bytes on it."""
    best: dict[tuple[str, str], Stuck] = {}
    for one in sorted(found, key=lambda one: (-one.again, -one.unacked)):
        best.setdefault((one.here, one.there), one)
    told = []
    for one in list(best.values())[:SHOWN]:
        again = f", sent again {one.again} times" if one.again else ""
        lost = f"; {one.there} lacks {one.lost} segments" if one.lost and one.lost > 0 else ""
        full = f"; the process on {one.there} takes none" if one.full else ""
        told.append(
            f"{one.here} -> {one.there} ({' -> '.join(one.addresses)}): {one.unacked} bytes unacknowledged"
            f"{again}{lost}{full}"
        )
    return "; ".join(told)
