"""NCCL: the ranks of a node cannot share the host's memory through CUDA

NCCL 2.24 and newer share the host's memory between the ranks of a node through CUDA (cuMem), and
this failed ({detail}). The GPUs have no access to each other, or it works on some of the node's
NUMA nodes only (a container that hides CPUs or NUMA nodes, a NUMA node without CPUs), so the ranks
chose different ways.

**Place:** the node of this log

**Prove:** repeat the job with NCCL_CUMEM_HOST_ENABLE=0. Compare `numactl -H` in two ranks of the
node.

**Fix:** Set NCCL_CUMEM_HOST_ENABLE=0 (NCCL uses /dev/shm then, which must be large enough), or give
the container all CPUs and NUMA nodes and the right to use them (--cap-add SYS_NICE). Update the
driver.

**Source:** NVIDIA/nccl#1838, #2190, #2106
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-457",
    __doc__,
    examples=(
        (
            "node1:774:854 [0] transport/shm.cc:590 NCCL WARN Cuda failure 217 'peer access is not "
            "supported between these two devices'"
        ),
        (
            "node1:774:854 [0] misc/shmutils.cc:170 NCCL WARN Error while attaching to shared memory "
            "segment /dev/shm/nccl-x (size 0), error: No such file or directory (2)"
        ),
    ),
    patterns=(
        Pattern(
            "transport/shm.cc",
            r"transport/shm\.cc:\d{1,5} NCCL WARN (?P<detail>Cuda failure \d{1,4})",
        ),
        Pattern(
            "while attaching to shared memory segment",
            r"while attaching to (?P<detail>shared memory segment .{1,80}\(size 0\))",
        ),
    ),
    weight=89,
)
