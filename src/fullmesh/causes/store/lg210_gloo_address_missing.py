"""Store: a rank did not publish its Gloo address

Rank {rank} did not publish its Gloo address: it was not started (or WORLD_SIZE is too large), it
ended earlier, or it could not open a listener.

**Place:** rank {rank}

**Prove:** read the log of rank {rank}, or run ./fullmesh verify -i INVENTORY (VC-303 means that it
ended, VC-304 that it never started)

**Fix:** Start every rank from 0 to WORLD_SIZE-1 exactly once, and give each node its own node rank.

**Source:** measured: the last number of the missing key is the rank
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-210",
    __doc__,
    examples=(
        (
            "torch.distributed.DistStoreError: wait timeout after 10000ms, keys: "
            "/default_pg/0//cpu//0/2"
        ),
    ),
    patterns=(
        Pattern(
            "wait timeout after",
            r"wait timeout after \d+ ?ms, keys: \S{0,200}//(?:cpu|gloo)\S{0,80}/(?P<rank>\d{1,7})(?![\w/])",
        ),
    ),
    explains=(Explains(("LG-211",)),),
    key=("rank",),
    weight=60,
)
