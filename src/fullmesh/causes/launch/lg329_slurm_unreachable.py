"""Slurm: a node did not answer the launch of a step

srun could not start the step on all nodes ({detail}). A node's slurmd does not run or cannot be
reached, or the launched container did not start in time.

**Place:** the node that the message names

**Prove:** run `sinfo -R` and `scontrol show node NODE`, and on that node: journalctl -u slurmd
--since -1h

**Fix:** Open Slurm's ports (SlurmdPort, SrunPortRange) between the nodes, fix the node, and set it
to resume. If a large image is the reason, import it before the step.

**Source:** StanfordLegion/gasnet#25, read: Slurm's messages
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-329",
    __doc__,
    examples=(
        (
            "srun: error: Task launch for StepId=96.0 failed on node n2: Communication "
            "connection failure"
        ),
    ),
    patterns=(
        Pattern(
            "Task launch for StepId=",
            r"(?P<detail>Task launch for StepId=\S{1,30} failed on node [\w.-]{1,80})",
        ),
        Pattern("timeout waiting for task launch", r"(?P<detail>timeout waiting for task launch)"),
        Pattern("slurm_receive_msg", r"(?P<detail>slurm_receive_msgs?): \[\["),
    ),
    weight=80,
)
