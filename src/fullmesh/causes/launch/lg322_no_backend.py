"""torch has no such backend

init_process_group asked for a backend that this torch lacks. torch's wheels have Gloo and NCCL
(RCCL in those for ROCm). HCCL comes with torch_npu or Intel's torch. UCC and MPI need a torch that
was built with them. torch does not replace a missing backend by NCCL.

**Place:** the torch of the node of this log, and the job's own code. It is not a network fault

**Prove:** python -c 'import torch.distributed as d; print(d.is_gloo_available(),
d.is_nccl_available(), d.is_ucc_available(), d.is_mpi_available())'

**Fix:** Use init_process_group('gloo') on CPUs and 'nccl' on NVIDIA's and AMD's GPUs. For another
backend, install that vendor's torch from your own lock (torch_runtime_requirements), and import its
module before the call.

**Source:** read: torch/distributed/distributed_c10d.py, torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-322",
    __doc__,
    examples=(
        "RuntimeError: Distributed package doesn't have NCCL built in",
        "AssertionError: Unknown c10d backend type HCCL",
    ),
    patterns=(
        Pattern(
            "built in",
            r"(?<!Error\(\")Distributed package doesn't have (?P<detail>\w+) built in",
        ),
        Pattern("Unknown c10d backend type", r"Unknown c10d backend type (?P<detail>\w+)"),
    ),
    weight=91,
    recorded=(
        RecordedLog(
            "a backend that torch has not",
            (
                '[rank0]:   File "/srv/jobs/train.py", line 12, in main\n'
                '[rank0]:     dist.init_process_group("hccl")\n'
                '[rank0]:     raise AssertionError(f"Unknown c10d backend type '
                '{backend_str.upper()}")\n'
                "[rank0]: AssertionError: Unknown c10d backend type HCCL\n"
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
                "  traceback : x\n"
                "============================================================\n"
                ""
            ),
            folded=("LG-304",),
        ),
        RecordedLog(
            "torch's wheels have no MPI",
            (
                "RuntimeError: Distributed package doesn't have MPI built in. MPI is only "
                "included if you build PyTorch from source on a host that has MPI installed."
            ),
        ),
    ),
)
