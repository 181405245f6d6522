"""Harmless on one node: DeepSpeed found no hostfile

The deepspeed command found no hostfile and starts on this node alone. That is correct for one node.

**Prove:** look for WORLD INFO DICT and dist_world_size in the log

**Fix:** Nothing to do on one node. For several nodes, add --hostfile /etc/fullmesh/hostfile
(docs/launchers.md).

**Source:** read: deepspeed/launcher/runner.py, deepspeedai/DeepSpeedExamples#575
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, Severity

CAUSE = LogCause(
    "LG-961",
    __doc__,
    examples=(
        (
            "[2023-06-06 02:44:00,164] [WARNING] [runner.py:191:fetch_hostfile] Unable to find "
            "hostfile, will proceed with training with local resources only."
        ),
    ),
    patterns=(Pattern("Unable to find hostfile, will proceed with training with local"),),
    severity=Severity.HARMLESS,
)
