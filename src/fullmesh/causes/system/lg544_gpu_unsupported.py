"""A program does not support this GPU

The program, or a setting of it, needs another kind of GPU ({detail}): the GPU of this node is too
old for it, or the program does not know it yet (its CUDA toolkit is older than the GPU).

**Place:** the GPU and the environment of the node of this log

**Prove:** on that node: nvidia-smi --query-gpu=name,compute_cap --format=csv; nvcc --version

**Fix:** Use a type or kernel that the GPU has (float16 instead of bfloat16, another attention
backend), choose nodes with newer GPUs, or install a CUDA toolkit that knows the GPU.

**Source:** vllm-project/vllm#50705, read: vLLM's, FlashInfer's and flash-attn's messages
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-544",
    __doc__,
    examples=(
        (
            "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla "
            "V100-SXM2-32GB GPU has compute capability 7.0."
        ),
        "RuntimeError: FlashInfer requires GPUs with sm75 or higher",
    ),
    patterns=(
        Pattern(
            "GPUs with compute capability of at least",
            r"rror: (?P<detail>\w{1,40} is only supported on GPUs with compute capability of at least [\d.]{1,5})",
        ),
        Pattern(
            "requires GPUs with sm",
            r"rror: (?P<detail>\w{1,40} requires GPUs with sm\d{2,3} or higher)",
        ),
        Pattern(
            "only supports Ampere GPUs",
            r"rror: (?P<detail>\w{1,40} only supports Ampere GPUs or newer)",
        ),
    ),
    weight=80,
)
