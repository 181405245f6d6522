"""A PCIe device failed

The kernel reports a fatal error of a PCIe device ({detail}). Its driver loses the GPU or NIC, and
processes that use it hang or fail.

**Place:** the node of this log, and the device behind that PCIe port

**Prove:** run `journalctl -k | grep -iE 'AER|PCIe Bus Error'`, `lspci -tv` and `nvidia-smi`

**Fix:** Take the node out of the job and reboot it. If the error returns, reseat the card, the riser or
the cable, update the firmware, or replace the card.

**Source:** MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#146, read: Linux, drivers/pci/pcie/aer.c
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-534",
    __doc__,
    examples=(
        (
            "kernel: pcieport 0000:00:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), "
            "type=Transaction Layer, (Receiver ID)"
        ),
    ),
    patterns=(
        Pattern(
            " (Fatal)",
            (
                r"(?P<detail>(?:\w{1,20} )?[\da-f:.]{7,20}: (?:AER: Uncorrect(?:able|ed) \(Fatal\) error"
                r"|PCIe Bus Error: severity=Uncorrect(?:able|ed) \(Fatal\)))"
            ),
        ),
        Pattern(
            "AER: device recovery failed",
            r"(?P<detail>(?:\w{1,20} )?[\da-f:.]{7,20}: AER: device recovery failed)",
        ),
    ),
    explains=(Explains(("LG-402", "LG-403", "LG-404", "LG-415", "LG-421", "LG-506")),),
    weight=95,
    recorded=(
        RecordedLog(
            "a NIC that is lost",
            (
                "kernel: pcieport 0000:00:00.0: AER: Uncorrectable (Fatal) error message received "
                "from 0000:00:00.0\n"
                "kernel: watchdog: BUG: soft lockup - CPU#3 stuck for 26s! [irq/49-aerdrv:412]"
            ),
        ),
        RecordedLog(
            "corrected errors are harmless",
            "kernel: pcieport 0000:00:03.0: AER: Corrected error received: 0000:00:03.0",
            heads=(),
        ),
    ),
)
