"""Connections between the ranks of a collective, as the kernels at both ends report them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fullmesh.causes.hang.job import JobSample, ObservedJob
from fullmesh.observed.hang import RankConnection

SHOWN = 3
Ends = tuple[str, int, str, int]


@dataclass(frozen=True)
class StuckConnection:
    """A connection whose bytes are not acknowledged, seen from the end that sends them.

    Attributes:
        here, there: host of its ends, or the address if the host is not known.
        lost: segments that this end sent and the other did not receive. None if the other end is not known.
        answers_lost: the same for the other direction.
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
        """Return the sender and receiver of each direction without traffic."""
        forth, back = (self.here, self.there), (self.there, self.here)
        if self.full:
            return []
        dead = [forth] if self.lost else []
        return [*dead, *([back] if self.answers_lost else [])] or [forth]


def index_connections(sample: JobSample) -> dict[Ends, RankConnection]:
    """Map all connections by their ends."""
    return {
        get_connection_ends(link): link
        for one in sample.ranks.values()
        for link in one.get("connections", [])
    }


def get_connection_ends(link: RankConnection, *, other: bool = False) -> Ends:
    """Return the 4-tuple that identifies a connection, here or at its other end."""
    here, there = (link["here"], link["port"]), (link["peer"], link["peer_port"])
    return (*there, *here) if other else (*here, *there)


def find_stuck_connections(job: ObservedJob, members: Sequence[int]) -> Iterator[StuckConnection]:
    """Yield the connections of some ranks whose bytes do not arrive, or are not read.

    Nodes are not queried at the same moment, so a segment in transit may look lost in one sample.
    It is lost if both samples show it.
    """
    looks = [index_connections(sample) for sample in job.samples[-2:]]
    hosts = {
        link["here"]: one["host"]
        for one in job.now.ranks.values()
        for link in one.get("connections", [])
    }
    for rank in members:
        for link in job.now.ranks[rank].get("connections", []) if rank in job.now.ranks else []:
            if link["unacked"] and (link["retransmits"] or link["zero_window"]):
                yield StuckConnection(
                    job.now.host(rank),
                    hosts.get(link["peer"], link["peer"]),
                    (link["here"], link["peer"]),
                    link["unacked"],
                    link["retransmits"],
                    _count_lost_segments(
                        looks, get_connection_ends(link), get_connection_ends(link, other=True)
                    ),
                    _count_lost_segments(
                        looks, get_connection_ends(link, other=True), get_connection_ends(link)
                    ),
                    link["zero_window"],
                )


def _count_lost_segments(
    looks: Sequence[Mapping[Ends, RankConnection]], sender: Ends, receiver: Ends
) -> int | None:
    """Count segments that one end sent and the other did not receive, in every sample. None if an end is not known."""
    found = [
        answer[sender]["segments_out"] - answer[receiver]["segments_in"]
        for answer in looks
        if sender in answer and receiver in answer
    ]
    return max(0, min(found)) if found else None


def describe_dead_directions(found: Sequence[StuckConnection]) -> str:
    """Describe the directions in which nothing arrives, or return ""."""
    ways = list(dict.fromkeys(way for one in found for way in one.ways))
    pairs = list(dict.fromkeys(frozenset(way) for way in ways))
    lines = []
    for pair in pairs[:SHOWN]:
        both = [way for way in ways if frozenset(way) == pair]
        here, there = both[0]
        lines.append(
            f"no packets arrive between {here} and {there}, in either direction"
            if len(both) > 1
            else f"no packets from {here} arrive at {there}"
        )
    return "; ".join(lines)


def find_dead_interfaces(job: ObservedJob, members: Sequence[int]) -> dict[str, str]:
    """Map a description of each host with a dead interface to its fix, in the ranks' order."""
    found = {}
    for rank in members:
        host = job.now.host(rank)
        for link in job.now.ranks[rank].get("connections", []) if rank in job.now.ranks else []:
            if "dark" in link:
                found[f"{link['dark']} of {host} is down or has no carrier"] = (
                    f"on {host}: ip link show {link['dark']}, then check its cable and switch port. "
                )
            elif "gone" in link:
                lost_nics = ", ".join(link["gone"])
                lost_nics = lost_nics and f" (down or without carrier there: {lost_nics})"
                found[f"no interface of {host} has {link['here']} any more{lost_nics}"] = (
                    f"on {host}: ip address && ip link. "
                )
    return found


def describe_connections(found: Sequence[StuckConnection]) -> str:
    """Describe the connection with the most unacknowledged bytes in each direction."""
    best: dict[tuple[str, str], StuckConnection] = {}
    for one in sorted(found, key=lambda one: (-one.again, -one.unacked)):
        best.setdefault((one.here, one.there), one)
    lines = []
    for one in list(best.values())[:SHOWN]:
        again = f", sent again {one.again} times" if one.again else ""
        lost = f"; {one.there} lacks {one.lost} segments" if one.lost else ""
        full = f", and the process on {one.there} does not read" if one.full else ""
        lines.append(
            f"{one.here} -> {one.there} ({' -> '.join(one.addresses)}): {one.unacked} bytes unacknowledged"
            f"{again}{lost}{full}"
        )
    return "; ".join(lines)
