"""A node does not have its address on a rail

RDMA takes its GID from the address of the interface, so a missing or different address leaves the
rail unusable on this node. NCCL fails with `ibv_modify_qp failed`, or it uses another rail. Reasons
are an interface that was renamed by a firmware or kernel update, a change by hand, and a profile
that another program activated.

**Prove:** ip -br address

**Fix:** Run site.yml with --tags network. If the interface has another name now, correct
`fullmesh_rails` first.
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.rails.checks import check_rails
from fullmesh.causes.relations import has_root_end

CAUSE = Cause(
    "VC-231",
    __doc__,
    find=check_rails,  # and that of the other causes in this folder
    weight=660,
    explains=(Explains(("VC-221", "VC-223", "VC-227"), has_root_end),),
    cases=(
        CauseCase(
            "rail-address",
            "ip address del of the rail's address, another prefix, or a renamed interface",
            by=RECORDED,
        ),
    ),
)
