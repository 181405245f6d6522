"""Accelerate: its settings do not say how many processes

accelerate launch was not told, or told too small, how many processes there are over all nodes.

**Where:** the node that printed this

**Prove:** accelerate env; the file below ~/.cache/huggingface/accelerate

**Fix:** Start with fullmesh-accelerate, or give --config_file what fullmesh-accelerate config
writes.

**Source:** read: accelerate/commands/launch.py of 1.15
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-688",
    __doc__,
    looks=(
        "ValueError: You need to use at least 2 processes to use `--multi_gpu`.",
        "ValueError: You need to manually pass in `--num_processes` using this config yaml.",
    ),
    patterns=(
        Pattern("You need to use at least 2 processes to use `--multi_gpu`"),
        Pattern("You need to manually pass in `--num_processes` using this config yaml"),
    ),
    weight=94,
)
