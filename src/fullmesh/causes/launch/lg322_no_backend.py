"""torch has no such backend

init_process_group was asked for a backend that this torch has not: its wheels have Gloo, and NCCL
(which is RCCL in those for ROCm). HCCL comes with torch_npu or Intel's torch, UCC and MPI with a
torch that was built for them. Nothing takes NCCL in its place.

**Where:** the torch of the node of this log, and the job's own code; the network has no part in it

**Prove:** python -c 'import torch.distributed as d; print(d.is_gloo_available(),
d.is_nccl_available(), d.is_ucc_available(), d.is_mpi_available())'

**Fix:** init_process_group('gloo') on processors, 'nccl' on NVIDIA's and AMD's GPUs; for another
one that vendor's torch, from a lock of your own (torch_runtime_requirements), and its import before
the call.

**Source:** read: torch/distributed/distributed_c10d.py, torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-322",
    __doc__,
    looks=(
        "RuntimeError: Distributed package doesn't have NCCL built in",
        "AssertionError: Unknown c10d backend type HCCL",
    ),
    patterns=(
        Pattern(
            "built in",
            r"(?<!Error\(\")Distributed package doesn't have (?P<detail>\w+) built in",
        ),
        Pattern("Unknown c10d backend type", r"Unknown c10d backend type (?P<detail>\w+)"),
    ),
    weight=91,
)
