"""The NVIDIA driver reported an error, Xid (a warning if jobs continue)

The driver reports a GPU's errors as Xid and an NVSwitch's as SXid. Some are errors of a program,
some need a reset, and some a new GPU: XIDS.

**Prove:** dmesg | grep -i -E 'nvrm|sxid'

**Fix:** Apply the fix that the finding names for its number. Reports older than 15 min are left
out.

**Source:** NVIDIA, Xid catalog, and Fabric Manager User Guide
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.verify import xids

CAUSE = Cause(
    "VC-113",
    (__doc__ or "").replace("XIDS", xids.describe_all_xids()),
    cases=(
        CauseCase("gpu-xid", "NVRM: Xid 79 in the kernel's log", by=RECORDED),
        CauseCase(
            "gpu-program",
            "NVRM: Xid 31 in the kernel's log: an error of a program",
            by=RECORDED,
            severity="warning",
        ),
    ),
)
