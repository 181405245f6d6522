"""training in subgroups mixes or loses something

A collective of a subgroup (new_group) reached ranks outside it, or lost some inside.

**Prove:** dist.get_process_group_ranks(group)

**Fix:** All ranks have to make all groups, in one order.

**Source:** torch.distributed, new_group
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-806", __doc__)
