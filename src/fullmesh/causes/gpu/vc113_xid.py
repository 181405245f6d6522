"""the NVIDIA driver reported an error, Xid (a warning where jobs go on)

An Xid is the driver's report of a GPU's error, an SXid an NVSwitch's. Some are a program's own fault, some ask for a
reset, some for another card: XIDS.

**Prove:** dmesg | grep -i -E 'nvrm|sxid'

**Fix:** What the finding says for its number. A report is named for a quarter of an hour.

**Source:** NVIDIA, Xid catalog; Fabric Manager User Guide
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
            "NVRM: Xid 31 in the kernel's log: a program's own fault",
            by=RECORDED,
            severity="warning",
        ),
    ),
)
