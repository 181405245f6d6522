"""vLLM: it counts the GPUs of one node only

vLLM should use {wanted} GPUs but uses only this node's {present}, because no option names other
nodes.

**Place:** the command line of vllm serve

**Prove:** compare `nvidia-smi -L | wc -l` with `ray status`, if you use Ray

**Fix:** With Ray, add --distributed-executor-backend ray after the cluster is complete. Without
Ray, set --nnodes, --node-rank and --master-addr on every node. Or use a smaller
--tensor-parallel-size. See docs/services.md.

**Source:** read: vLLM's config/parallel.py
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-697",
    __doc__,
    examples=(
        (
            "  Value error, World size (16) is larger than the number of available GPUs (8) in this "
            "node. If this is intentional and you are using:"
        ),
    ),
    patterns=(
        Pattern(
            "the number of available GPUs (",
            (
                r"(?:World size|Tensor parallel size) \((?P<wanted>\d{1,5})\) (?:is|cannot be) larger than "
                r"the number of available GPUs \((?P<present>\d{1,4})\)"
            ),
        ),
    ),
    weight=88,
)
