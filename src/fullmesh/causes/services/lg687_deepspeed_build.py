"""DeepSpeed: a part of it is to be compiled and cannot be

DeepSpeed compiles {part} at its first use, and ninja (or the compiler) is not on this node.

**Where:** the node that printed this; the others wait for it

**Prove:** which ninja c++ on every node

**Fix:** Without GPUs do without deepspeed_shm_comm (examples/deepspeed_train.py shows the line).
Else install ninja and a compiler, or build the part when DeepSpeed is installed (DS_BUILD_...).

**Source:** measured
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-687",
    __doc__,
    looks=(
        (
            "RuntimeError: Unable to JIT load the deepspeed_shm_comm op due to ninja not being "
            "installed."
        ),
    ),
    patterns=(
        Pattern(
            "Unable to JIT load the",
            r"Unable to JIT load the (?P<part>\w{1,60}) op due to",
        ),
    ),
    weight=95,
)
