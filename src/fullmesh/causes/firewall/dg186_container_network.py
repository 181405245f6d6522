"""Ranks run in a container network that peers cannot reach, or that cannot reach peers

Docker and podman give a container its own network behind NAT, with an address that only its machine
knows. Ranks announce that address, and peers cannot connect to it. As root, the probe enters the
network of running ranks and connects to some of the peers' listeners that the node itself reaches.
The listeners report the source address that they see.

**Prove:** nsenter -t PID -n ip -br address && nsenter -t PID -n ip route get PEER

**Fix:** Start the container with --network=host (hostNetwork: true in Kubernetes), or give it an
address of the cluster network without NAT (macvlan, SR-IOV).

**Source:** docker run(1), --network, and measured: a namespace behind masquerade is seen by the
node's address
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import Finding, join_names


def rule_container_network(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find ranks in a container network that peers cannot reach, or that cannot reach peers."""
    for name in evidence.nodes:
        for inner in evidence.seen.nodes.get(name, {}).get("links", {}).get("networks", []):
            who = f"pid {inner['pid']}: {inner['command'][:80]}"
            inside = join_names(inner["addresses"]) or "no address"
            shut = sorted({one["node"] for one in inner["links"]})
            hidden = inner["seen_as"] and inner["seen_as"] not in inner["addresses"]
            if hidden:
                what = (
                    f"is hidden behind {inner['seen_as']}: peers cannot connect to {inside},"
                    " which the ranks announce"
                )
                peers = evidence.peers(name)
            elif shut:
                what, peers = (
                    f"does not reach {join_names(shut)}, although {name} itself does",
                    shut,
                )
            else:
                continue
            yield Finding(
                "DG-186",
                "L2",
                f"the network of the container in which ranks run on {name} {what}",
                node=name,
                peer=join_names(peers),
                direction=f"{join_names(peers)} -> {name}"
                if hidden
                else f"{name} -> {join_names(peers)}",
                seen=f"{inside} ({who})",
                expected="the node's own network, or an address that peers reach",
                fix=f"on {name}: start the container with --network=host, or give it an address of the cluster network",
            )


CAUSE = Cause(
    "DG-186",
    __doc__,
    find=rule_container_network,
    weight=910,
    explains=(Explains(("DG-108",), has_same_node),),
    cases=(CauseCase("container-nat", "a rank in a network namespace behind masquerade"),),
)
