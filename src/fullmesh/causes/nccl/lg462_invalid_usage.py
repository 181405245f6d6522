"""NCCL refuses a call as invalid usage

NCCL refused a call as 'invalid usage', and the log does not have its reason. The usual one is that
two ranks of a group use the same GPU. Others are two NCCL libraries in one process, and an interface
that does not exist.

**Place:** the node of this log

**Prove:** run the job again with NCCL_DEBUG=WARN: the line with NCCL WARN has the reason. `nvidia-smi
--query-compute-apps=pid,gpu_bus_id --format=csv` shows GPUs with two ranks.

**Fix:** Give each rank a GPU of its own: CUDA_VISIBLE_DEVICES of a trainer and of an inference server
that it updates must not overlap. Call torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) first.

**Source:** huggingface/trl#3762, read: NCCL's init.cc
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, Severity

CAUSE = LogCause(
    "LG-462",
    __doc__,
    examples=("RuntimeError: NCCL error: invalid usage (run with NCCL_DEBUG=WARN for details)",),
    patterns=(
        Pattern("invalid usage", r"(?:NCCL error|nccl\w{4,40}).{0,200}?invalid usage \(run"),
    ),
    severity=Severity.SYMPTOM,
    follows_any=True,
    is_pointer=True,
)
