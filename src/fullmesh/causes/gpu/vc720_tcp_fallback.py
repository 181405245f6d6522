"""NCCL uses TCP although every node has RDMA (warning)

NCCL looks for RDMA on each node. If it finds none that it may use, it uses TCP and prints nothing
at its default log level. The job runs, but slower. How much depends on the network, so Fullmesh
reports this at any measured bandwidth.

**Prove:** ibv_devinfo as the job's account (a job with NCCL_DEBUG=INFO prints the reason before
`Using network Socket`)

**Fix:** Remove the obstacle that the finding names: a variable, a file that only root may open, or a
missing module or library.

**Source:** NVIDIA/nccl, src/plugin/net.cc, src/misc/ibvsymbols.cc
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains
from fullmesh.result.findings import WARNING

CAUSE = Cause("VC-720", __doc__, severity=WARNING, weight=330, explains=(Explains(("VC-714",)),))
