"""A node's firewall stops packets of a rail

Both ends of RDMA agree over TCP first, and soft-RoCE uses UDP port 4791 of the kernel. RDMA
hardware sends its data past the kernel's rules. If RDMA works nevertheless, the finding is a
warning.

**Prove:** nft list ruleset

**Fix:** Run site.yml with --tags firewall, or accept packets between the addresses of the rail.
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase

CAUSE = Cause(
    "VC-239",
    __doc__,
    # found by VC-231
    weight=620,
    cases=(CauseCase("rail-rule", "nft drops TCP on a rail's interface", by=RECORDED),),
)
