"""The program does not find a file on this node

The program failed because a file is missing: {error}: {message}.{place} The path is wrong or not
mounted here, or only another node has the file because the directory is not shared, or another rank
has not written it yet, or has already deleted it.

**Place:** {who}

**Prove:** on each node, in the job's environment: ls -l PATH (the path of the message)

**Fix:** Correct the path. Put files that ranks share (checkpoints, caches, logs) on a file system
that all nodes mount, or let each node write its own (save_on_each_node). Let one rank create or
delete them, and call barrier() before the others use them.

**Source:** Python's tracebacks
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import RANK_FAILURE_EFFECTS, LogCause, RecordedLog

CAUSE = LogCause(
    "LG-344",
    __doc__,
    explains=(Explains((*RANK_FAILURE_EFFECTS, "LG-320")),),
    weight=68,
    recorded=(
        RecordedLog(
            "a checkpoint of another rank",
            "[rank1]: FileNotFoundError: [Errno 2] No such file or directory: 'ckpt/rng_state_1.pth'",
        ),
    ),
)
