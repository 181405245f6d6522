"""Xids: the driver's lines from public logs and NVIDIA's documents, and their findings."""

from __future__ import annotations

import copy

import pytest
from ansible.module_utils.fullmesh.survey import job
from test_rules_fire import nodes_with_gpus
from verify_changes import UBUNTU1, survey

from fullmesh.causes.gpu.vc113_xid import rule_xid_errors
from fullmesh.result.findings import ERROR, WARNING, Finding
from fullmesh.verify import xids

# From NVIDIA's documents (Xid catalog, Xid errors, Fabric Manager User Guide),
# stas00/ml-engineering, a gist of 2015.
BUS = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus."
NO_NUMBER = "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus."
OLD = "NVRM: Xid (0000:03:00): 14, Channel 00000001"
ROW = "NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: New row marked for remapping, reset gpu to activate."
PAGE = (
    "NVRM: Xid (PCI:0000:01:00): 31, pid=812, name=python, Ch 0000000b, MMU Fault: ENGINE GRAPHICS"
)
# From an H200 with driver 580.159.04, after an access to address 0x10 and after a failed assert of
# a kernel.
FAULT = (
    "NVRM: Xid (PCI:0000:00:06): 31, pid=2994, name=python3, channel 0x0000000a, intr 00000000. MMU Fault: "
    "ENGINE GRAPHICS GPC0 GPCCLIENT_T1_8 faulted @ 0x0_00000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE"
)
ENDED = "NVRM: Xid (PCI:0000:00:06): 43, pid=3018, name=python3, channel 0x0000000a"
CLEANUP = "NVRM: Xid (PCI:0000:3b:00): 45, pid=4711, name=python, Ch 00000008"
RECOVERY = "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
HEALED = "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)"
SWITCH = "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error (First)"
FATAL = "nvidia-nvswitch0: SXid (PCI:0000:59:00.0): 23001, Fatal, Link 12 Always Fatal"


@pytest.mark.parametrize(
    ("line", "name", "bus", "words", "stops"),
    [
        (BUS, "Xid 79", "0000:3b:00", "fallen off the bus", True),
        (NO_NUMBER, "Xid 79", "0000:3b:00.0", "fallen off the bus", True),
        (OLD, "Xid 14", "0000:03:00", "does not know", False),
        (ROW, "Xid 63", "0000:10:1c", "set aside", False),
        (PAGE, "Xid 31", "0000:01:00", "page fault", False),
        (FAULT, "Xid 31", "0000:00:06", "page fault", False),
        (ENDED, "Xid 43", "0000:00:06", "after its own fault", False),
        (CLEANUP, "Xid 45", "0000:3b:00", "a program was killed", False),
        (RECOVERY, "Xid 154", "0000:3b:00", "Node Reboot Required", True),
        (HEALED, "Xid 154", "0000:3b:00", "asks for: None", False),
        (SWITCH, "SXid 12028", "0000:05:00.0", "non-fatal error", False),
        (FATAL, "SXid 23001", "0000:59:00.0", "fatal", True),
    ],
)
def test_a_line_of_the_drivers_is_understood(
    line: str, name: str, bus: str, words: str, stops: bool
) -> None:
    found = xids.parse_xid(line)
    assert found is not None
    assert (found.name, found.bus, found.meaning.stops) == (name, bus, stops)
    assert words in found.meaning.words
    assert found.meaning.cure


def test_other_lines_are_ignored() -> None:
    assert xids.parse_xid("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05") is None


def test_every_number_has_a_text_and_a_suitable_fix() -> None:
    for number, meaning in xids.MEANINGS.items():
        assert meaning.words, number
        assert meaning.cure, number
        assert f"{number}" in xids.describe_all_xids()
    # an error of a program (in NVIDIA's catalog) never blames a GPU, and a lost GPU never blames a
    # program
    assert not any(xids.MEANINGS[one].stops for one in (13, 31, 43, 45, 69, 137))
    assert all(xids.MEANINGS[one].stops for one in (48, 64, 79, 95, 119, 140))


def find_findings(*lines: str) -> list[Finding]:
    """Return the findings for a node whose kernel wrote these lines ten seconds ago."""
    seen = copy.deepcopy(nodes_with_gpus())
    stamped = [f"4,{at},990000000,-;{line}" for at, line in enumerate(lines)]
    survey(seen, UBUNTU1)["kernel_log"] = job.parse_kernel_log(stamped, 1000.0)
    return list(rule_xid_errors(seen))


def test_the_worst_report_of_a_node_is_named() -> None:
    (found,) = find_findings(CLEANUP, PAGE, RECOVERY, BUS, BUS)
    assert (found.code, found.node, found.severity) == ("VC-113", UBUNTU1, ERROR)
    assert "Xid 79 of 0000:3b:00: the GPU has fallen off the bus" in found.cause
    assert "(with Xid 154, Xid 31, Xid 45)" in found.cause
    assert found.seen == BUS
    assert "Reseat or replace the GPU" in found.fix


def test_a_programs_own_fault_is_a_warning() -> None:
    (found,) = find_findings(PAGE)
    assert found.severity == WARNING
    assert "The GPU is healthy" in found.fix


def test_a_switch_that_fails_is_an_error() -> None:
    (found,) = find_findings(SWITCH, FATAL)
    assert found.severity == ERROR
    assert "SXid 23001 of 0000:59:00.0: an NVSwitch has a fatal error" in found.cause
