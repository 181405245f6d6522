"""Slurm: its configuration does not match a node

A node has less or other hardware than slurm.conf or gres.conf says ({detail}). Slurm drains such a
node or does not start its daemon, and jobs that ask for it wait or are rejected.

**Place:** slurm.conf and gres.conf, and the node that the message names

**Prove:** on that node: slurmd -C; slurmd -G; nvidia-smi -L; on the controller: sinfo -R

**Fix:** Write what slurmd -C and slurmd -G print into slurm.conf (NodeName, GresTypes) and gres.conf
(AutoDetect=nvml), the same files on all nodes, then run scontrol reconfigure.

**Source:** read: Slurm's slurmd and gres plugins
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-341",
    __doc__,
    examples=(
        "slurmd: error: Node configuration differs from hardware: CPUs=2:4(hw) Boards=1:1(hw)",
        "slurmctld: error: Node node2 has low real_memory size (1000 < 2000)",
        "slurmd: fatal: We have more configured than detected gres",
    ),
    patterns=(
        Pattern(
            "configuration differs from hardware",
            r"error: (?P<detail>Node configuration differs from hardware: \S{1,40})",
        ),
        Pattern(
            "count reported lower than configured",
            r"(?P<detail>gres/\w{1,20} count reported lower than configured \(\d{1,4} < \d{1,4}\))",
        ),
        Pattern(
            " has low ", r"(?P<detail>Node \S{1,80} has low \w{3,20} (?:size|count)[^\n]{0,40})"
        ),
        Pattern(
            "more configured than ",
            r"fatal: (?P<detail>\w{0,4} ?have more configured than \w{1,20} \w{1,10})",
        ),
        Pattern(
            "without gres.conf", r"fatal: (?P<detail>Can not use gres/\w{1,20} without gres\.conf)"
        ),
        Pattern(
            "this slurmd's NodeName",
            r"fatal: (?P<detail>Unable to determine this slurmd's NodeName)",
        ),
    ),
    weight=84,
)
