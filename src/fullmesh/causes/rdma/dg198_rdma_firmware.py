"""NICs of one product have different firmware

NICs of one product behave differently with different firmware: congestion control, adaptive
routing, the lanes of the PCIe link. Such differences show as one slow node, or as errors between some
nodes only.

**Prove:** cat /sys/class/infiniband/*/board_id /sys/class/infiniband/*/fw_ver

**Fix:** Update the older NICs (mlxfwmanager, fwupdmgr) and restart the node.

**Source:** NVIDIA, ConnectX firmware release notes
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.result.findings import WARNING, Finding, join_names


def rule_rdma_firmware(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find boards of one id whose firmware differs between nodes."""
    boards: dict[str, dict[str, str]] = {}
    for name in evidence.nodes:
        for port in evidence.survey(name).get("rdma", []):
            if port.get("board") and port.get("firmware"):
                boards.setdefault(port["board"], {}).setdefault(name, port["firmware"])
    for board, held in boards.items():
        ((usual, _), *others) = Counter(held.values()).most_common()
        if not others:
            continue
        odd = [name for name, version in held.items() if version != usual]
        yield Finding(
            "DG-198",
            "L1",
            f"the NICs {board} of {join_names(odd)} have different firmware than those of the other nodes",
            node=odd[0],
            peer=join_names([name for name in held if name not in odd]),
            seen=join_names(sorted({held[name] for name in odd})),
            expected=usual,
            fix=f"on {odd[0]}: update the NIC's firmware, then restart the node. Check: mlxfwmanager --query",
            severity=WARNING,
        )


CAUSE = Cause(
    "DG-198",
    __doc__,
    find=rule_rdma_firmware,
    needs=("rdma",),
    severity=WARNING,
    weight=40,
    cases=(
        CauseCase(
            "rdma-firmware", "one of two NICs of one product has older firmware", by=RECORDED
        ),
    ),
)
