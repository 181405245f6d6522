"""Harmless: the store or a peer ended after the job's end

The job reported its end. Then rank 0 and its store ended while threads of other ranks still polled
the store.

**Prove:** check that the job's result exists

**Fix:** Nothing to do. To avoid these lines, call torch.distributed.destroy_process_group() at the
end of the program.

**Source:** read: torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp HeartbeatMonitor,
pytorch/pytorch#121944
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Severity

CAUSE = LogCause(
    "LG-914",
    __doc__,
    severity=Severity.HARMLESS,
)
