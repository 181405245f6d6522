"""the GPUs of a node have fewer NVLinks than the same cards elsewhere (warning)

A bridge between cards is a part of its own, and one that is missing or loose is no error to the driver: the cards
have no NVLink there, and NCCL goes over PCIe. The other nodes show how many there should be.

**Prove:** nvidia-smi nvlink -s; nvidia-smi topo -m (NV4 between two cards with a bridge, PHB or SYS without)

**Fix:** Put the bridge on, or reseat it, with the machine switched off.

**Source:** NVIDIA, nvidia-smi documentation, topo and nvlink
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "VC-145",
    __doc__,
    severity=WARNING,
    cases=(CauseCase("gpu-bridge", "six NVLinks of a card are missing", by=RECORDED),),
)
