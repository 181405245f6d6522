"""Store: connections to the store are rejected, refused, dropped or have no route

Connections to {target} are {verdict}.

**Place:** the node of rank 0 (its firewall, or its missing listener). The line '(host, port)'
nearby names it.

**Prove:** run ./fullmesh verify -i INVENTORY (VC-301 in check L3) and, on rank 0's node, `ss
-ltnp`. In `ip neigh show`, FAILED means that the host is absent, not rejecting.

**Fix:** ./fullmesh apply -i INVENTORY --tags network,firewall. If no node has the address in
MASTER_ADDR, set it to rank 0's address.

**Source:** measured: if the reverse lookup fails, c10d prints nonsense such as 215.85.0.0:22671 for
10.77.0.13:29500
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import ExplainOptions, Fields, LogCause, Pattern, RecordedLog

VERDICTS = {
    "113": (
        "rejected (errno 113, No route to host: firewalld's REJECT, or the host is absent if it"
        " has no ARP entry)"
    ),
    "111": "refused (errno 111: a firewall sends a TCP reset, or no process listens)",
    "110": "dropped (errno 110, no reply: a firewall with DROP, a security group, or the host is absent)",
    "104": "reset (errno 104: the listener is not a TCPStore, or it ended)",
    "101": "without a route (errno 101)",
}


def derive_c10d_errno(fields: Fields, _options: ExplainOptions) -> Fields | None:
    """Explain the errno, and say whether the address is reliable."""
    errno = fields["errno"]
    if errno not in VERDICTS:
        return None
    peer = fields["peer"]
    # socket.cpp prints [name]:port if the reverse lookup works, otherwise its own pointer as an address
    named = peer.startswith("[")
    shown = (
        peer
        if named
        else "the store (the address in this line is not to be trusted, the reverse lookup failed)"
    )
    return {**fields, "verdict": VERDICTS[errno], "target": shown}


CAUSE = LogCause(
    "LG-205",
    __doc__,
    examples=(
        (
            "[W socket.cpp:697] [c10d] The client socket has failed to connect to [node1]:29500 "
            "(errno: 113 - No route to host)."
        ),
        (
            "[W socket.cpp:697] [c10d] The client socket has failed to connect to "
            "215.85.0.0:22671 (errno: 113 - No route to host)."
        ),
    ),
    patterns=(
        Pattern(
            "failed to connect to",
            r"client socket has failed to connect to (?P<peer>\S{1,120}) \(errno: (?P<errno>\d{1,4}) ",
        ),
    ),
    explains=(Explains(("LG-201", "LG-302", "LG-316")),),
    only_with=("LG-201", "LG-202", "LG-203", "LG-204", "LG-301", "LG-302"),
    key=("errno",),
    derive=derive_c10d_errno,
    weight=72,
    recorded=(
        RecordedLog(
            "store refused, rank 0's view only beside",
            (
                "[W socket.cpp:697] [c10d] The client socket has failed to connect to "
                "[node1]:29500 (errno: 111 - Connection refused).\n"
                "Timed out after 11 seconds waiting for clients. 1/2 clients joined."
            ),
            folded=("LG-201",),
        ),
    ),
)
