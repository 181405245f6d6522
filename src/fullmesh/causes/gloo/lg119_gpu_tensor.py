"""Gloo: a tensor of a GPU was sent with send or recv

Gloo cannot read the memory of a GPU: {detail}. Its collectives copy such tensors to the CPU, but
send and recv do not.

**Place:** the call of send, recv, batch_isend_irecv or a pipeline stage on the rank of this log

**Prove:** look for `backend="gloo"` in the program, and for the device of the tensor in that call

**Fix:** Use NCCL for tensors of GPUs: init_process_group() without a backend gives GPU tensors to
NCCL and CPU tensors to Gloo. With Gloo, send tensor.cpu() instead.

**Source:** recorded: torch 2.11.0 with CUDA 13.0
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-119",
    __doc__,
    examples=(
        "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:339] writev [192.0.2.2]:60634: Bad address",
    ),
    patterns=(
        Pattern(
            ": Bad address",
            r"/gloo/transport/\w{1,20}/\w{1,20}\.cc:\d{1,5}\]"
            r" (?P<detail>(?:writev?|readv?|Read error) .{1,80}: Bad address)",
        ),
    ),
    explains=(Explains(("LG-112",)),),
    weight=80,
)
