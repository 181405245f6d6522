"""NCCL: a remote rank ended

A connection was closed by the other side ({detail}): another rank ended first.

**Where:** the rank at the other end

**Prove:** give explain-log the logs of all ranks; look for the rank whose log ends first

**Fix:** Fix what ended the other rank; this message is its echo.

**Source:** NVIDIA/nccl#1232
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern, Severity

CAUSE = LogCause(
    "LG-421",
    __doc__,
    looks=(
        (
            "node1:39964:40044 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed "
            "by remote peer node1<57557>"
        ),
    ),
    patterns=(
        Pattern(
            "Connection closed by remote peer",
            r"Connection closed by remote peer (?P<detail>[^\s]{1,120})",
        ),
        Pattern(
            "remote process exited or there was a network error",
            r"(?P<detail>remote process exited or there was a network error)",
        ),
        Pattern(
            "Socket recv failed while polling", r"(?P<detail>Socket recv failed while polling)"
        ),
    ),
    severity=Severity.SYMPTOM,
    follows_any=True,
    explains=(Explains(("LG-422",)),),
    after_end="LG-914",
)
