"""torchrun: a node came after the rendezvous was closed

This node joined a rendezvous that was already closed: the job had ended or failed on another node,
or the --rdzv-id is an old one.

**Place:** the node that ended first, not the node of this log

**Prove:** compare the first error's time in all nodes' logs

**Fix:** Restart the job on all nodes with a new --rdzv-id.

**Source:** pytorch/pytorch#116974
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, Severity

CAUSE = LogCause(
    "LG-303",
    __doc__,
    examples=("torch.distributed.elastic.rendezvous.api.RendezvousClosedError",),
    patterns=(Pattern("RendezvousClosedError"),),
    severity=Severity.SYMPTOM,
    follows_any=True,
)
