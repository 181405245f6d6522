"""packets are lost on a link

Each lost segment costs a retransmission time of 200 ms and more; at a few per cent collectives crawl, at forty they
fail.

**Prove:** nstat -az TcpRetransSegs; ip -s link; ethtool -S INTERFACE

**Fix:** Look at cables, optics, duplex and switch queues.

**Source:** TCP_INFO, without needless repetitions (DSACK); measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.relations import SHUT, WALLS, is_return_path

CAUSE = Cause(
    "DG-138",
    __doc__,
    weight=870,
    explains=(Explains((*SHUT, "VC-207", "VC-208", "VC-209", *WALLS, "DG-139"), is_return_path),),
    cases=(CauseCase("loss", "nft numgen random mod 100 < 20 drop, both directions", fields=LINK),),
)
