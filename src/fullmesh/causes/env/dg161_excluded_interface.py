"""NCCL_SOCKET_IFNAME excludes the cluster interface

A value that begins with ^ lists prefixes of interfaces that NCCL must not use. If the cluster
interface is among them, NCCL announces another one. The job is slow if the peers can reach that
one, and hangs if they cannot.

**Prove:** search the job's log for 'Bootstrap: Using' after you set NCCL_DEBUG=INFO

**Fix:** Name the interface instead: NCCL_SOCKET_IFNAME==INTERFACE.

**Source:** NCCL, os/linux.cc
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import WARNING, Finding
from fullmesh.verify.socket_interfaces import is_matched_by_nccl

NCCL_INTERFACE = "NCCL_SOCKET_IFNAME"


def rule_excluded_interface(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find nodes whose NCCL_SOCKET_IFNAME excludes the cluster interface."""
    for name in evidence.nodes:
        held, own = evidence.variable(name, NCCL_INTERFACE), evidence.get_cluster_interface(name)
        if not held or not held[0].startswith("^") or not own or is_matched_by_nccl(held[0], own):
            continue
        yield Finding(
            "DG-161",
            "L1",
            f"{NCCL_INTERFACE}={held[0]} on {name} excludes {own}, the interface of {evidence.address(name)}",
            node=name,
            seen=f"{NCCL_INTERFACE}={held[0]} from {held[1]}",
            expected=f"={own}",
            fix=f"on {name}: set {NCCL_INTERFACE}=={own} in {held[1]}"
            + ("" if evidence.assumed else f", or {evidence.seen.apply('launch')}"),
            severity=WARNING,
        )


CAUSE = Cause(
    "DG-161",
    __doc__,
    find=rule_excluded_interface,
    needs=("environment",),
    severity=WARNING,
    weight=160,
    explains=(Explains(("VC-324",), has_same_node),),
    cases=(CauseCase("ifname-left-out", "NCCL_SOCKET_IFNAME=^eth1 in /etc/environment"),),
)
