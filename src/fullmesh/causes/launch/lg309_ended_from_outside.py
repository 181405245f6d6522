"""The job was ended from outside (a signal, a scheduler's limit)

{launcher} reports that the job was ended from outside ({signal}): by a closed terminal (SIGHUP,
signal 1), a scheduler's time limit or scancel, or a user's kill.

**Place:** the node of this log

**Prove:** journalctl --since -1d | grep -i -E 'slurm|systemd.*stopp' (Slurm: sacct -j JOB -o
State,Timelimit)

**Fix:** Start the job under systemd (role launchers), tmux or the scheduler, or raise the time
limit.

**Source:** read: torch/distributed/elastic/multiprocessing/api.py SignalException
"""

from __future__ import annotations

from fullmesh.causes.launch.patterns import TORCHRUN
from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-309",
    __doc__,
    examples=(
        (
            "torch.distributed.elastic.multiprocessing.api.SignalException: Process 4242 got "
            "signal: 1"
        ),
    ),
    patterns=(
        Pattern(
            "SignalException: Process",
            r"SignalException: Process \d+ got (?P<signal>signal: \d+)",
            fields=TORCHRUN,
        ),
        Pattern(
            " DUE TO ",
            r"CANCELLED AT \S{1,40} (?P<signal>DUE TO (?:TIME LIMIT|NODE FAILURE|PREEMPTION))",
            fields=(("launcher", "Slurm"),),
        ),
        Pattern(
            "error: Node failure on ",
            r"srun: error: (?P<signal>Node failure on \S{1,120})",
            fields=(("launcher", "Slurm"),),
        ),
    ),
    weight=89,
    recorded=(
        RecordedLog(
            "stopped from outside",
            (
                "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 2410413 "
                "closing signal SIGHUP\n"
                "torch.distributed.elastic.multiprocessing.api.SignalException: Process 4242 "
                "got signal: 1"
            ),
            folded=("LG-310",),
        ),
        RecordedLog(
            "slurm task",
            (
                "srun: error: node2: task 1: Exited with exit code 1\n"
                "slurmstepd: error: *** JOB 7 ON node1 CANCELLED AT 2025-01-01T00:00:00 DUE TO "
                "TIME LIMIT ***"
            ),
            folded=("LG-304",),
        ),
    ),
)
