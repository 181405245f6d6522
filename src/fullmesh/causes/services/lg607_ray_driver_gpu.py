"""vLLM: Ray gives the driver's node no GPU

The process that starts the engine runs on a node for which Ray has no GPU ({detail}). The head has
no GPU, Ray did not count it (--num-gpus), or VLLM_HOST_IP differs from the address that Ray knows.

**Place:** the node of this log, and its address in Ray

**Prove:** compare nodes, addresses and GPUs in `ray status` and `ray list nodes` with `hostname -I`
on this node

**Fix:** Start the engine on a node with a GPU, start Ray with --node-ip-address and --num-gpus on
every node, and set VLLM_HOST_IP to the same address.

**Source:** vllm-project/vllm#7815, #2406, read: vLLM's ray_utils.py
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-607",
    __doc__,
    examples=(
        (
            "ValueError: Ray does not allocate any GPUs on the driver node. Consider adjusting "
            "the Ray placement group or running the driver on a GPU node."
        ),
    ),
    patterns=(
        Pattern(
            "Ray does not allocate any GPUs",
            r"(?P<detail>Ray does not allocate any GPUs on the driver node)",
        ),
        Pattern(
            "Current node has no GPU available", r"(?P<detail>Current node has no GPU available)"
        ),
    ),
    explains=(Explains(("LG-684",)),),
    weight=88,
)
