"""A process may not open the memory of another

A rank needs memory or a descriptor of another process of its node, and the kernel refused it
({detail}). The ranks run as different users, Yama restricts such access (ptrace_scope), or the
container lacks SYS_PTRACE.

**Place:** the node of this log, or its container

**Prove:** on that node: sysctl kernel.yama.ptrace_scope; ps -o user,pid,args -C python3

**Fix:** Start all ranks of a node as one user, set kernel.yama.ptrace_scope to 0, or give the
container --cap-add SYS_PTRACE. In a program of your own, prctl(PR_SET_PTRACER) allows single
processes.

**Source:** HorizonRobotics/alf#1805, moby/moby#45622, read: pidfd_getfd(2) and ptrace(2)
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import RANK_FAILURE_EFFECTS, LogCause, Pattern

CAUSE = LogCause(
    "LG-539",
    __doc__,
    examples=("RuntimeError: pidfd_getfd: Operation not permitted",),
    patterns=(
        Pattern(
            "pidfd_",
            r"(?P<detail>pidfd_(?:getfd|open))\b.{0,80}(?:Operation not permitted|EPERM|errno:? ?1\b)",
        ),
        Pattern(
            "process_vm_",
            r"(?P<detail>process_vm_(?:readv|writev))\b.{0,120}(?:Operation not permitted|EPERM)",
        ),
    ),
    explains=(Explains(RANK_FAILURE_EFFECTS),),
    weight=87,
)
