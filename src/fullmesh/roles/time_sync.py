"""Render chrony's configuration of one node, and check the settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fullmesh.faults import Fault
from fullmesh.foreign_text import parse_decimal
from fullmesh.model.addresses import is_address, is_host_name
from fullmesh.plain import parse_switch

CODES: dict[str, str] = {
    "TS-101": "time_sync_source is `servers`, but no server is given",
    "TS-102": "Servers are given, but time_sync_source is not `servers`",
    "TS-103": "chrony cannot be started",
    "TS-104": "The clock is not synchronized after the deadline",
    "TS-105": "chronyd runs with `-x`, because the node cannot set its clock (warning)",
    "TS-106": "A time server is neither a name nor an address",
    "TS-107": "time_sync_wait_seconds is out of range",
    "TS-108": "time_sync_disable_other_sources is on, but time_sync_source is `distribution`",
}
# Lower priority than any real time server: a node that reaches one prefers it over the leader's own clock.
LOCAL_STRATUM = 10
LONGEST_WAIT = 600


def find_time_sync_faults(
    source: str, servers: Sequence[str], wait_seconds: Any, disable_other_sources: Any = False
) -> list[Fault]:
    """Return the faults in the settings."""
    found = []
    if source == "servers" and not servers:
        found.append(
            Fault(
                "TS-101",
                "time_sync_source is servers, but time_sync_servers is empty",
                "Name the servers, or use leader or distribution",
            )
        )
    if source != "servers" and servers:
        found.append(
            Fault(
                "TS-102",
                f"time_sync_servers is {', '.join(servers)}, but time_sync_source is {source}",
                "Set time_sync_source: servers, or remove the servers",
            )
        )
    found += [
        Fault(
            "TS-106", f"{server!r} is neither a name nor an address", "Fix it in time_sync_servers"
        )
        for server in servers
        if not (is_host_name(server) or is_address(server))
    ]
    if parse_switch(disable_other_sources) and source == "distribution":
        found.append(
            Fault(
                "TS-108",
                "time_sync_disable_other_sources is true and time_sync_source is distribution, so no source"
                " would be left",
                "Set time_sync_source: servers or leader, or remove time_sync_disable_other_sources",
            )
        )
    if parse_decimal(str(wait_seconds), LONGEST_WAIT, 1) is None:
        found.append(
            Fault(
                "TS-107",
                f"time_sync_wait_seconds is {wait_seconds}",
                f"Choose 1 to {LONGEST_WAIT} seconds",
            )
        )
    return found


def render_chrony_lines(
    source: str, servers: Sequence[str], leader: str, address: str, peers: Sequence[str]
) -> list[str]:
    """Render chrony's lines for the node *address*. No lines leave the distribution's configuration unchanged.

    ``prefer``: the distribution's own pools stay (unless time_sync_disable_other_sources), but the cluster's clocks
    must agree first.
    """
    if source == "servers":
        return [f"server {server} iburst prefer" for server in servers]
    if source == "leader" and address == leader:
        # Without "orphan", which is for several leaders, and since chrony 4.6 waits 300 s before it serves.
        return [f"local stratum {LOCAL_STRATUM}", *(f"allow {peer}" for peer in sorted(peers))]
    if source == "leader":
        return [f"server {leader} iburst prefer"]
    return []


def list_expected_sources(
    source: str, servers: Sequence[str], leader: str, address: str
) -> list[str]:
    """List the addresses, at least one of which must answer. chronyc reports servers by address, not by name."""
    if source == "servers":
        known = [server for server in servers if is_address(server)]
        return known if len(known) == len(servers) else []
    return [leader] if source == "leader" and address != leader else []
