"""SGLang: another rank did not load its part of the model in time

Rank {rank} loaded its part of the model, but another rank did not in time. That rank failed
(memory, a missing file), or it reads from a slow disk or network.

**Place:** the ranks that do not log this line

**Prove:** find the first error and 'Load weight end' in the logs of the other nodes. On these
nodes, run `dmesg | tail` and `free -g`

**Fix:** Fix the error of the other rank. To load faster, put the model on a local disk of each
node.

**Source:** sgl-project/sglang#4503, read: SGLang's model_runner.py
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, Severity

CAUSE = LogCause(
    "LG-698",
    __doc__,
    examples=(
        (
            "ValueError: TP rank 1 could finish the model loading, but there are other ranks that "
            "didn't finish loading. It is likely due to unexpected failures (e.g., OOM) or a slow node."
        ),
    ),
    patterns=(
        Pattern(
            "could finish the model loading, but",
            r"TP rank (?P<rank>\d{1,6}) could finish the model loading, but there are other ranks",
        ),
    ),
    severity=Severity.SYMPTOM,
    follows_any=True,
    weight=58,
)
