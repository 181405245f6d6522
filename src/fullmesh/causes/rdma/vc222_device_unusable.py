"""Programs cannot use an RDMA device: library, device file, memory or port

NCCL opens RDMA devices with libibverbs. It needs the library, the provider of the NIC, the device
file `/dev/infiniband/uverbs*` and enough lockable memory. If one of them is missing, NCCL uses TCP
without an error message, or ends with an error. A call of the library can also hang in the driver.

**Prove:** ibv_devinfo && ulimit -l

**Fix:** Do the step that the finding names: install rdma-core and the provider, load ib_uverbs, or
raise the limit of locked memory.

**Source:** rdma-core, libibverbs/man, and NVIDIA/nccl, src/misc/ibvwrap.cc
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node

CAUSE = Cause(
    "VC-222",
    __doc__,
    weight=355,
    explains=(Explains(("VC-712", "VC-714", "VC-720"), has_same_node),),
    cases=(
        CauseCase(
            "rdma-device-unusable",
            "a node has an RDMA device and no libibverbs",
            by=RECORDED,
            severity="warning",
        ),
    ),
)
