"""UCX or UCC: processes of a node cannot open each other's shared memory

Two processes of one node exchange messages through shared memory, but one cannot open the other's.
They are in different containers or namespaces (IPC, PID, user), or a security setting forbids it.

**Place:** the containers of this node

**Prove:** for both processes: ls -l /proc/PID/ns (compare the containers' options --ipc and --pid)

**Fix:** Start the containers of a node with --ipc=host (and --pid=host), or run all ranks of a node
in one container. Otherwise turn shared memory off: UCX_TLS=^shm (UCX), UCC_TLS=ucp (UCC),
UCX_POSIX_USE_PROC_LINK=n.

**Source:** openucx/ucx#10055, read: UCX's mm_ep.c and UCC's tl_shm_team.c
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-731",
    __doc__,
    examples=(
        (
            "[1723337199.099229] [node3:1382 :0] tl_shm_team.c:617 TL_SHM ERROR Child failed to "
            "attach to shmseg, errno: Invalid argument"
        ),
        (
            "[1688710000.495362] [node7:201:0]          mm_ep.c:155  UCX  ERROR mm ep failed to "
            "connect to remote FIFO id 0xc0000005001ed121: Shared memory error"
        ),
    ),
    patterns=(
        Pattern("failed to attach to shmseg"),
        Pattern("failed to connect to remote FIFO", r"mm ep failed to connect to remote FIFO id"),
        Pattern("shmat(shmid", r"UCX +ERROR +shmat\(shmid=\d{1,12}\) failed"),
    ),
    weight=82,
)
