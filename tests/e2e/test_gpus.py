"""GPUs on lab nodes: the real nvidia-smi over the lab's STAND-IN for NVML, read by our modules, judged by our rules.

What is real: nvidia-smi, the modules, the rules, the commands. What is not: the GPUs. Nothing computes on them, so
torch is the CPU build, and a verification always says that the GPUs are idle (VC-717, VC-718). The kernel's log is
the host's: no Xid can come from there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from plays import Done, run, told

from fullmesh.settings import ROOT

from .conftest import latest, site

LAB = "e2e-gpus"
# results of its own: this file runs beside test_site.py
RUNS = ROOT / ".fullmesh/runs-e2e-gpus"
CPU = ("-e", "torch_runtime_accelerator=cpu", "-e", f"verify_cluster_runs_dir={RUNS}")
IDLE = {"VC-717", "VC-718"}


@dataclass(frozen=True)
class Play:
    """What the second node's GPUs are like, and what is to be said of it.

    Attributes:
        gpus: of both nodes.
        lines: what differs on the second node.
        codes: that name it, as errors or warnings.
        words: of one of the causes.
    """

    gpus: str
    lines: tuple[str, ...]
    codes: set[str]
    words: str


PLAYS = {
    "driver changed under its module": Play("h100x2", ("error=18",), {"VC-131"}, "580.95.05"),
    "a card fell off the bus": Play("h100x2", ("1.lost=1",), {"VC-131"}, "fell off the bus"),
    "module not loaded": Play("h100x2", ("error=9",), {"VC-131"}, "not in the kernel"),
    "memory and links": Play(
        "h100x8",
        (
            *("0.ecc_lost=2", "1.remap_failed=1", "2.remap_pending=1", "3.links_down=2"),
            *("4.throttle=0x48", "5.compute_mode=2", "6.memory_used=30000000000", "7.width=4"),
        ),
        {"VC-112", "VC-133", "VC-134", "VC-135", "VC-137", "VC-138", "VC-140", "VC-114"},
        "2 of 18 NVLinks of 00000000:61:00.0",
    ),
    "fabric, mig, persistence": Play(
        "h100x8",
        ("*.fabric=2", "0.mig=1", "*.persistence=0"),
        {"VC-136", "VC-139", "VC-115"},
        "error 802",
    ),
    "fewer": Play("l40sx2", ("gpus=1",), {"DG-149"}, "GPUs: 1 on ubuntu1, 2 on the others"),
}


def play(inventory: str, node: str, gpus: str, *lines: str) -> None:
    assert inventory
    told("./fullmesh", "lab", "gpus", "--name", LAB, node, gpus, *lines)


@pytest.fixture(scope="module")
def inventory() -> Iterator[str]:
    run("./fullmesh", "lab", "down", "--name", LAB)
    assert run("./fullmesh", "lab", "up", "--name", LAB).code == 0
    status: dict[str, Any] = json.loads(
        told("./fullmesh", "lab", "status", "--json", "--name", LAB)
    )
    yield status["inventory"].rsplit("/", 1)[0]
    run("./fullmesh", "lab", "down", "--name", LAB)


def look(inventory: str, *more: str) -> Done:
    """Nothing but the plan and the first look at the nodes."""
    plays = ("playbooks/plan.yml", "playbooks/preflight.yml")
    return run("ansible-playbook", *plays, "-i", inventory, *more)


def verified(inventory: str) -> dict[str, Any]:
    run("./fullmesh", "verify", "-i", inventory, "--", *CPU)
    return latest(RUNS)


def test_what_nodes_have_decides_before_anything_is_touched(inventory: str) -> None:
    for node in ("el1", "ubuntu1"):
        play(inventory, node, "h100x8")
    assert look(inventory).code == 0
    play(inventory, "ubuntu1", "h100x8", "gpus=7")
    hidden = look(inventory)
    assert hidden.says("[PR-118] ubuntu1: 8 NVIDIA GPU(s) on the PCI bus")
    play(inventory, "ubuntu1", "h100x2")
    assert look(inventory).says("[PR-117]")
    play(inventory, "ubuntu1", "none")
    mixed = look(inventory)
    assert mixed.says("[PR-115]")
    assert mixed.says("el1: 8 nvidia, ubuntu1: none")
    play(inventory, "ubuntu1", "h100x8", "driver=470.256.02")
    assert look(inventory).says("[PR-116] ubuntu1: NVIDIA driver 470.256.02 does not run CUDA")
    assert not any(any(done.changed().values()) for done in (hidden, mixed))


def test_healthy_gpus_that_torch_cannot_use_are_all_that_is_said(inventory: str) -> None:
    for node in ("el1", "ubuntu1"):
        play(inventory, node, "h100x8")
    site(*CPU, inventory=inventory)
    result = latest(RUNS)
    assert {one["code"] for one in result["findings"]} == IDLE
    assert result["verdict"] == "failed"


@pytest.mark.parametrize("name", PLAYS)
def test_what_is_wrong_with_a_gpu_is_named(inventory: str, name: str) -> None:
    wanted = PLAYS[name]
    play(inventory, "el1", wanted.gpus)
    play(inventory, "ubuntu1", wanted.gpus, *wanted.lines)
    found = verified(inventory)["findings"]
    mine = [one for one in found if one["code"] not in IDLE]
    assert {one["code"] for one in mine} == wanted.codes
    assert {one["node"] for one in mine} == {"ubuntu1"}
    assert any(wanted.words in one["cause"] for one in mine)
    asked = run("./fullmesh", "diagnose", "-i", inventory)
    assert [code for code in wanted.codes if f"[{code}]" not in asked.output] == []


def test_without_gpus_nothing_is_said_of_them(inventory: str) -> None:
    for node in ("el1", "ubuntu1"):
        play(inventory, node, "none")
    result = verified(inventory)
    assert (result["verdict"], result["findings"]) == ("ok", [])
    rung = next(one for one in result["rungs"] if one["id"] == "L7")
    assert "no GPU" in rung["reason"]
