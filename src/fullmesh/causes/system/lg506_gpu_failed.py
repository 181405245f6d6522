"""A GPU failed (Xid, ECC, NVLink)

The driver reports a failing GPU ({detail}).

**Place:** the node of this log

**Prove:** run `journalctl -k | grep -i xid`, `nvidia-smi -q -d ECC,PAGE_RETIREMENT` and `dcgmi diag
-r 2`

**Fix:** Remove the node from the inventory, and reset or replace the GPU.

**Source:** NVIDIA's list of Xid errors
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-506",
    __doc__,
    examples=(
        "kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus.",
        "INTERNAL: CUDA_ERROR_NVLINK_UNCORRECTABLE: uncorrectable NVLink error detected during the execution",
    ),
    patterns=(
        # the programs cause 13, 31 and 43, and 45 only follows from another one
        Pattern(
            "NVRM: Xid",
            (
                r"(?P<detail>Xid \(PCI:[\w:.]{1,20}\): "
                r"(?:(?!(?:13|31|43|45)\b)\d+|45\b.{0,120}previous Xid (?!(?:13|31|43|45)\b)\d+))"
            ),
        ),
        Pattern("uncorrectable ECC error", r"(?P<detail>uncorrectable ECC error)"),
        Pattern("uncorrectable NVLink error", r"(?P<detail>uncorrectable NVLink error)"),
        Pattern("GPU has fallen off the bus", r"(?<!Xid)(?P<detail>GPU has fallen off the bus)"),
        # the driver writes it in three lines while it starts or is queried
        Pattern("NVRM: fallen off the bus", r"NVRM: (?P<detail>fallen off the bus)"),
        Pattern("amdgpu: GPU reset", r"(?P<detail>amdgpu: GPU reset(?: begin)?)"),
        Pattern(
            "Unable to determine the device handle",
            r"(?P<detail>Unable to determine the device handle for GPU)",
        ),
        Pattern("hardware stack error", r"CUDA error: (?P<detail>hardware stack error)"),
        Pattern("GPU is lost", r"(?P<detail>(?:NVMLError\w{0,20}: )?GPU is lost)"),
        Pattern(
            "ardware error(UE)", r"amdgpu: .{0,60}(?P<detail>[Uu]ncorrectable hardware error\(UE\))"
        ),
    ),
    explains=(Explains(("LG-402", "LG-403", "LG-404")),),
    weight=94,
)
