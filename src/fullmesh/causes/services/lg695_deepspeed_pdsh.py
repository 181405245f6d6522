"""DeepSpeed: this version needs PDSH_SSH_ARGS_APPEND

DeepSpeed's launcher for pdsh adds the SSH port to PDSH_SSH_ARGS_APPEND and fails if the variable
does not exist. This is a bug of versions before 0.14.1, with --ssh_port.

**Place:** the node on which deepspeed was started

**Prove:** run `pip show deepspeed` and `env | grep PDSH`

**Fix:** Update DeepSpeed to 0.14.1 or later. Until then: export PDSH_SSH_ARGS_APPEND=

**Source:** HabanaAI/DeepSpeed#8, deepspeedai/DeepSpeed#5318
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-695",
    __doc__,
    examples=("KeyError: 'PDSH_SSH_ARGS_APPEND'",),
    patterns=(Pattern("PDSH_SSH_ARGS_APPEND", r"KeyError: 'PDSH_SSH_ARGS_APPEND'"),),
    weight=94,
)
