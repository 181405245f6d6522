"""ACS sends traffic between GPUs and RDMA NICs through the CPU (warning)

With ACS (access control services), a PCIe switch sends requests between 2 devices below it up to
the root port and back. GPUs and RDMA NICs that could communicate within the switch then share the
link to the CPU, which is slower. If an IOMMU also translates, peer-to-peer may hang.

**Prove:** lspci -vvv | grep ACSCtl (redirected: ReqRedir+ and CmpltRedir+)

**Fix:** Turn ACS off in the firmware, or run setpci -s BRIDGE ECAP_ACS+0x6.w=0000 after each boot.
Leave it on if virtual machines use PCI devices directly.

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
