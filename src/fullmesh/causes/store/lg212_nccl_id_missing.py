"""Store: rank 0 did not publish NCCL's id

Rank {rank} waited for NCCL's id, which rank {root} has to write. That rank ended, hangs before its
first collective, or works alone for longer than the timeout (it tokenizes a dataset or loads a
checkpoint).

**Place:** rank {root}

**Prove:** read the end of the log of rank {root}. While it hangs: py-spy dump --pid PID

**Fix:** Fix rank {root}. All ranks must create process groups in the same order. Do long work of
one rank before the launch, or raise the timeout of init_process_group.

**Source:** read: ProcessGroupNCCL.cpp broadcastUniqueNCCLID
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog, Severity

CAUSE = LogCause(
    "LG-212",
    __doc__,
    examples=(
        (
            "torch.distributed.DistBackendError: [1] is setting up NCCL communicator and "
            "retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but "
            "store->get('0') got error: Connection reset by peer"
        ),
    ),
    patterns=(
        # torch up to 2.1
        *(
            Pattern(
                f"{verb} ncclUniqueId from",
                rf"\[(?P<rank>\d+)\] is setting up NCCL communicator and {verb} ncclUniqueId from"
                r" \[(?P<root>\d+)\]",
            )
            for verb in ("retrieving", "retreiving")
        ),
    ),
    severity=Severity.SYMPTOM,
    follows_any=True,
    key=("root",),
    recorded=(
        RecordedLog(
            "rank 0 came too late, old spelling",
            (
                "RuntimeError: [3] is setting up NCCL communicator and retreiving ncclUniqueId "
                "from [0] via c10d key-value store by key '1', but store->get('1') got error: "
                "Socket Timeout"
            ),
        ),
    ),
)
