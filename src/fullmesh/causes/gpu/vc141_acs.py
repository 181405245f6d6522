"""ACS sends what GPUs and RDMA cards say to each other up to the processor (warning)

ACS (access control services) of PCIe switches sends requests between two devices below them up to the root and down
again. GPUs and RDMA cards that could talk in their switch then share the way to the processor; with an IOMMU that
translates, peer-to-peer may hang as well.

**Prove:** lspci -vvv | grep ACSCtl (ReqRedir+ and CmpltRedir+); nvidia-smi topo -m

**Fix:** ACS off in the firmware, or setpci -s BRIDGE ECAP_ACS+0x6.w=0000 after each boot. Leave it on where virtual
machines are given devices.

**Source:** NCCL documentation, Troubleshooting, PCI Access Control Services
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "VC-141",
    __doc__,
    severity=WARNING,
    cases=(CauseCase("gpu-acs", "ACS redirects on the ports below each PCIe switch", by=RECORDED),),
)
