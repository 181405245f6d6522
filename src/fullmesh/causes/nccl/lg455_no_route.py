"""NCCL: a rank has no route to a peer, or a link is down

NCCL's connection to {peer} {port_note} failed: {reason}. {verdict}

**Place:** the node of this log (its interface, address and routes), or the link to {peer}

**Prove:** on the node of this log, run `ip -brief addr` and `ip route get {peer}`, or run
./fullmesh verify -i INVENTORY (VC-106, VC-204)

**Fix:** Bring the interface up (cable, switch port, `ip link set INTERFACE up`), then run ./fullmesh
apply -i INVENTORY --tags network.

**Source:** recorded with NCCL 2.28.9 on a GPU (the link was cut during an all-reduce), read: nccl
socket.cc
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import ExplainOptions, Fields, LogCause, Pattern
from fullmesh.causes.nccl.patterns import ADDRESS, build_connect_patterns, derive_nccl_retry

NO_ROUTE = "Network is unreachable|Network is down|Host is down|Host is unreachable"
LOST = f"{NO_ROUTE}|No route to host|Connection timed out"  # of a connection that was open
LINK_LOCAL = ("169.254.", "fe80:")  # LG-429
VERDICTS = {
    "Network is unreachable": "The node of this log has no route to that address: its interface is down, "
    "or lost its address or route.",
    "Network is down": "The interface of the node of this log is down.",
    "Connection timed out": "No packet came back for minutes: the link or the peer is down.",
}
NO_ANSWER = "Nothing at that address answers: the link or the peer is down."


def derive_lost_peer(fields: Fields, options: ExplainOptions) -> Fields | None:
    """Explain the reason. Link-local addresses have a cause of their own."""
    if fields["peer"].startswith(LINK_LOCAL):
        return None
    found = derive_nccl_retry(fields, options)
    return found and {**found, "verdict": VERDICTS.get(fields["reason"], NO_ANSWER)}


CAUSE = LogCause(
    "LG-455",
    __doc__,
    examples=(
        (
            "[2026-11-27 13:47:14] vm:1464:1481 [0] misc/socket.cc:596 NCCL WARN "
            "socketStartConnect: connect to 192.0.2.1<39703> failed : Network is unreachable"
        ),
    ),
    patterns=(
        *build_connect_patterns(f"(?P<reason>{NO_ROUTE})"),
        Pattern(
            "Call to ", rf"Call to (?:recv from|send to) {ADDRESS} failed ?: (?P<reason>{LOST})"
        ),
    ),
    explains=(Explains(("LG-402", "LG-404")),),
    key=("peer",),
    derive=derive_lost_peer,
    survivable=True,
    weight=82,
)
