"""DeepSpeed: an extension must be compiled, but the node has no compiler

DeepSpeed compiles {part} at its first use, but ninja or the compiler is missing on this node.

**Place:** the node that printed this. The other nodes wait for it.

**Prove:** which ninja c++ on every node

**Fix:** Without GPUs, disable deepspeed_shm_comm (examples/deepspeed_train.py shows the line).
Otherwise install ninja and a compiler, or build the extension when you install DeepSpeed
(DS_BUILD_...).

**Source:** measured
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-687",
    __doc__,
    examples=(
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
    explains=(Explains(("LG-537",)),),
    weight=95,
)
