"""vLLM or SGLang: the GPU memory is too small for the model and its cache

The engine did not start, because the free GPU memory is too small for its settings ({detail}).
Other processes use the GPU, or the model, its context length or the share of memory is too large.

**Place:** the GPUs of the node of this log

**Prove:** on that node: nvidia-smi --query-compute-apps=pid,gpu_bus_id,used_memory --format=csv

**Fix:** End the other processes. Then use more GPUs for a model (tensor parallel size), a shorter
--max-model-len, or another --gpu-memory-utilization (SGLang: --mem-fraction-static).

**Source:** read: vLLM's gpu_worker.py and kv_cache_utils.py, SGLang's model_runner.py
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-606",
    __doc__,
    examples=(
        (
            "ValueError: Free memory on device (10.0/79.1 GiB) on startup is less than desired "
            "GPU memory utilization (0.9, 71.2 GiB). Decrease GPU memory utilization or reduce "
            "GPU memory used by other processes."
        ),
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
    ),
    patterns=(
        Pattern(
            "is less than desired GPU memory utilization",
            r"(?P<detail>Free memory on device.{1,60} is less than desired)",
        ),
        Pattern(
            "No available memory for the cache blocks",
            r"(?P<detail>No available memory for the cache blocks)",
        ),
        Pattern(
            "KV cache is needed, which is larger", r"(?P<detail>[\d.]{1,12} GiB KV cache is needed)"
        ),
        Pattern(
            "Not enough memory. Please try",
            r"(?P<detail>Not enough memory)\. Please try (?:to increase |increasing )?--mem-fraction",
        ),
        Pattern("memory capacity is unbalanced", r"(?P<detail>The memory capacity is unbalanced)"),
        Pattern(
            "stored in KV cache",
            r"(?P<detail>larger than the maximum number of tokens that can be stored in KV cache)",
        ),
        Pattern("Error in memory profiling", r"rror: (?P<detail>Error in memory profiling)"),
        Pattern(
            "when warming up sampler", r"(?P<detail>CUDA out of memory occurred when warming up)"
        ),
    ),
    weight=90,
)
