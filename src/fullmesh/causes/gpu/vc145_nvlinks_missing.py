"""The GPUs of a node have fewer NVLinks than the same GPUs on other nodes (warning)

An NVLink bridge is a separate part. If it is missing or loose, the driver reports no error: the
GPUs have no NVLink there, and NCCL uses PCIe. The number of links on the other nodes is the
expected one.

**Prove:** nvidia-smi topo -m (NV4 between 2 GPUs with a bridge, PHB or SYS without)

**Fix:** Switch the machine off, then install or reseat the bridge.

**Source:** NVIDIA, nvidia-smi documentation, topo and nvlink
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "VC-145",
    __doc__,
    severity=WARNING,
    cases=(CauseCase("gpu-bridge", "six NVLinks of a GPU are missing", by=RECORDED),),
)
