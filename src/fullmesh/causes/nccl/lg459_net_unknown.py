"""NCCL does not find a network device in its topology (a defect)

NCCL looked for network device {number} in its topology and did not find it. NCCL 2.25 and 2.26 do
so on some nodes although the device works, and then report an internal error.

**Place:** NCCL in the environment or image of the node of this log

**Prove:** run the job with another NCCL on the same nodes: `python -c 'import torch;
print(torch.cuda.nccl.version())'` prints the one in use

**Fix:** Use NCCL 2.27 or newer on all nodes (an image or a torch that has it). If it still fails,
remove NCCL_TOPO_FILE, NCCL_GRAPH_FILE and NCCL_IB_HCA from the environment.

**Source:** NVIDIA-NeMo/Run#266, read: NCCL's graph/topo.h
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-459",
    __doc__,
    examples=("node1:2110:3310 [0] graph/topo.h:230 NCCL WARN Could not find NET with id 0",),
    patterns=(
        Pattern("Could not find NET with", r"Could not find NET with id (?P<number>\w{1,20})"),
    ),
    explains=(Explains(("LG-421", "LG-422")),),
    weight=78,
)
