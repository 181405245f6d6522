"""torch loaded a different NCCL from the one that it was built for

torch's library needs {detail}, which the loaded libnccl does not have. That libnccl is older than
torch's own. It comes from LD_LIBRARY_PATH, from the system, or from a second wheel
(nvidia-nccl-cu11 next to -cu12).

**Place:** the Python environment of the node of this log

**Prove:** run `pip list | grep -i nccl` and `ldd .../torch/lib/libtorch_cuda.so | grep nccl`, and
check $LD_LIBRARY_PATH

**Fix:** Keep only the nvidia-nccl wheel that torch requires, and remove folders with another
libnccl from LD_LIBRARY_PATH. Role torch_runtime installs from a lock file.

**Source:** pytorch/pytorch#119932
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-428",
    __doc__,
    examples=(
        (
            "ImportError: /venv/lib/python3.10/site-packages/torch/lib/libtorch_cuda.so: "
            "undefined symbol: ncclCommRegister"
        ),
    ),
    patterns=(
        Pattern("undefined symbol: nccl", r"undefined symbol: (?P<detail>nccl\w{1,60})"),
        Pattern(
            "This application was compiled with",
            r"compiled with (?:too old )?(?:version of )?(?P<detail>NCCL version [\d.]{1,12})",
        ),
    ),
    weight=93,
    recorded=(
        RecordedLog(
            "an older NCCL in the path",
            (
                "[rank0]: ImportError: "
                "/venv/lib/python3.10/site-packages/torch/lib/libtorch_cuda.so: undefined "
                "symbol: ncclCommRegister\n"
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
                "  host      : node1\n"
                "  rank      : 0 (local_rank: 0)\n"
                "  exitcode  : 1 (pid: 14750)\n"
                "  error_file: <N/A>\n"
                "  traceback : <N/A>\n"
                "============================================================\n"
                ""
            ),
            folded=("LG-304",),
        ),
    ),
)
