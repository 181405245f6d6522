"""The cluster interfaces of two nodes have the same hardware address

Virtual machines were cloned with their NICs, or an address was set by hand. A switch sends frames
to the port that used the address last, so connections of both nodes fail alternately.

**Prove:** on every node: ip link show INTERFACE

**Fix:** Give each NIC its own address in the definition of the virtual machine.
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.env.shared_identity import group_equal_values
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import KERNELS, LINKS, WALLS, has_root_node
from fullmesh.result.findings import Finding, join_names


def rule_unique_macs(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find nodes whose cluster interfaces have the same hardware address."""
    nics = {
        name: evidence.find_nic(name, evidence.get_cluster_interface(name))
        for name in evidence.nodes
    }
    held = {name: nic["mac"] for name, nic in nics.items() if nic}
    for value, names in group_equal_values(held).items():
        if not value.strip("0:"):
            continue  # interfaces without one: loopback, tunnels
        yield Finding(
            "DG-259",
            "L2",
            f"the cluster interfaces of {join_names(names)} have the same hardware address, {value}: a switch"
            " sends to the one that sent last",
            node=names[1],
            peer=join_names([name for name in names if name != names[1]]),
            port="all",
            seen=value,
            expected="a different hardware address for each interface",
            fix=f"on {names[1]}: ip link set {evidence.get_cluster_interface(names[1])} address ADDRESS, and in the"
            " definition of the virtual machine if it was cloned",
            pairs=tuple((a, b) for a in names for b in names if a != b),
        )


CAUSE = Cause(
    "DG-259",
    __doc__,
    find=rule_unique_macs,
    needs=("interfaces",),
    weight=1070,
    explains=(Explains((*LINKS, *WALLS, *KERNELS, "DG-138", "DG-139", "DG-158"), has_root_node),),
    cases=(
        CauseCase("one-mac", "the cluster interfaces show the same hardware address", by=RECORDED),
    ),
)
