"""ranks run in a container's network that peers do not reach, or that does not reach them

Docker and podman give a container a network of its own, with an address that only its machine knows, and hide it
behind the machine's (NAT). Its ranks announce the address inside, and nobody can connect to that. As root the probe
goes into the network of ranks that run now, connects to some listeners of the peers that the node itself reaches, and
hears from them which address they see.

**Prove:** nsenter -t PID -n ip -br address; nsenter -t PID -n ip route get PEER

**Fix:** Start the container with --network=host (docker, podman; hostNetwork: true in Kubernetes), or give it an
address of the cluster network (macvlan, SR-IOV) and no NAT.

**Source:** docker run(1), --network; measured: a namespace behind masquerade is seen by the node's address
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import Finding, join_names


def rule_container_network(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Ranks run in the network of a container that peers cannot connect to, or that does not reach them."""
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
                what, peers = f"does not reach {join_names(shut)}, which {name} itself does", shut
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
