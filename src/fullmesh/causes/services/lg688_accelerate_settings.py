"""Accelerate: its settings lack the number of processes

accelerate launch got no total number of processes over all nodes, or one that is too small.

**Place:** the node that printed this

**Prove:** run `accelerate env` and read the file below ~/.cache/huggingface/accelerate

**Fix:** Start with fullmesh-accelerate, or pass the file that fullmesh-accelerate config writes to
--config_file.

**Source:** read: accelerate/commands/launch.py of 1.15
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-688",
    __doc__,
    examples=(
        "ValueError: You need to use at least 2 processes to use `--multi_gpu`.",
        "ValueError: You need to manually pass in `--num_processes` using this config yaml.",
    ),
    patterns=(
        Pattern("You need to use at least 2 processes to use `--multi_gpu`"),
        Pattern("You need to manually pass in `--num_processes` using this config yaml"),
    ),
    weight=94,
)
