"""NIXL: the peer disconnected

A transfer of NIXL failed, because the peer's process ended or its network connection broke.

**Place:** the peer's node

**Prove:** pass the logs of the prefill and decode nodes to explain-log and find the one that ends
first

**Fix:** Fix the error of the peer. This message is only its consequence.

**Source:** read: NIXL's status codes
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, Severity

CAUSE = LogCause(
    "LG-741",
    __doc__,
    examples=("nixl_cu12._bindings.nixlRemoteDisconnectError: NIXL_ERR_REMOTE_DISCONNECT",),
    patterns=(Pattern("NIXL_ERR_", "NIXL_ERR_REMOTE_DISCONNECT"),),
    severity=Severity.SYMPTOM,
    follows_any=True,
    weight=58,
)
