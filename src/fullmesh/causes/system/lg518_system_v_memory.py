"""System V shared memory is used up

A process could not create a System V shared memory segment. The limit of their number
(kernel.shmmni), size (kernel.shmmax) or sum (kernel.shmall) is reached, often because ended jobs
left segments.

**Place:** the node of this log

**Prove:** on that node, run `ipcs -lm` and `ipcs -mup`

**Fix:** Remove unused segments (ipcrm -m ID, if nattch is 0 in ipcs -m), and raise kernel.shmmni.

**Source:** openucx/ucx#9347, read: errno ENOSPC of shmget(2)
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-518",
    __doc__,
    examples=(
        (
            "[1693920302.521306] [n1:1:0]         sys.c:915  UCX  ERROR   shmget(size=134221824 "
            "flags=0x7b0) for mm_recv_desc failed: No space left on device, please check shared "
            "memory limits by 'ipcs -l'"
        ),
    ),
    patterns=(
        Pattern(
            "shmget",
            r"shmget\b.{0,120}(?:No space left on device|Operation not permitted|Cannot allocate memory)",
        ),
        Pattern("mm_sysv.c", r"mm_sysv\.c:\d+ +UCX +ERROR +failed to allocate"),
    ),
    weight=86,
)
