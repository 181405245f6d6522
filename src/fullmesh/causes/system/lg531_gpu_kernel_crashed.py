"""A GPU kernel crashed

A kernel failed on this rank's GPU ({detail}). The program or a library accesses wrong memory, or
the GPU is faulty. Later GPU calls of the rank fail, too, and the other ranks wait for it.

**Place:** the rank of this log

**Prove:** run `journalctl -k | grep -i xid` on that node, and repeat the job with
CUDA_LAUNCH_BLOCKING=1

**Fix:** If the kernel's log has Xid 48, 63, 64, 79, 94 or 95, the GPU is faulty: follow LG-506. Xid
13 and 31 point to the program. For AMD GPUs, unset HSA_OVERRIDE_GFX_VERSION if it names another kind
of GPU, read `dmesg | grep amdgpu`, and update the firmware.
Update or switch off the library whose kernel the traceback names.

**Source:** read: CUDA's errors 700, 716 and 719, ROCr's runtime.cpp, ROCm/ROCm#5616,
ROCm/legacy-rocm-build#5238
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import RANK_FAILURE_EFFECTS, LogCause, Pattern

CAUSE = LogCause(
    "LG-531",
    __doc__,
    examples=(
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "n:1:2 [0] alloc.h:5 NCCL WARN Cuda failure 719 'unspecified launch failure'",
    ),
    patterns=(
        Pattern(
            "illegal memory access was encountered",
            r"(?P<detail>an illegal memory access was encountered)",
        ),
        Pattern("unspecified launch failure", r"(?P<detail>unspecified launch failure)"),
        Pattern(
            "emory access fault by GPU",
            r"(?P<detail>Memory access fault by GPU node-\d{1,3})",
        ),
        Pattern("HSA_STATUS_ERROR_", r"(?P<detail>HSA_STATUS_ERROR_(?!OUT_OF)[A-Z_]{1,60})"),
        Pattern("HW Exception by GPU", r"(?P<detail>HW Exception by GPU node-\d{1,3})"),
        Pattern("NVRM: Xid", r"(?P<detail>Xid \(PCI:[\w:.]{1,20}\): (?:13|31|43))\b"),
        Pattern("misaligned address", r"CUDA error: (?P<detail>misaligned address)"),
        Pattern(
            "illegal instruction was encountered",
            r"(?P<detail>an illegal instruction was encountered)",
        ),
        Pattern(
            "launch timed out and was terminated",
            r"(?P<detail>the launch timed out and was terminated)",
        ),
        *(
            Pattern(words, rf"(?:rror|ailed|eturns|ailure).{{0,200}}\b(?P<detail>{words})\b")
            for words in (
                "CUDA_ERROR_ILLEGAL_ADDRESS",
                "CUDA_ERROR_LAUNCH_FAILED",
                "hipErrorIllegalAddress",
                "hipErrorLaunchFailure",
                "UR_RESULT_ERROR_DEVICE_LOST",
            )
        ),
        Pattern("amdgpu: ring ", r"amdgpu: (?P<detail>ring \w[\w.]{1,30} timeout)"),
        Pattern("error code is 507", r"(?P<detail>(?:\w{3,40} )?error code is 507\d{3})"),
    ),
    explains=(Explains(RANK_FAILURE_EFFECTS),),
    weight=78,
)
