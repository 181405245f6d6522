"""somebody who is not of the run writes into its store

What a rank had left in torch's store was another value when it was read: a program of somebody else's, on a node or
on a peer, writes there. torch's store asks nobody for a password. No rank runs what it finds there.

**Prove:** ss -tnp 'dport = :29500', on every node while it runs

**Fix:** End that program; while it runs, jobs of torch's fail or wait in the same way.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-308", __doc__)
