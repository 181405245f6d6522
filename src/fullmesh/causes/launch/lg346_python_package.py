"""A Python package is missing or of another version on this node

Python could not import a part of a package: {error}: {message}.{place} The package is not installed
in the environment that this process uses, or has another version than the program expects.

**Place:** {who}

**Prove:** on each node, in the job's environment: which python; python -m pip list | grep -i PACKAGE

**Fix:** Install the version that the program names, in the same environment or image on all nodes.
Ray and Slurm start processes with the environment of each node: activate it there.

**Source:** Python's tracebacks
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import RANK_FAILURE_EFFECTS, LogCause, RecordedLog

CAUSE = LogCause(
    "LG-346",
    __doc__,
    explains=(Explains((*RANK_FAILURE_EFFECTS, "LG-320")),),
    weight=68,
    recorded=(
        RecordedLog(
            "a package that a node lacks",
            "[rank1]: ModuleNotFoundError: No module named 'transformers'",
        ),
    ),
)
