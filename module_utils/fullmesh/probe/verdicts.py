"""Classify a connection from the answers of the kernel and the peer. Standard library only."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, TypedDict

from ..facts.sockets import (
    SYN_SENT,
)

if TYPE_CHECKING:
    from ..schema.ladder import Verdict


NO_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 (of a socket that the kernel never gave one)
# Errors of connect() itself, from this kernel's routes and not from a router (ip-route(8): blackhole, prohibit).
REFUSED_HERE = (errno.EINVAL, errno.EACCES, errno.EHOSTUNREACH)
FULL_SIZE = 4096  # bytes: more than fits into small packets before the first large one
LATE = "connected, but the answer was late"
REJECTED = (errno.EACCES, errno.EPERM, errno.ENOPROTOOPT, errno.EPROTO)
UNREACHABLE = (errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.ENETDOWN, errno.EHOSTDOWN)
RESET = (errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED)


class ConnectionOutcome(TypedDict):
    """How a connection ended.

    Attributes:
        error: errno, 0 for none.
        state: of TCP_INFO.
        at_once: connect() itself returned the error, so no packet was waited for.
        connected: the handshake was complete.
        closed: by the other side.
        neighbour: the kernel's state of the next hop: reachable, failed, unknown.
        source: the local address as the peer saw it, or else as the kernel chose it.
        own: the plan's address.
        greeted: by a listener of this run (False: by another program).
        proved: the listener accepted this client.
        complete: the payload was sent and came back.
        uploaded: the payload has arrived.
        unacked, retransmitted: segments, of TCP_INFO.
        moved: bytes that were acknowledged or received so far.
    """

    error: int
    at_once: bool
    state: int
    connected: bool
    closed: bool
    neighbour: str
    source: str
    own: str
    greeted: bool | None
    proved: bool
    complete: bool
    uploaded: bool
    unacked: int
    retransmitted: int
    moved: int


def classify_refusal(error: int, connected: bool, neighbour: str) -> Verdict:
    """Classify an error that the kernel reported. *neighbour* is the state of the next hop."""
    if error in RESET or (error == errno.ECONNREFUSED and connected):
        return "reset"
    if error == errno.ECONNREFUSED:
        return "refused"
    if error == errno.EHOSTUNREACH:
        # An ICMP answer needs a next hop that answers ARP. Without one, ARP itself failed.
        return "no_route" if neighbour == "failed" else "rejected"
    if error in UNREACHABLE:
        return "no_route"
    return "rejected" if error in REJECTED else "dropped"


def classify_outcome(seen: ConnectionOutcome) -> tuple[Verdict, str]:
    """Return the verdict of one connection, with a remark if the verdict does not say everything."""
    word, remark = classify_connection(seen)
    source = seen["source"] if seen["source"] not in NO_ADDRESS else ""
    if source and seen["own"] and source != seen["own"] and word in ("open", "dropped", "rejected"):
        return "wrong_source", f"{word}, the source address was {source}"
    return word, remark


def classify_connection(seen: ConnectionOutcome) -> tuple[Verdict, str]:
    """Classify a connection without its source address."""
    if seen["complete"]:
        return "open", ""
    if seen["greeted"] is False:
        return "someone_else", "another program answers on this port"
    if seen["at_once"] and seen["error"] in REFUSED_HERE:
        return "no_route", ""
    if seen["error"]:
        return classify_refusal(seen["error"], seen["connected"], seen["neighbour"]), ""
    if not seen["connected"]:
        return classify_silence(seen), ""
    return classify_stall(seen)


def classify_silence(seen: ConnectionOutcome) -> Verdict:
    """Classify a handshake that never ended."""
    if seen["state"] != SYN_SENT:
        return "reset"
    return "no_route" if seen["neighbour"] == "failed" else "dropped"


def classify_stall(seen: ConnectionOutcome) -> tuple[Verdict, str]:
    """Classify a connection that was established and then stalled."""
    if seen["closed"]:
        return "reset", "closed by the other side before it was done"
    if seen["proved"] and seen["moved"] >= FULL_SIZE:  # slow, but not blocked for large packets
        return "open", LATE
    if seen["greeted"] and not seen["uploaded"] and seen["unacked"] and seen["retransmitted"]:
        return "mtu_black_hole", "small packets pass, large ones sent from here do not arrive"
    if seen["proved"] and seen["uploaded"]:
        return "mtu_black_hole", "small packets pass, large ones sent from there do not arrive"
    return "open", LATE
