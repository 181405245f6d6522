"""Gloo: two ranks announced the same address and port

Two ranks announced the same address and port: two nodes have the same IP, or one rank was started
twice.

**Place:** the two nodes that have the address

**Prove:** ./fullmesh verify -i INVENTORY (VC-207: something else answers at a peer's address), or
arping -D -I INTERFACE ADDRESS

**Fix:** Give every node its own address and every process its own RANK.

**Source:** read: gloo device.cc:280-316
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-111",
    __doc__,
    examples=("[enforce fail at .../gloo/transport/tcp/device.cc:312] Cannot connect to self",),
    patterns=(Pattern("Cannot connect to self"),),
    weight=85,
    recorded=(
        RecordedLog(
            "gloo self",
            "[enforce fail at device.cc:312] Cannot connect to self",
        ),
    ),
)
