"""Explain Xids of NVIDIA's driver and their fixes, in one table for verification, diagnosis and pages.

Numbers, meanings and actions come from NVIDIA's Xid catalog ("Analyzing Xid Errors with the Xid Catalog", for Ampere
and newer). SXids, those of NVSwitches, state themselves whether they are fatal (NVIDIA, Fabric Manager User Guide).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus.
XID = re.compile(r"NVRM: Xid \((?:PCI:)?(?P<bus>[0-9a-fA-F:.]+)\): (?P<number>\d+)")
# Newer drivers report 79 only as text: NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.
FALLEN = re.compile(r"NVRM: .*fallen off the bus", re.IGNORECASE)
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?", re.IGNORECASE)
# nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 24007, Fatal, Link 44 sourcetrack timeout error
SXID = re.compile(
    r"nvidia-nvswitch\S*: SXid \((?:PCI:)?(?P<bus>[0-9a-fA-F:.]+)\): (?P<number>\d+), (?P<kind>Fatal|Non-fatal)",
    re.IGNORECASE,
)
# Xid 154 accompanies others and names the required action: ... changed from 0x0 (None) to 0x2 (Node Reboot Required)
RECOVERY = re.compile(r"recovery action changed from .* to \S+ \((?P<action>[^)]+)\)", re.I)
OFF_THE_BUS, ASKS = 79, 154

PROGRAM = "run that program in cuda-gdb or compute-sanitizer. The GPU is healthy"
AGAIN = "start the job again. If it returns, ask the GPU's vendor"
RESET = "without any program on the GPUs: nvidia-smi --gpu-reset, or reboot. If it returns, replace the GPU"
LINKS = "reboot, then nvidia-smi nvlink -s and -e on both ends. If it returns, replace the baseboard, bridge or cable"
GSP = "reboot. If it returns, power-cycle it, then try another driver of its branch"


@dataclass(frozen=True)
class XidMeaning:
    """The meaning of a number.

    Attributes:
        words: its meaning.
        cure: its fix.
        stops: no job completes on this GPU before the fix. Otherwise the GPU works, or only one program was ended.
    """

    words: str
    cure: str
    stops: bool = False


UNKNOWN = XidMeaning("an error that Fullmesh does not know", "look it up in NVIDIA's Xid catalog")
COPY = XidMeaning("a copy engine of the GPU failed", AGAIN)
NVLINK5 = XidMeaning("an NVLink failed (fifth generation)", LINKS, stops=True)
MEANINGS: Mapping[int, XidMeaning] = {
    8: XidMeaning("the GPU stopped working on a program", AGAIN),
    13: XidMeaning("a program used the GPU incorrectly, mostly an access out of bounds", PROGRAM),
    31: XidMeaning("a program accessed invalid memory of the GPU (page fault)", PROGRAM),
    32: XidMeaning("commands arrived damaged at the GPU, mostly because of the PCIe bus", AGAIN),
    **dict.fromkeys((39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136)), COPY),
    43: XidMeaning("a program was ended after its own fault", PROGRAM),
    45: XidMeaning(
        "a program was killed, or ended by an earlier error",
        "fix the Xid before it, if any",
    ),
    46: XidMeaning("the GPU stopped working", RESET, stops=True),
    48: XidMeaning("memory of the GPU failed and ECC could not correct it", RESET, stops=True),
    54: XidMeaning(
        "the GPU has no auxiliary power", "check its power cables, with the machine off", stops=True
    ),
    62: XidMeaning("a controller inside the GPU halted", RESET, stops=True),
    63: XidMeaning(
        "broken memory of the GPU was set aside",
        "nvidia-smi --gpu-reset, or a reboot, when no job runs",
    ),
    64: XidMeaning("broken memory of the GPU could not be set aside", RESET, stops=True),
    69: XidMeaning("a program gave the GPU an unknown command", PROGRAM),
    74: XidMeaning("an NVLink failed, at this GPU or at the other end", LINKS, stops=True),
    79: XidMeaning(
        "the GPU has fallen off the bus",
        "power-cycle it. See lspci -vv and the log before it (PCIe errors). Reseat or replace the GPU, its riser "
        "or its power cables",
        stops=True,
    ),
    92: XidMeaning(
        "many errors of memory that ECC corrected",
        "nvidia-smi -q -d ECC. If it goes on, ask the GPU's vendor",
    ),
    94: XidMeaning("memory failed, and only the program that used it was ended", AGAIN),
    95: XidMeaning("memory failed, and any program there may have wrong values", RESET, stops=True),
    109: XidMeaning(
        "the GPU did not switch from one program to another in time", RESET, stops=True
    ),
    110: XidMeaning(
        "a security fault of the GPU, mostly of its hardware",
        "undo recent changes to the machine and power-cycle it. If it returns, ask the GPU's vendor",
        stops=True,
    ),
    119: XidMeaning("the processor on the GPU (GSP) did not answer the driver", GSP, stops=True),
    120: XidMeaning("the processor on the GPU (GSP) had an error", GSP, stops=True),
    121: XidMeaning(
        "errors between Grace and the GPU were corrected (C2C)",
        "nvidia-smi --gpu-reset when no job runs",
    ),
    136: XidMeaning("NVLinks did not come up", LINKS, stops=True),
    137: XidMeaning("a program accessed invalid memory of another GPU (NVLink)", PROGRAM),
    140: XidMeaning("memory failed before the driver could set it aside", RESET, stops=True),
    143: XidMeaning("the driver could not start the GPU", RESET, stops=True),
    **dict.fromkeys(range(144, 151), NVLINK5),
    154: XidMeaning(
        "the driver requests the action that other Xids need",
        "do it, without any program on the GPUs",
        stops=True,
    ),
    156: XidMeaning("broken parts of the GPU are set aside at its next reset", RESET, stops=True),
    157: XidMeaning(
        "broken parts of the GPU could not be set aside, but it still works", "ask the GPU's vendor"
    ),
    158: XidMeaning("the GPU did not answer in time", RESET, stops=True),
    171: XidMeaning("memory of the GPU (DRAM) failed, in addition to Xid 48", RESET, stops=True),
    172: XidMeaning(
        "memory inside the GPU (SRAM) failed, in addition to Xid 48", RESET, stops=True
    ),
}
SWITCH_FATAL = XidMeaning(
    "an NVSwitch has a fatal error",
    "end all jobs, and reset all GPUs and switches together (nvidia-smi --gpu-reset) or reboot. If it returns, replace "
    "the baseboard",
    stops=True,
)
SWITCH = XidMeaning(
    "an NVSwitch reported a non-fatal error",
    "if it goes on, see the fabric manager's log",
)


@dataclass(frozen=True)
class XidEvent:
    """A line of the kernel's log. ``bus`` is empty if it names no GPU, ``switch`` is set for an SXid."""

    number: int
    bus: str
    meaning: XidMeaning
    switch: bool = False

    @property
    def name(self) -> str:
        """Return ``Xid 79``, or ``SXid 24007``."""
        return f"{'SXid' if self.switch else 'Xid'} {self.number}"


def parse_recovery_action(text: str) -> XidMeaning:
    """Return the meaning of Xid 154 with the action that it names."""
    found, plain = RECOVERY.search(text), MEANINGS[ASKS]
    if not found:
        return plain
    action = found["action"]
    return XidMeaning(f"the driver asks for: {action}", plain.cure, stops=action != "None")


def parse_xid(text: str) -> XidEvent | None:
    """Parse a line of the kernel's log. Return None for any other line."""
    if found := XID.search(text):
        number = int(found["number"])
        meaning = parse_recovery_action(text) if number == ASKS else MEANINGS.get(number, UNKNOWN)
        return XidEvent(number, found["bus"], meaning)
    if found := SXID.search(text):
        fatal = found["kind"].lower() == "fatal"
        return XidEvent(int(found["number"]), found["bus"], SWITCH_FATAL if fatal else SWITCH, True)
    if FALLEN.search(text):
        named = ADDRESS.search(text)
        return XidEvent(OFF_THE_BUS, named[0] if named else "", MEANINGS[OFF_THE_BUS])
    return None


def sort_xids(reports: Sequence[XidEvent]) -> list[XidEvent]:
    """Return each number of each GPU once: those that stop jobs first, those that follow from others last."""
    after = (45, ASKS)
    once = list(dict.fromkeys(reports))
    return sorted(once, key=lambda one: (not one.meaning.stops, one.number in after))


def describe_all_xids() -> str:
    """Describe all Xid numbers, for the page of the error code."""
    groups: dict[XidMeaning, list[int]] = {}
    for number, meaning in MEANINGS.items():
        groups.setdefault(meaning, []).append(number)
    return "; ".join(
        f"{', '.join(map(str, numbers))}: {meaning.words}" for meaning, numbers in groups.items()
    )
