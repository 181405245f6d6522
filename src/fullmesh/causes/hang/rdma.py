"""RDMA ports of the ranks: their rails, and the counters and GIDs that changed since the ranks started."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fullmesh.causes.hang.job import ObservedJob
from fullmesh.observed.hang import RankRdmaPort, RdmaPortState
from fullmesh.verify.rdma_pairs import gid_to_address
from fullmesh.verify.rdma_tries import DISCARDED

ACTIVE = "ACTIVE"
# Packets without an acknowledgement: mlx5, and soft-RoCE.
UNACKNOWLEDGED = ("local_ack_timeout_err", "completer_retry_err", "retry_exceeded_err")
SHOWN = 4


@dataclass(frozen=True)
class UsedPort:
    """A port that ranks of a host use.

    Attributes:
        host: of the ranks.
        rank: the first of them.
        port: now.
        before: its state in the sample before. None without one.
    """

    host: str
    rank: int
    port: RankRdmaPort
    before: RdmaPortState | None

    @property
    def label(self) -> str:
        """The port for a sentence: ``rail1 (mlx5_1, ens2)``."""
        name = format_device(self.port["port"])
        words = [*([name] if "rail" in self.port else []), self.port["interface"]]
        more = ", ".join(filter(None, words))
        return self.port.get("rail", name) + (f" ({more})" if more else "")

    def list_discards(self) -> tuple[str, ...]:
        """Return the NIC's counters of discarded packets."""
        return tuple(
            name for name in self.port["now"]["errors"] if any(word in name for word in DISCARDED)
        )

    def count_errors(self, names: Sequence[str], *, recent: bool) -> dict[str, int]:
        """Return the counters that grew since the rank started, or since the sample before if *recent*.

        The rank's start has no counters of the NIC, so these are always compared with the sample before.
        """
        start = self.port.get("start")
        if (self.before if recent else start) is None:
            return {}
        now = self.port["now"]["errors"]
        first = {**now, **(self.before["errors"] if self.before else {})}
        first.update(start["errors"] if start and not recent else {})
        grown = {name: now[name] - first[name] for name in names if name in now}
        return {name: count for name, count in grown.items() if count > 0}


def format_device(port: str) -> str:
    """Format a port: the device, with the number of its port if that is not 1."""
    return port.removesuffix(":1")


def map_gid_addresses(state: RdmaPortState) -> dict[str, str]:
    """Map the IP addresses in a GID table to their entries, without link-local ones."""
    found: dict[str, str] = {}
    for index, gid in state["gids"].items():
        try:
            address = gid_to_address(gid)
        except ipaddress.AddressValueError:
            continue
        if not address.is_link_local:
            found.setdefault(str(address), index)
    return found


def list_used_ports(job: ObservedJob, ranks: Sequence[int]) -> list[UsedPort]:
    """List the ports that some ranks use, each port of a host once."""
    found: dict[tuple[str, str], UsedPort] = {}
    for rank in ranks:
        host = job.now.host(rank)
        earlier = job.before.ranks.get(rank) if job.before else None
        before = {one["port"]: one["now"] for one in earlier.get("rdma", [])} if earlier else {}
        for port in job.now.ranks[rank].get("rdma", []) if rank in job.now.ranks else []:
            key = (host, port["port"])
            found.setdefault(key, UsedPort(host, rank, port, before.get(port["port"])))
    return list(found.values())


def describe_stalled_ports(ports: Sequence[UsedPort]) -> Iterator[str]:
    """Describe the ports that are down, whose packets are not acknowledged now, or whose NIC discards packets."""
    for one in ports:
        if one.port["state"] not in ("", ACTIVE):
            yield f"{one.label} of {one.host} is {one.port['state']}"
        elif one.count_errors(UNACKNOWLEDGED, recent=True):
            yield f"packets that {one.host} sends on {one.label} are not acknowledged"
        elif one.count_errors(one.list_discards(), recent=True):
            yield f"the NIC of {one.host} discards packets that arrive on {one.label}"


def describe_port_counters(ports: Sequence[UsedPort]) -> list[str]:
    """Describe the error counters that grew since the ranks started, at both ends of a rail."""
    lines = []
    for one in sorted(
        ports, key=lambda one: (one.port.get("rail", ""), one.port["port"], one.host)
    ):
        grown = one.count_errors(tuple(one.port["now"]["errors"]), recent=False)
        if grown:
            lines.append(f"{one.host} {one.label}: {format_counters(grown)}")
    return lines[:SHOWN]


def format_counters(grown: Mapping[str, int]) -> str:
    """Format counters: ``local_ack_timeout_err +3``."""
    return ", ".join(f"{name} +{count}" for name, count in grown.items())
