"""a rank aborted while its program ended

A thread of the process was still at work when the program ended, mostly Gloo's giving a tensor
back: the rank aborted, though what it computed may be whole.

**Where:** the node of this log; torchrun on the other nodes waits up to 300 s for it, deaf to
SIGTERM

**Prove:** look whether the job's last output is there; grep pt_gloo /proc/PID/task/*/comm before
the end

**Fix:** Let a rank that is done leave with os._exit(0) after destroy_process_group() and what
atexit holds, as examples/ddp.py does; what keeps the model keeps Gloo's threads.

**Source:** pytorch/pytorch#190489; measured: torch 2.13, 8 ranks on two processors that end right
after a collective, 5 of 8 jobs, 0 of 8 with os._exit
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-320",
    __doc__,
    looks=("terminate called without an active exception",),
    patterns=(Pattern("terminate called without an active exception"),),
    weight=56,
)
