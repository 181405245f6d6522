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
from fullmesh.causes.logs import RANK_FAILURE_EFFECTS, LogCause, Pattern, RecordedLog

# no rank and no place of a traceback
UNRAISED = (("rank", "?"), ("place", ""))
CAUSE = LogCause(
    "LG-346",
    __doc__,
    examples=(
        "importlib.metadata.PackageNotFoundError: No package metadata was found for bitsandbytes",
    ),
    patterns=(
        Pattern(
            "No package metadata was found for",
            r"(?P<error>PackageNotFoundError): (?P<message>No package metadata was found for [\w.-]{1,80})",
            fields=UNRAISED,
        ),
        Pattern(
            "ContextualVersionConflict",
            r"(?P<error>ContextualVersionConflict): (?P<message>[^\n]{3,160})",
            fields=UNRAISED,
        ),
        Pattern(
            "DistributionNotFound",
            r"(?P<error>DistributionNotFound): (?P<message>[^\n]{3,160})",
            fields=UNRAISED,
        ),
    ),
    survivable=True,
    explains=(Explains((*RANK_FAILURE_EFFECTS, "LG-320")),),
    weight=68,
    recorded=(
        RecordedLog(
            "a package that a node lacks",
            "[rank1]: ModuleNotFoundError: No module named 'transformers'",
        ),
    ),
)
