"""A program outside this run writes into the run's store

A value that a rank had stored in torch's store was different when it was read. Another program, on
a node or on a peer, writes there, because torch's store needs no password. The ranks never execute
data from the store.

**Prove:** ss -tnp 'dport = :29500'

**Fix:** End that program. While it runs, torch jobs fail or wait in the same way.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-308", __doc__)
