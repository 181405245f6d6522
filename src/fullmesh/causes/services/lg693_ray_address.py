"""Ray: a process looks for its node at an address that Ray does not know

A process of Ray found the address {address} for its own node, but no node is registered with it.
The node was started with another address (--node-ip-address), or it runs in a container with its
own addresses.

**Place:** the node with {address}

**Prove:** compare the addresses in `ray status` with `ip -brief addr` on that node

**Fix:** Start Ray on every node with the cluster's address (--node-ip-address, which fullmesh-ray
sets). Name the service in fullmesh_services and run site.yml (docs/services.md).

**Source:** ray-project/ray#33554
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-693",
    __doc__,
    examples=(
        (
            "(raylet, ip=10.19.4.7) [2023-03-21 21:53:44,254 I 76852 76852] "
            "global_state_accessor.cc:356: This node has an IP address of 10.19.4.7, while we "
            "can not find the matched Raylet address."
        ),
    ),
    patterns=(
        Pattern(
            "the matched Raylet address",
            r"This node has an IP address of (?P<address>\S{3,60}), while we can ?not find the matched"
            r" Raylet address",
        ),
    ),
    weight=83,
)
