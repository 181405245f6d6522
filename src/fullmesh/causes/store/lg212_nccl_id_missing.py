"""store: rank 0 never published NCCL's id

Rank {rank} waited for NCCL's id, which rank {root} has to write: that rank ended, hangs before its
first collective, or works longer than the timeout before it (it alone tokenizes a dataset, loads a
checkpoint).

**Where:** rank {root}

**Prove:** read the log of rank {root} from its end; py-spy dump --pid PID while it hangs

**Fix:** Fix rank {root}; each rank must use the same process group in the same order. Long work of
one rank belongs before the launch, or the timeout of init_process_group grows.

**Source:** read: ProcessGroupNCCL.cpp broadcastUniqueNCCLID
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog, Severity

CAUSE = LogCause(
    "LG-212",
    __doc__,
    looks=(
        (
            "torch.distributed.DistBackendError: [1] is setting up NCCL communicator and "
            "retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but "
            "store->get('0') got error: Connection reset by peer"
        ),
    ),
    patterns=(
        # torch up to 2.1 spelt it so
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
