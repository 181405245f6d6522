"""Training in subgroups mixes or loses values

A collective of a subgroup (new_group) reached ranks outside the group, or missed ranks inside it.

**Prove:** dist.get_process_group_ranks(group)

**Fix:** Make all ranks create all groups, in the same order.

**Source:** torch.distributed, new_group
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-806", __doc__)
