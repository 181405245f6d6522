"""Store: this torch is built without libuv

torch's store should use libuv (the default since torch 2.4), but this torch is built without it.
torch's wheels for Windows are.

**Place:** the node of this log

**Prove:** python -c 'import torch; print(torch.__version__)'

**Fix:** Set USE_LIBUV=0 for torchrun and every rank (or ?use_libuv=0 in the init method), or use a
torch with libuv.

**Source:** pytorch/pytorch#148283, read: torch/distributed/rendezvous.py
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-216",
    __doc__,
    examples=("RuntimeError: use_libuv was requested but PyTorch was build without libuv support",),
    patterns=(
        Pattern(
            "use_libuv was requested",
            r"use_libuv was requested but PyTorch was buil[dt] without",
        ),
    ),
    weight=93,
)
