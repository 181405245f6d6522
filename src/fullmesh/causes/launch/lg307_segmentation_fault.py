"""A rank crashed in native code (SIGSEGV)

{Who} crashed in native code (SIGSEGV), often because builds of torch, CUDA, NCCL or an extension do
not match.

**Place:** {who}

**Prove:** coredumpctl info, or start the rank with python -X faulthandler. ./fullmesh verify -i
INVENTORY finds different versions (VC-104)

**Fix:** Install from one lock file on all nodes (role torch_runtime), and rebuild extensions
against the installed torch.

**Source:** read: the formats of torchrun, srun, Open MPI, UCX, faulthandler and the kernel,
NVIDIA/nccl#795
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.launch.patterns import (
    build_crash_patterns,
    build_signal_patterns,
    derive_rank_host,
)
from fullmesh.causes.logs import RANK_FAILURE_EFFECTS, LogCause, Pattern, RecordedLog, Severity

CAUSE = LogCause(
    "LG-307",
    __doc__,
    examples=(
        (
            "  host      : node2\n"
            "  rank      : 1 (local_rank: 0)\n"
            "  exitcode  : -11 (pid: 14750)\n"
            "  error_file: <N/A>\n"
            "  traceback : Signal 11 (SIGSEGV) received by PID 14750"
        ),
        "srun: error: gpu12: task 3: Segmentation fault (core dumped)",
        "Fatal Python error: Segmentation fault",
        "[gpu12:90211] Signal: Segmentation fault (11)",
        (
            "[gpu12:90211:0:90211] Caught signal 11 (Segmentation fault: address not mapped to "
            "object at address 0x18)"
        ),
    ),
    patterns=(
        *build_signal_patterns(11, "SIGSEGV"),
        *build_crash_patterns(11, "SIGSEGV"),
        Pattern("segfault at ", r"\w\[\d+\]: segfault at [0-9a-f]+ ip (?P<rank>)(?P<host>)"),
        Pattern(
            "Segfault encountered", r"!!!!!!! Segfault encountered !!!!!!!(?P<rank>)(?P<host>)"
        ),
    ),
    explains=(Explains(RANK_FAILURE_EFFECTS),),
    derive=derive_rank_host,
    severity=Severity.SYMPTOM,
    follows_any=True,
    weight=72,
    recorded=(
        RecordedLog(
            "sigsegv",
            (
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
                "  exitcode  : -11 (pid: 14750)\n"
                "  error_file: <N/A>\n"
                "  traceback : Signal 11 (SIGSEGV) received by PID 1\n"
                "============================================================\n"
                ""
            ),
        ),
    ),
)
