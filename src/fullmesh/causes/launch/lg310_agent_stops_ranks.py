"""torchrun: the agent stops its other ranks

torchrun ended its other ranks because one had failed (or because torchrun itself was stopped).

**Place:** a rank other than those that torchrun stopped

**Prove:** give explain-log the logs of all ranks

**Fix:** Find the rank that failed first, and correct its error. This message needs no fix of its own.

**Source:** read: torch/distributed/elastic/multiprocessing/api.py
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, Severity

CAUSE = LogCause(
    "LG-310",
    __doc__,
    examples=(
        (
            "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 2410413 "
            "closing signal SIGTERM"
        ),
    ),
    patterns=(Pattern("closing signal SIG", r"Sending process \d+ closing signal SIG\w+"),),
    severity=Severity.SYMPTOM,
    follows_any=True,
    is_pointer=True,
)
