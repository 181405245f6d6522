"""DeepSpeed: a version that needs PDSH_SSH_ARGS_APPEND

DeepSpeed's launcher for pdsh adds the SSH port to PDSH_SSH_ARGS_APPEND and fails if the variable does
not exist: a defect of the versions before 0.14.1, with --ssh_port.

**Where:** the node where deepspeed was started

**Prove:** pip show deepspeed; env | grep PDSH

**Fix:** Update DeepSpeed to 0.14.1 or later; until then: export PDSH_SSH_ARGS_APPEND=

**Source:** HabanaAI/DeepSpeed#8, deepspeedai/DeepSpeed#5318
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-695",
    __doc__,
    looks=("KeyError: 'PDSH_SSH_ARGS_APPEND'",),
    patterns=(Pattern("PDSH_SSH_ARGS_APPEND", r"KeyError: 'PDSH_SSH_ARGS_APPEND'"),),
    weight=94,
)
