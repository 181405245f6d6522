"""An assertion failed on a GPU: an index or a label is out of range

A kernel on a GPU stopped because an assertion failed. Most often the data contain an index or a
label that is out of range (a class, a token of another vocabulary, a position). GPUs work
asynchronously, so the traceback often names a later line.

**Place:** the job's own code or data, on the rank of this log. The network is not involved.

**Prove:** run that rank's batch with CUDA_LAUNCH_BLOCKING=1 and read the first traceback, or run it
on the CPU, which names the index

**Fix:** Correct the labels, token ids or positions that exceed the size of their layer (classes, vocabulary,
positions).

**Source:** torch's CUDA semantics (asynchronous execution), modelscope/ms-swift#3267,
vllm-project/vllm#21731, NVIDIA/nccl#1504
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import RANK_FAILURE_EFFECTS, ExplainOptions, Fields, LogCause, Pattern


def derive_assertion(fields: Fields, _options: ExplainOptions) -> Fields:
    """Return the assertion from the line that has it."""
    text = fields.get("assertion", "")
    return {**fields, "range_note": f"The assertion: {text}." if text else ""}


CAUSE = LogCause(
    "LG-517",
    __doc__,
    examples=(
        "[rank0]: RuntimeError: CUDA error: device-side assert triggered",
        (
            "../aten/src/ATen/native/cuda/Loss.cu:250: nll_loss_forward_reduce_cuda_kernel_2d: "
            "block: [0,0,0], thread: [3,0,0] Assertion `t >= 0 && t < n_classes` failed."
        ),
        "node1:26024:27098 [1] include/alloc.h:125 NCCL WARN Cuda failure 710 'device-side assert triggered'",
    ),
    patterns=(
        Pattern("device-side assert triggered"),
        Pattern(
            "] Assertion `",
            r"block: \[[\d,]{1,40}\], thread: \[[\d,]{1,40}\] Assertion `(?P<assertion>[^`]{1,160})` failed",
        ),
    ),
    explains=(Explains(RANK_FAILURE_EFFECTS),),
    derive=derive_assertion,
    weight=90,
)
