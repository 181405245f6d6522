"""Patterns that several causes of the store share (torch 2.13, pytorch socket.cpp, TCPStore*.cpp)."""

from __future__ import annotations

import ipaddress

from fullmesh.causes.logs import LogEvidence, LogFinding, Pattern

# "(host, port)", and "host:port" before torch 2.0
TARGET = r"\(?\[?(?P<host>[^\s,()\[\]]{1,120}?)\]?(?:, |:)(?P<port>\d{1,5})\)?(?=[\s.;)]|$)"
CLIENT = (
    Pattern(
        "client socket has timed out after",
        rf"client socket has timed out after \d+ ?m?s while trying to connect to {TARGET}",
    ),
    Pattern(
        "failed to connect to any network address of",
        rf"failed to connect to any network address of {TARGET}",
    ),
)


def is_loopback_host(host: str) -> bool:
    """Return whether a name or address is this host itself."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host.partition(".")[0] == "localhost"


def describe_connections(finding: LogFinding, _evidence: LogEvidence) -> str:
    """Describe how connections to the store fail, if their errno is known."""
    children = [child for child in finding.follows if child.code == "LG-205"]
    return f"Connections are {children[0].fields['verdict']}." if children else ""
