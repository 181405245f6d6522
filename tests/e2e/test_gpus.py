"""Run GPU rules on lab nodes: the real nvidia-smi over a SIMULATED NVML, read and judged by Fullmesh.

Real: nvidia-smi, the modules, the rules, the commands. Simulated: the GPUs, the PCI tree, the RDMA
NICs, and the kernel log of a node that looks like a machine. No simulated GPU computes, so torch is
the CPU build, and a verification always reports that the GPUs are idle (VC-717, VC-718).
tests/unit/test_gpu_rules_shown.py lists the rules that this file covers, and those that it cannot.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from plays import Done, read_output, run

from devtools.lab import sources_list
from fullmesh.settings import ROOT

from .conftest import load_latest_result, site

LAB = "e2e-gpus"
# its own results, because this file runs at the same time as test_site.py
RUNS = ROOT / ".fullmesh/runs-e2e-gpus"
CPU = ("-e", "torch_runtime_accelerator=cpu", "-e", f"verify_cluster_runs_dir={RUNS}")
IDLE = {"VC-717", "VC-718"}
# RDMA needs more locked memory than this machine gives its containers.
LIMIT = {"DG-148"}
MACHINE, WITH_RDMA = ("machine=1",), ("machine=1", "rdma=8")
VARIABLES = "/etc/environment"
CONTRIB = "/etc/apt/sources.list.d/contrib.list"


@dataclass(frozen=True)
class GpuScenario:
    """A fault of the second node's GPUs, and the expected findings.

    Attributes:
        gpus: of both nodes.
        lines: differences of the second node.
        codes: that name it, as errors or warnings.
        words: each must be part of a cause.
        both: lines of both nodes.
        variable: set on the second node for every job.
    """

    gpus: str
    lines: tuple[str, ...]
    codes: frozenset[str]
    words: tuple[str, ...]
    both: tuple[str, ...] = ()
    variable: str = ""


def make_codes(*codes: str) -> frozenset[str]:
    return frozenset(codes)


PLAYS = {
    "driver changed under its module": GpuScenario(
        "h100x2", ("error=18",), make_codes("VC-131"), ("580.95.05",)
    ),
    "a GPU fell off the bus": GpuScenario(
        "h100x2", ("1.lost=1",), make_codes("VC-131"), ("fell off the bus",)
    ),
    "module not loaded": GpuScenario(
        "h100x2", ("error=9",), make_codes("VC-131"), ("kernel module is not loaded",)
    ),
    "memory and links": GpuScenario(
        "h100x8",
        (
            *("0.ecc_lost=2", "1.remap_failed=1", "2.remap_pending=1", "3.links_down=2"),
            *("4.throttle=0x48", "5.compute_mode=2", "6.memory_used=30000000000", "7.width=4"),
        ),
        make_codes("VC-112", "VC-133", "VC-134", "VC-135", "VC-137", "VC-138", "VC-140", "VC-114"),
        ("2 of 18 NVLinks of 00000000:61:00.0",),
    ),
    "fabric, bridge, mig, persistence, a variable": GpuScenario(
        "h100x8",
        ("*.fabric=2", "fm=inactive", "*.links=12", "0.mig=1", "*.persistence=0"),
        make_codes("VC-136", "VC-145", "VC-139", "VC-115", "VC-144"),
        (
            "the fabric manager does not run (inactive). CUDA starts on none",
            "96 NVLinks",
            "NCCL_ALGO=Ring",
        ),
        MACHINE,
        "NCCL_ALGO=Ring",
    ),
    "the kernel's log, the bus, a fabric manager of another version": GpuScenario(
        "h100x8",
        (
            *("3.xid=79, pid=4711, GPU has fallen off the bus.", "sxid=12028, Non-fatal, Link 32"),
            *(
                "acs=0x1d",
                "iommu=DMA-FQ",
                "open=0",
                "*.numa=0",
                "rdma_numa=1",
                "fm_version=580.82.07",
            ),
        ),
        make_codes("VC-113", "VC-141", "VC-142", "VC-143", "VC-146", "VC-147"),
        (
            "Xid 79 of 0000:61:00: the GPU has fallen off the bus (with SXid 12028)",
            "580.82.07",
        ),
        WITH_RDMA,
    ),
    "a program's own fault": GpuScenario(
        "h100x2",
        ("0.xid=31, pid=812, name=python, Ch 0000000b, MMU Fault: ENGINE GRAPHICS",),
        make_codes("VC-113"),
        ("Xid 31 of 0000:1b:00: a program accessed invalid memory",),
        MACHINE,
    ),
    "hidden": GpuScenario(
        "h100x8", ("gpus=7",), make_codes("VC-132"), ("0000:df:00.0 is missing",), MACHINE
    ),
    "fewer": GpuScenario(
        "l40sx2", ("gpus=1",), make_codes("DG-149"), ("GPUs: 1 on ubuntu1, 2 on the others",)
    ),
}
# Faults that are refused before any change (test_gpu_mismatches_are_refused_before_any_change).
REFUSED = make_codes("PR-115", "PR-116", "PR-117", "PR-118")
SHOWN = frozenset(IDLE) | REFUSED | frozenset().union(*(one.codes for one in PLAYS.values()))


def set_gpus(inventory: str, node: str, gpus: str, *lines: str) -> None:
    assert inventory
    read_output("./fullmesh", "lab", "gpus", "--name", LAB, node, gpus, *lines)


@contextmanager
def set_login_variable(variable: str) -> Iterator[None]:
    """Set a variable for every login on the second node during the block."""
    node = ("./fullmesh", "lab", "exec", "--name", LAB, "ubuntu1", "--", "sh", "-c")
    if variable:
        read_output(*node, f"echo {variable} >> {VARIABLES}")
    yield
    if variable:
        read_output(*node, f"sed -i '/^{variable}$/d' {VARIABLES}")


@pytest.fixture(scope="module")
def inventory() -> Iterator[str]:
    run("./fullmesh", "lab", "down", "--name", LAB)
    assert run("./fullmesh", "lab", "up", "--name", LAB).code == 0
    status: dict[str, Any] = json.loads(
        read_output("./fullmesh", "lab", "status", "--json", "--name", LAB)
    )
    yield status["inventory"].rsplit("/", 1)[0]
    run("./fullmesh", "lab", "down", "--name", LAB)


def run_survey(inventory: str, *more: str) -> Done:
    """Run only the plan and the survey of the nodes."""
    plays = ("playbooks/plan.yml", "playbooks/preflight.yml")
    return run("ansible-playbook", *plays, "-i", inventory, *more)


def verify_nodes(inventory: str) -> dict[str, Any]:
    run("./fullmesh", "verify", "-i", inventory, "--", *CPU)
    return load_latest_result(RUNS)


def test_gpu_mismatches_are_refused_before_any_change(inventory: str) -> None:
    for node in ("el1", "ubuntu1"):
        set_gpus(inventory, node, "h100x8")
    assert run_survey(inventory).code == 0
    set_gpus(inventory, "ubuntu1", "h100x8", "gpus=7")
    hidden = run_survey(inventory)
    assert hidden.says("[PR-118] ubuntu1: the PCI bus has 8 NVIDIA GPU(s)")
    set_gpus(inventory, "ubuntu1", "h100x2")
    assert run_survey(inventory).says("[PR-117]")
    set_gpus(inventory, "ubuntu1", "none")
    mixed = run_survey(inventory)
    assert mixed.says("[PR-115]")
    assert mixed.says("el1: 8 nvidia, ubuntu1: none")
    set_gpus(inventory, "ubuntu1", "h100x8", "driver=470.256.02")
    assert run_survey(inventory).says(
        "[PR-116] ubuntu1: NVIDIA driver 470.256.02 does not run CUDA"
    )
    assert not any(any(done.changed().values()) for done in (hidden, mixed))


def test_healthy_gpus_that_torch_cannot_use_give_one_finding(inventory: str) -> None:
    for node in ("el1", "ubuntu1"):
        set_gpus(inventory, node, "h100x8")
    site(*CPU, inventory=inventory)
    result = load_latest_result(RUNS)
    assert {one["code"] for one in result["findings"]} == IDLE
    assert result["verdict"] == "failed"


@pytest.mark.parametrize("name", PLAYS)
def test_each_gpu_fault_is_named(inventory: str, name: str) -> None:
    wanted = PLAYS[name]
    set_gpus(inventory, "el1", wanted.gpus, *wanted.both)
    set_gpus(inventory, "ubuntu1", wanted.gpus, *wanted.both, *wanted.lines)
    with set_login_variable(wanted.variable):
        found = verify_nodes(inventory)["findings"]
        asked = run("./fullmesh", "diagnose", "-i", inventory)
    mine = [one for one in found if one["code"] not in IDLE | LIMIT]
    assert {one["code"] for one in mine} == wanted.codes
    assert {one["node"] for one in mine} == {"ubuntu1"}
    causes = " ".join(one["cause"] for one in mine)
    assert [words for words in wanted.words if words not in causes] == []
    assert [code for code in wanted.codes if f"[{code}]" not in asked.output] == []


def bring_nvtop(work: Path) -> None:
    """Give the second node a repository with nvtop: Debian's own package, from its component contrib.

    Ubuntu has it in universe, but the lab's repositories only have main.
    """
    apt = sources_list.own_apt(work, lambda line: re.sub(r"(\s)main\b.*", r"\1contrib", line))
    for words in ("update", "download nvtop"):
        subprocess.run(["/bin/sh", "-c", f"{apt} {words}"], cwd=work, check=True, timeout=180)
    (package,) = work.glob("nvtop_*.deb")
    fields = read_output("dpkg-deb", "-f", str(package)).rstrip()
    digest = hashlib.sha256(package.read_bytes()).hexdigest()
    more = {"Filename": f"./{package.name}", "Size": package.stat().st_size, "SHA256": digest}
    stanza = "\n".join([fields, *(f"{name}: {value}" for name, value in more.items())])
    (work / "Packages").write_text(stanza + "\n")
    enter = f"./fullmesh lab exec --name {LAB} ubuntu1 --"
    pack = f"tar -C {work} -cf - Packages {package.name} | {enter} tar -C /srv -xf -"
    subprocess.run(["/bin/sh", "-c", pack], cwd=ROOT, check=True, timeout=60)
    run_on_second_node(f"echo 'deb [trusted=yes] file:/srv ./' > {CONTRIB}")


def run_on_second_node(command: str) -> str:
    return read_output(
        "./fullmesh", "lab", "exec", "--name", LAB, "ubuntu1", "--", "sh", "-c", command
    )


def install_tools(inventory: str, playbook: str) -> Done:
    """Install only the monitoring tools."""
    only = ("--limit", "ubuntu1", "--tags", "monitoring_tools")
    wanted = ("-e", "monitoring_tools_manage=true", "-e", "fullmesh_converge=always")
    return run("ansible-playbook", playbook, "-i", inventory, *only, *wanted, *CPU)


def test_a_node_with_gpus_gets_nvtop_and_loses_it_again(inventory: str, tmp_path: Path) -> None:
    for node in ("el1", "ubuntu1"):
        set_gpus(inventory, node, "l40sx2")
    missing = install_tools(inventory, "site.yml")
    assert missing.says(
        "[MT-101] nload, iftop, nvtop cannot be installed: No package matching 'nvtop'"
    )
    bring_nvtop(tmp_path)
    done = install_tools(inventory, "site.yml")
    assert done.code == 0, done.output[-3000:]
    assert run_on_second_node("nvtop --version").startswith("nvtop version")
    again = install_tools(inventory, "site.yml")
    assert (again.code, set(again.changed().values())) == (0, {0})
    undone = install_tools(inventory, "playbooks/undo.yml")
    assert undone.code == 0, undone.output[-3000:]
    assert run_on_second_node("command -v nvtop nload iftop || true") == ""
    run_on_second_node(f"rm -f {CONTRIB} /srv/Packages /srv/nvtop_*.deb; apt-get -q update")


def test_nodes_without_gpus_get_no_gpu_finding(inventory: str) -> None:
    for node in ("el1", "ubuntu1"):
        set_gpus(inventory, node, "none")
    result = verify_nodes(inventory)
    assert (result["verdict"], result["findings"]) == ("ok", [])
    check = next(one for one in result["rungs"] if one["id"] == "L7")
    assert "no GPU" in check["reason"]
