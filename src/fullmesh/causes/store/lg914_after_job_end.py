"""harmless: the store or a peer went away after the job's end

The job reported its end, then rank 0 and its store ended before the threads that still polled it.

**Prove:** look whether the job's result is there

**Fix:** Nothing; torch.distributed.destroy_process_group() at the end of the program avoids the
lines.

**Source:** read: torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp HeartbeatMonitor;
pytorch/pytorch#121944
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Severity

CAUSE = LogCause(
    "LG-914",
    __doc__,
    severity=Severity.HARMLESS,
)
