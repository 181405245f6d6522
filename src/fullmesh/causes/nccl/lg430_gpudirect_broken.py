"""NCCL: GPUDirect RDMA is broken (local protection error)

The NIC could not read or write memory that NCCL had registered (completion 4, local protection
error). With GPUDirect RDMA, the usual cause is PCIe Access Control Services (ACS) or an IOMMU
between the GPU and the NIC.

**Place:** the node of this log: its BIOS, kernel parameters or virtualization

**Prove:** run the job with NCCL_NET_GDR_LEVEL=LOC (no GPUDirect). If it works, check `lspci -vvv |
grep ACSCtl` (a + after SrcValid means that ACS is on) and /proc/cmdline.

**Fix:** Switch off ACS on the PCIe bridges, and the IOMMU (or set iommu=pt). In VMs, leave
GPUDirect off.

**Source:** NVIDIA/nccl#928, read: NCCL's troubleshooting guide (PCI Access Control Services)
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-430",
    __doc__,
    examples=(
        (
            "node2:14159:14168 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion "
            "from peer 10.10.0.7<33397> with error 4, opcode 32611, len 32611, vendor err 81 "
            "(Send)"
        ),
        (
            "NET/IB: Got completion from peer 10.10.0.7<33397> with "
            "status=IBV_WC_LOC_PROT_ERR(4) opcode=IBV_WC_SEND(0) vendor_err=81"
        ),
    ),
    patterns=(
        Pattern(
            "Got completion",
            r"Got completion .{0,100}?with (?:status=|error )(?:\w{1,40}\()?4\b",
        ),
    ),
    weight=84,
)
