"""Slurm: the controller cannot be reached

A command or a node could not talk to Slurm's controller ({detail}). slurmctld does not run or is
overloaded, its name or port (6817) cannot be reached, or munge refused the message: keys or clocks
differ.

**Place:** between the node of this log and the controller

**Prove:** on that node: scontrol ping; munge -n | ssh CONTROLLER unmunge; on the controller:
systemctl status slurmctld munge

**Fix:** Start slurmctld, open its port to all nodes and submit hosts, use the same munge key and
slurm.conf everywhere, and synchronize the clocks.

**Source:** AMDResearch/hpcfund#12, read: Slurm's slurm_errno.c
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-338",
    __doc__,
    examples=(
        "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
        "slurmctld: error: Munge decode failed: Invalid credential",
    ),
    patterns=(
        Pattern(
            "Unable to contact slurm controller", r"(?P<detail>Unable to contact slurm controller)"
        ),
        Pattern(
            "Socket timed out on send/recv",
            r"(?:submission failed|allocate \w{6,9}): (?P<detail>Socket timed out on send/recv)",
        ),
        Pattern(
            "establish a configuration source",
            r"(?P<detail>Could not establish a configuration source)",
        ),
        Pattern("Munge ", r"(?P<detail>Munge (?:decode|encode) failed: [\w :]{5,60})"),
        Pattern(
            "authentication e",
            r"\b(?:slurm\w*|srun|sbatch|salloc): .{0,80}(?P<detail>Protocol authentication error)",
        ),
        Pattern(
            "Zero Bytes were transmitted", r"(?P<detail>Zero Bytes were transmitted or received)"
        ),
        Pattern("DNS SRV lookup failed", r"error: .{0,40}(?P<detail>DNS SRV lookup failed)"),
    ),
    explains=(Explains(("LG-329", "LG-743")),),
    weight=89,
)
