"""the job's own code raised an error

The job's own code failed with {error}: {message}.

**Where:** the rank of this log

**Prove:** read the traceback above that line

**Fix:** Fix the program or its environment on that node; ranks that only waited for it failed
later.

**Source:** Python's tracebacks
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.launch.patterns import BROKEN
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-319",
    __doc__,
    looks=("[rank1]: ModuleNotFoundError: No module named 'transformers'",),
    patterns=tuple(
        Pattern(
            f"{name}: ",
            r"^(?:\S{0,60}\s){0,4}?\s*(?P<error>(?:[A-Za-z_]\w*\.)*"
            + name
            # what torch, Accelerate and SGLang raise about their own start has causes of its own
            + r"): (?!Error initializing torch\.distributed|trying to initialize the default process group twice"
            + r"|Unknown c10d backend type|.{0,300}undefined symbol: nccl"
            + r"|You need to (?:use at least 2 processes|manually pass in `--num_processes`)"
            + r"|please provide --dist-init-addr)"
            r"(?P<message>.{1,200})",
        )
        for name in (
            "ValueError",
            "ZeroDivisionError",
            "FloatingPointError",
            "UnicodeDecodeError",
            "MemoryError",
            "NotImplementedError",
            "ModuleNotFoundError",
            "ImportError",
            "FileNotFoundError",
            "PermissionError",
            "NameError",
            "AttributeError",
            "TypeError",
            "KeyError",
            "IndexError",
            "AssertionError",
            "SyntaxError",
        )
    ),
    explains=(
        Explains(("LG-103", "LG-201", "LG-210", "LG-318", "LG-320", "LG-402", "LG-403", "LG-404")),
    ),
    only_with=BROKEN,
    key=("error",),
    weight=68,
)
