"""The kernel or the cgroup killed a process because memory ran out

The out-of-memory killer, or Ray's memory monitor, ended a process ({detail}).

**Place:** the node of this log

**Prove:** run `journalctl -k --since -1d | grep -i -E 'oom|killed process'` and `systemctl show
UNIT -p MemoryMax`

**Fix:** Give the unit, pod or job more memory, or use fewer DataLoader workers or smaller batches.

**Source:** kernel mm/oom_kill.c, the messages of Slurm, Ray and Kubernetes
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import RANK_FAILURE_EFFECTS, LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-501",
    __doc__,
    examples=(
        "kernel: Out of memory: Killed process 14750 (python3) total-vm:81920000kB",
        (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=42.0. Some of the step tasks "
            "have been OOM Killed."
        ),
    ),
    patterns=(
        Pattern("Killed process", r"(?P<detail>Killed process \d+ \([^)]{1,40}\))"),
        Pattern("oom_kill event", r"(?P<detail>Detected \d+ oom[_-]kill events?)"),
        Pattern("OOMKilled", r"(?P<detail>OOMKilled)(?!\"?\s*:\s*false)"),
        Pattern(
            "srun: error: ",
            r"srun: error: (?P<detail>\S{1,80}: tasks? \S{1,40}: Out Of Memory)",
        ),
        Pattern(
            "killed due to memory pressure",
            r"(?P<detail>[1-9]\d{0,6} Workers \(tasks / actors\) killed due to memory pressure)",
        ),
        Pattern(
            "A process of this unit has been killed by the OOM killer",
            r"(?P<detail>by the OOM killer)",
        ),
        Pattern("oom-kill event", r"(?P<detail>Detected \d+ oom-kill event)"),
        Pattern(
            "xceeded job memory limit", r"slurm\w*: error: (?P<detail>Exceeded job memory limit)"
        ),
        Pattern(
            "exceeded memory limit (",
            r"slurm\w*: error: (?P<detail>\S{3,20}(?: \d{1,12})? exceeded memory limit)",
        ),
        Pattern("result 'oom-kill'", r"(?P<detail>Failed with result 'oom-kill')"),
        Pattern(
            "TERM_MEMLIMIT", r"(?P<detail>TERM_MEMLIMIT: job killed after reaching LSF memory)"
        ),
        Pattern("job killed: ", r"job killed: (?P<detail>v?mem \w{1,20} exceeded limit)"),
        Pattern("OUT_OF_ME", r"(?<![\w'\"])(?P<detail>OUT_OF_ME(?:MORY|\+))(?![\w'\"])"),
    ),
    explains=(Explains((*RANK_FAILURE_EFFECTS, "LG-305")),),
    weight=96,
    recorded=(
        RecordedLog(
            "oom",
            (
                "[rank0]: RuntimeError: [x/pair.cc:547] Connection closed by peer "
                "[10.77.0.12]:3519\n"
                "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
                "============================================================\n"
                "train.py FAILED\n"
                "------------------------------------------------------------\n"
                "Failures:\n"
                "  <NO_OTHER_FAILURES>\n"
                "------------------------------------------------------------\n"
                "Root Cause (first observed failure):\n"
                "[0]:\n"
                "  time      : 2025-05-21_15:43:03\n"
                "  host      : node2\n"
                "  rank      : 1 (local_rank: 0)\n"
                "  exitcode  : -9 (pid: 14750)\n"
                "  error_file: <N/A>\n"
                "  traceback : Signal 9 (SIGKILL) received by PID 14750\n"
                "============================================================\n"
                "kernel: Out of memory: Killed process 14750 (python3) total-vm:81920000kB"
            ),
            folded=("LG-112", "LG-305"),
        ),
        RecordedLog(
            "slurm oom per task",
            "srun: error: node2: task 1: Out Of Memory",
        ),
    ),
)
