"""RDMA: the limit for locked memory (memlock) is too small

RDMA could not register memory: in most cases, the limit for locked memory (memlock) is too small
for this process.

**Place:** the node of this log, in the job's own unit or container

**Prove:** in the job's environment, `ulimit -l` must print unlimited. For a unit: systemctl show
UNIT -p LimitMEMLOCK. If it prints unlimited, the kernel cannot pin these pages, for example pages in
the area for contiguous memory (CmaTotal in /proc/meminfo, seen on DGX Spark).

**Fix:** Set LimitMEMLOCK=infinity in the unit or --ulimit memlock=-1 for the container. For logins,
run ./fullmesh apply --tags tuning.

**Source:** NVIDIA/nccl-tests#206, NVIDIA/nccl#380
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-413",
    __doc__,
    examples=(
        (
            "node1:1:2 [0] misc/ibvwrap.cc:160 NCCL WARN Call to ibv_reg_mr failed with error "
            "Cannot allocate memory"
        ),
    ),
    patterns=(
        Pattern(
            "ibv_",
            r"ibv_(?:reg_mr|create_s?rq|create_cq|create_qp|alloc_\w{1,8})\w*\W.{0,60}Cannot allocate memory",
        ),
        # Mooncake
        Pattern(
            "Failed to register memory",
            r"Failed to register memory \S{1,40}: Cannot allocate memory",
        ),
    ),
    weight=90,
    recorded=(
        RecordedLog(
            "memlock",
            (
                "n:1:2 [0] misc/ibvwrap.cc:160 NCCL WARN Call to ibv_reg_mr failed with error "
                "Cannot allocate memory"
            ),
        ),
        RecordedLog(
            "memlock of Mooncake",
            (
                "E0115 11:21:23.104512 3662714 rdma_context.cpp:254] Failed to register memory "
                "0x7f1280000000: Cannot allocate memory [12]"
            ),
        ),
    ),
)
