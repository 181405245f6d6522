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

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING, Finding, join_names
from fullmesh.verify.cards import list_gpu_nodes
from fullmesh.verify.model import ClusterObservations


def find_acs_redirects(seen: ClusterObservations) -> Iterator[Finding]:
    """Find PCIe switches that route traffic between GPUs and RDMA NICs through the CPU."""
    for node, box in list_gpu_nodes(seen):
        paths = box.gpus.get("paths", [])
        bridges = sorted({bridge for path in paths for bridge in path["redirecting"]})
        if len(paths) > 1 and bridges:
            yield Finding(
                "VC-141",
                "L1",
                f"PCIe switches of {node} route traffic between GPUs and RDMA NICs through the CPU: "
                f"ACS is on for {join_names(bridges)}",
                node=node,
                seen=f"ACS redirects on {len(bridges)} port(s)",
                expected="none",
                fix=f"on {node}: ACS off in the firmware, or after each boot for every port: setpci -s {bridges[0]} "
                "ECAP_ACS+0x6.w=0000 (virtual machines that are given devices need ACS)",
                severity=WARNING,
            )


CAUSE = Cause(
    "VC-141",
    __doc__,
    find=find_acs_redirects,
    severity=WARNING,
    cases=(CauseCase("gpu-acs", "ACS redirects on the ports below each PCIe switch", by=RECORDED),),
)
