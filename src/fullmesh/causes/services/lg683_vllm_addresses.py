"""vLLM: the number of nodes and the number of addresses differ

vLLM sees {nodes} nodes and {addresses} addresses. A process uses the address of another interface
than the one that Ray uses, or VLLM_HOST_IP is the same on two nodes.

**Place:** the node whose address is in another network (the message lists the addresses in braces)

**Prove:** on every node, compare `echo $VLLM_HOST_IP`, `ray status` and `ip route get 8.8.8.8`

**Fix:** Start Ray with fullmesh-ray, which sets VLLM_HOST_IP for each node's workers, and vllm
serve with VLLM_HOST_IP=$FULLMESH_ADDRESS (docs/services.md).

**Source:** read: vllm/executor/ray_distributed_executor.py, vllm#7815, vllm#43095
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-683",
    __doc__,
    examples=(
        (
            "RuntimeError: Every node should have a unique IP address. Got 2 nodes with node ids "
            "['3f1e', '88ab'] and 3 unique IP addresses {'10.78.2.11', '10.78.2.12', "
            "'192.168.1.12'}. Please check your network configuration. If you set `VLLM_HOST_IP` "
            "environment variable, make sure it is unique for each node."
        ),
    ),
    patterns=(
        Pattern(
            "Every node should have a unique IP address",
            r"Every node should have a unique IP address\. Got (?P<nodes>\d+) nodes .{0,2000}?and"
            r" (?P<addresses>\d+) unique IP addresses",
        ),
    ),
    weight=93,
)
