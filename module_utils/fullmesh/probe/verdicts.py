"""The word for what became of a connection, from what the kernel and the peer said. Stdlib only."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from ..facts.sockets import (
    SYN_SENT,
)

if TYPE_CHECKING:
    from typing import Any

    Target = dict[str, Any]
    Result = dict[str, Any]


REJECTED = (errno.EACCES, errno.EPERM, errno.ENOPROTOOPT, errno.EPROTO)
UNREACHABLE = (errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.ENETDOWN, errno.EHOSTDOWN)
RESET = (errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED)


def classify_refusal(error: int, connected: bool, neighbour: str) -> str:
    """Name an error that the kernel reported; *neighbour* is the state of the next hop."""
    if error in RESET or (error == errno.ECONNREFUSED and connected):
        return "reset"
    if error == errno.ECONNREFUSED:
        return "refused"
    if error == errno.EHOSTUNREACH:
        # An ICMP answer can only come over a next hop that answers ARP; without one it is ARP that failed.
        return "no_route" if neighbour == "failed" else "rejected"
    if error in UNREACHABLE:
        return "no_route"
    return "rejected" if error in REJECTED else "dropped"


def classify(seen: dict[str, Any]) -> tuple[str, str]:
    """Return the word for one connection and, where the word is not the whole story, a remark.

    Keys: error, state (TCP_INFO), connected, neighbour, source, own, greeted (None, True, False),
    proved, complete, uploaded, unacked, retransmitted.
    """
    word, remark = classify_connection(seen)
    source = seen["source"]
    if source and seen["own"] and source != seen["own"] and word in ("open", "dropped", "rejected"):
        return "wrong_source", f"{word}; the source address was {source}"
    return word, remark


def classify_connection(seen: dict[str, Any]) -> tuple[str, str]:
    """Do it without looking at the source address."""
    if seen["complete"]:
        return "open", ""
    if seen["greeted"] is False:
        return "someone_else", "what answers is not the listener of this run"
    if seen["error"]:
        return classify_refusal(seen["error"], seen["connected"], seen["neighbour"]), ""
    if not seen["connected"]:
        return classify_silence(seen), ""
    return classify_stall(seen)


def classify_silence(seen: dict[str, Any]) -> str:
    """Name a handshake that never ended."""
    if seen["state"] != SYN_SENT:
        return "reset"
    return "no_route" if seen["neighbour"] == "failed" else "dropped"


def classify_stall(seen: dict[str, Any]) -> tuple[str, str]:
    """Name a connection that was made and then did not get through."""
    if seen["closed"]:
        return "reset", "closed by the other side before it was done"
    if seen["greeted"] and not seen["uploaded"] and seen["unacked"] and seen["retransmitted"]:
        return "mtu_black_hole", "small packets pass, large ones sent from here do not arrive"
    if seen["proved"] and seen["uploaded"]:
        return "mtu_black_hole", "small packets pass, large ones sent from there do not arrive"
    return "open", "connected, but the answer was late"
