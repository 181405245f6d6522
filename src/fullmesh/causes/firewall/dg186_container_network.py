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

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node

CAUSE = Cause(
    "DG-186",
    __doc__,
    weight=910,
    explains=(Explains(("DG-108",), has_same_node),),
    cases=(CauseCase("container-nat", "a rank in a network namespace behind masquerade"),),
)
