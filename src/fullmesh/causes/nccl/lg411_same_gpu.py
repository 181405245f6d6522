"""NCCL: two ranks use the same GPU

Ranks {rank} and {other} both use CUDA device {device}: the program does not select the GPU of its
local rank.

**Place:** the node of this log

**Prove:** on that node, run `nvidia-smi --query-compute-apps=pid,gpu_bus_id --format=csv` and `env
| grep -E '^(LOCAL_RANK|CUDA_VISIBLE)'`

**Fix:** Call torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) first, remove fixed devices from
the script, and start no more processes than the node has GPUs.

**Source:** horovod/horovod#3929, verl-project/verl#161
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-411",
    __doc__,
    examples=(
        (
            "node1:29880:30398 [0] init.cc:497 NCCL WARN Duplicate GPU detected : rank 2 and "
            "rank 0 both on CUDA device 1000"
        ),
    ),
    patterns=(
        Pattern(
            "Duplicate GPU detected",
            (
                r"Duplicate GPU detected : rank (?P<rank>\d+) and rank (?P<other>\d+) both on CUDA"
                r" device (?P<device>\w+)"
            ),
        ),
        Pattern(
            "using the same GPU/Partition",
            r"Multiple Ranks are using the same (?P<device>GPU/Partition)",
        ),
    ),
    key=("device",),
    weight=94,
    recorded=(
        RecordedLog(
            "duplicate gpu",
            (
                "smc-gpu-03:29880:30398 [0] init.cc:497 NCCL WARN Duplicate GPU detected : "
                "rank 2 and rank 0 both on CUDA device 1000"
            ),
        ),
    ),
)
