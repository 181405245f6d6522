"""Gloo: a rank waited for a peer that never connected

This rank waited 5 times its timeout for a peer's data connection, and none came. The log of the
other node has the reason.

**Place:** the other node. If no other error is found, the node of this log: it listened, and
packets to it were lost

**Prove:** ./fullmesh verify -i INVENTORY (check L2 tries every link in both directions), and give
explain-log the logs of all ranks

**Fix:** ./fullmesh apply -i INVENTORY --tags tuning,firewall (pins the data ports and opens them to
the peers)

**Source:** measured, and gloo/transport/tcp/pair.h: waitUntil multiplies the timeout by 5 (1800 s
become 2.5 hours)
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, Severity

CAUSE = LogCause(
    "LG-105",
    __doc__,
    examples=(
        (
            "RuntimeError: Gloo connectFullMesh failed with "
            "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.h:311] Connect timeout [none]"
        ),
    ),
    patterns=(Pattern("Connect timeout [", r"Connect timeout \[(?P<peer>[^\]]{0,80})\]"),),
    severity=Severity.SYMPTOM,
    follows_any=True,
)
