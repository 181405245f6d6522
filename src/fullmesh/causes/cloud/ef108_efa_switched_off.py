"""The job's environment keeps NCCL from using EFA

NCCL_NET, NCCL_NET_PLUGIN or FI_PROVIDER selects another network, so NCCL uses TCP.

**Prove:** env | grep -E 'NCCL_NET|FI_PROVIDER'

**Fix:** Unset the variable.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("EF-108", __doc__)
