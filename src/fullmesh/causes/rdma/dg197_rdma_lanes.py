"""The PCIe link of an RDMA NIC is below its capability and slower than its port

A NIC negotiates the lanes and the speed of its PCIe link at boot. A narrow slot, a riser, dust or old
firmware can halve them. Traffic is then limited by PCIe, not by the network: Gen5 with 2 lanes
carries 63 Gbit/s of a port with 200 Gbit/s.

**Prove:** lspci -vv -s SLOT | grep -E 'LnkCap|LnkSta'

**Fix:** Seat the NIC again or use a wider slot, and update the firmware of NIC and mainboard. Then do
a cold boot.

**Source:** PCI Express Base Specification, section 4.2, and reports of DGX Spark owners
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import WARNING, Finding
from fullmesh.verify.nccl_ways import compute_pcie_rate, parse_first_number


def rule_rdma_lanes(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find NICs whose PCIe link carries less than the port, although the NIC supports more."""
    for name in evidence.nodes:
        for port in evidence.survey(name).get("rdma", []):
            now, most = compute_pcie_rate(port, "current"), compute_pcie_rate(port, "max")
            rate = parse_first_number(port["rate"])
            if not 0 < now < min(most, rate):
                continue
            held = port.get("pcie", {})
            yield Finding(
                "DG-197",
                "L1",
                f"the PCIe link of {port['device']} on {name} carries {now:.0f} Gbit/s of its port's {rate:.0f}",
                node=name,
                seen=f"{held['current_link_width']} lanes at {held['current_link_speed']}",
                expected=f"{held['max_link_width']} lanes at {held['max_link_speed']}",
                fix=f"on {name}: seat the NIC of {port['device']} again or use a wider slot, then update its firmware. "
                "Check: lspci -vv",
                severity=WARNING,
            )


CAUSE = Cause(
    "DG-197",
    __doc__,
    find=rule_rdma_lanes,
    needs=("rdma",),
    severity=WARNING,
    weight=120,
    explains=(Explains(("VC-714",), has_same_node),),
    cases=(CauseCase("rdma-lanes", "a NIC for 16 lanes runs with 2", by=RECORDED),),
)
