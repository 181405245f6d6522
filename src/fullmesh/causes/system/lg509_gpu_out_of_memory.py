"""A GPU ran out of memory

A rank ran out of GPU memory{detail}.

**Prove:** run `nvidia-smi` on that node to see whether another process uses the memory

**Fix:** Use a smaller batch, activation checkpointing or sharding, or set
PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.

**Source:** read: c10's CUDACachingAllocator
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import AS_LAST, RANK_FAILURE_EFFECTS, LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-509",
    __doc__,
    examples=(
        (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a "
            "total capacity of 79.10 GiB"
        ),
    ),
    patterns=(
        # also inside another program's words
        Pattern(
            " out of memory",
            (
                r"(?:Error|Exception): (?:[\w ]{1,60}: )?(?:CUDA|HIP|XPU|NPU|MLU|HPU|MUSA) out of memory"
                r"\.?(?P<detail>(?: Tried to allocate [\d.]+ \w+)?)"
            ),
        ),
        Pattern("error: out of memory", r"Error: (?:CUDA|HIP) error: out of memory(?P<detail>)"),
        Pattern(
            "Triton Error [CUDA]: out of memory",
            r"Triton Error \[CUDA\]: out of memory(?P<detail>)",
        ),
        Pattern(
            "driver error: out of memory", r"Error: CUDA driver error: out of memory(?P<detail>)"
        ),
        # these libraries need memory of their own when they start
        *(
            Pattern(
                words,
                rf"rror: .{{0,40}}(?P<detail>)CU\w{{2,6}}{words}",
                fields=(("detail", ", or too little is left for a library of CUDA"),),
            )
            for words in ("_STATUS_ALLOC_FAILED", "_STATUS_NOT_INITIALIZED")
        ),
        Pattern(
            "RESOURCE_EXHAUSTED: ",
            r"RESOURCE_EXHAUSTED: .{0,80}[Oo]ut of memory .{0,60}?(?P<detail> \d{1,20} bytes)",
        ),
        Pattern("Cuda failure", AS_LAST + r"Cuda failure (?:\d+ )?'out of memory'(?P<detail>)"),
        Pattern("Failed to CUDA ", AS_LAST + r"Failed to CUDA (?:m|c)alloc(?P<detail>)"),
        # programs that are not torch, in their own words around the runtime's
        Pattern(
            "out of memory",
            r"(?:[Cc]uda|CUDA|[Hh]ip|HIP|XPU|NPU|MPS)\w{0,40}\b.{0,120}(?:[Ee]rror|ERROR|[Ff]ailed|[Ff]ailure)\b"
            r".{0,160}?: ['\"]?out of memory(?P<detail>)",
        ),
        Pattern("backend out of memory", r"(?:MPS|XPU) backend out of memory(?P<detail>)"),
        Pattern("Allocation on device", r"OutOfMemoryError: Allocation on device(?P<detail>)"),
        Pattern("out_of_memory: CUDA", r"bad_alloc: out_of_memory: CUDA error(?P<detail>)"),
        *(
            Pattern(words, rf"(?:rror|ailed|eturns|ailure).{{0,200}}\b{words}\b(?P<detail>)")
            for words in (
                "CUDA_ERROR_OUT_OF_MEMORY",
                "hipErrorOutOfMemory",
                "cudaErrorMemoryAllocation",
                "UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY",
                "ErrorOutOfDeviceMemory",
                "kIOGPUCommandBufferCallbackErrorOutOfMemory",
            )
        ),
        Pattern(
            "Out of memory allocating ",
            r"OutOfMemoryError: Out of memory allocating(?P<detail> [\d,]{1,24} bytes)",
        ),
        Pattern(
            "OOM when allocating tensor", r"OOM when allocating tensor .{0,120}GPU:\d(?P<detail>)"
        ),
        Pattern("Out of memory error on GPU", r"Out of memory error on GPU \d(?P<detail>)"),
    ),
    explains=(Explains(RANK_FAILURE_EFFECTS),),
    weight=91,
    recorded=(
        RecordedLog(
            "pattern 4 beside EFA, and a program that fails by itself",
            (
                "n:1:2 [0] NCCL INFO NET/OFI Selected Provider is efa\n"
                "n:1:2 [0] NCCL WARN Could not find a path for pattern 4, falling back to "
                "simple order\n"
                "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 "
                "GiB."
            ),
            folded=("LG-426",),
        ),
        RecordedLog(
            "cuda oom",
            (
                "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 "
                "GiB. GPU 0 has a total capacity of 79 GiB"
            ),
        ),
        RecordedLog(
            "cuda oom in nccl",
            "n:1:2 [0] include/alloc.h:187 NCCL WARN Cuda failure 2 'out of memory'",
        ),
    ),
)
