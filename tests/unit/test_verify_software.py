"""Differences of software between nodes: the odd ones are named, and equal nodes give no finding."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import ladder_samples
import pytest
from ansible.module_utils.fullmesh.probe import observe
from ansible.module_utils.fullmesh.tools.nvidia_smi import parse_smi

from fullmesh.causes.gpu.vc117_torch_cuda import rule_cuda_version
from fullmesh.causes.gpu.vc118_two_nccls import rule_two_nccls
from fullmesh.causes.node.vc116_system_drift import rule_software_drift
from fullmesh.causes.node.vc119_known_defect import rule_known_defects
from fullmesh.observed.node import Accelerators
from fullmesh.result.findings import ERROR, WARNING
from fullmesh.roles import accelerators
from fullmesh.verify.model import ClusterObservations
from fullmesh.verify.node import LOOKED_AT

RULES = (rule_software_drift, rule_cuda_version, rule_two_nccls, rule_known_defects)


def cluster(**values: dict[str, str]) -> ClusterObservations:
    """Make three nodes with the given answers, besides those that all give."""
    seen = ladder_samples.healthy()
    for name in seen.plan["nodes"]:
        own = seen.facts(name)
        own["software"] = {
            "glibc": "2.39",
            "locale": "C.UTF-8",
            "time_zone": "UTC",
            "nic_driver": "mlx5_core",
        }
        for key, value in values.get(name, {}).items():
            if key == "driver_cuda":
                told = parse_smi(f"<smi><cuda_version>{value}</cuda_version></smi>")
                held = {name: told[name] for name in ("driver", "cuda", "cards")}
                own["survey"] = {"gpus": dict(held, present=True)}
            elif key in own:
                own[key] = value
            else:
                own["software"][key] = value
    return seen


def test_equal_or_unanswered_nodes_give_no_finding() -> None:
    assert [f for rule in RULES for f in rule(cluster())] == []
    assert [f for rule in RULES for f in rule(ladder_samples.healthy())] == []
    assert list(rule_software_drift(cluster(el1={"locale": ""}))) == []


@pytest.mark.parametrize("key", [*LOOKED_AT])
def test_the_odd_node_is_named(key: str) -> None:
    said = key in ("torch_cuda", "driver_cuda")  # also by the other nodes
    usual = {name: {key: "usual"} for name in ("el1", "ubuntu2")} if said else {}
    (found,) = rule_software_drift(cluster(**{**usual, "ubuntu1": {key: "other"}}))
    assert (found.code, found.node, found.severity) == ("VC-116", "ubuntu1", WARNING)
    assert LOOKED_AT[key] in found.cause
    assert "other on ubuntu1" in found.cause
    assert found.fix


def test_two_odd_nodes_are_both_named() -> None:
    (found,) = rule_software_drift(cluster(el1={"locale": "de_DE"}, ubuntu2={"locale": "de_DE"}))
    assert found.node == "ubuntu1"
    (found,) = rule_software_drift(
        cluster(el1={"time_zone": "Asia/Tokyo"}, ubuntu1={"time_zone": "Europe/Rome"})
    )
    assert "Europe/Rome" in found.cause + found.seen
    assert "timedatectl set-timezone" in found.fix


@pytest.mark.parametrize(
    ("built", "runs", "fits"),
    [
        ("13.0", "13.1", True),
        ("12.8", "13.0", True),
        ("13.2", "13.0", True),
        ("13.0", "12.8", False),
        ("", "12.8", True),
    ],
)
def test_torch_needs_a_driver_of_its_cuda(built: str, runs: str, fits: bool) -> None:
    found = list(rule_cuda_version(cluster(el1={"torch_cuda": built, "driver_cuda": runs})))
    assert [(f.code, f.node, f.severity) for f in found] == (
        [] if fits else [("VC-117", "el1", ERROR)]
    )


def test_the_fix_for_a_new_torch_is_a_lock_for_the_driver() -> None:
    (found,) = rule_cuda_version(cluster(el1={"torch_cuda": "13.0", "driver_cuda": "12.2"}))
    named = re.search(r"torch_runtime_version: (\S+) .* for CUDA (\S+) ", found.fix)
    assert named
    older = Accelerators(
        devices=[
            {"vendor": "nvidia", "bus": "0000:01:00.0", "device": "0x2330", "driver": "nvidia"}
        ],
        nvidia_driver="535.183.01",  # its nvidia-smi reports CUDA 12.2
        nvidia_shown=1,
    )
    assert accelerators.choose_torch_build("el1", named[1], "", older) == f"cuda{named[2]}"
    (found,) = rule_cuda_version(cluster(el1={"torch_cuda": "13.0", "driver_cuda": "11.4"}))
    assert "torch for CUDA 11 with your own lock (./fullmesh torch-lock creates one" in found.fix


def test_a_known_defect_is_a_warning_with_its_nodes_and_source() -> None:
    seen = cluster()
    assert list(rule_known_defects(seen)) == []
    for name in seen.plan["nodes"]:
        seen.facts(name)["versions"] |= {"torch": "2.7.0+cu128", "torch_nccl": "2.29.3"}
    (found,) = rule_known_defects(seen)
    assert (found.code, found.severity) == ("VC-119", WARNING)
    assert (found.seen, found.expected) == ("2.7.0+cu128", "2.7.1 or newer")
    assert "pytorch/pytorch#153960" in found.cause
    assert all(name in found.cause for name in seen.plan["nodes"])
    seen.facts("el1")["versions"]["torch_nccl"] = "2.25.1"
    _, found = rule_known_defects(seen)
    assert (found.node, found.expected) == ("el1", "2.27.3 or newer")
    assert "NVIDIA/nccl-tests#291" in found.cause


def test_a_known_defect_of_one_machine_or_driver_names_only_such_nodes() -> None:
    seen = cluster(el1={"machine": "aarch64"}, ubuntu1={"machine": "x86_64"})
    for name in seen.plan["nodes"]:
        seen.facts(name)["versions"]["torch_nccl"] = "2.29.2"
    (found,) = rule_known_defects(seen)
    assert "NCCL 2.29.2 on el1 has" in found.cause
    for name in seen.plan["nodes"]:
        seen.facts(name)["versions"]["torch_nccl"] = ""
    seen.facts("ubuntu1")["survey"] = {
        "gpus": {"present": True, "cards": [], "driver": "560.35.03"}
    }
    (found,) = rule_known_defects(seen)
    assert "NVIDIA driver 560.35.03 on ubuntu1" in found.cause


def test_the_two_nccls_are_compared_within_a_node() -> None:
    seen = cluster()
    system = seen.nodes["el1"]["node"]["nccl"]["version"]
    seen.facts("el1")["versions"]["torch_nccl"] = system
    assert list(rule_two_nccls(seen)) == []
    seen.facts("el1")["versions"]["torch_nccl"] = "2.99.1"
    (found,) = rule_two_nccls(seen)
    assert (found.code, found.expected, found.seen) == ("VC-118", "2.99.1", system)


@pytest.mark.parametrize(
    ("line", "cuda", "build"),
    [
        ("cuda: Optional[str] = None\nhip: Optional[str] = None", "", "cpu"),
        ("cuda: Optional[str] = '13.0'\nhip: Optional[str] = None", "13.0", "cuda"),
        ('cuda = "12.8"\nhip = None', "12.8", "cuda"),
        ("cuda: Optional[str] = None\nhip: Optional[str] = '6.4.43482-0f2d60242'", "", "hip"),
        ("cuda: Optional[str] = None\nxpu: Optional[str] = '20250101'", "", "xpu"),
        ("debug = False", "", ""),
    ],
)
def test_torchs_build_is_read_without_importing_it(
    tmp_path: Path, line: str, cuda: str, build: str
) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/version.py").write_text(f"from typing import Optional\n{line}\n")
    (tmp_path / "torch-2.0.dist-info").mkdir()
    (tmp_path / "torch-2.0.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: torch\nVersion: 2.0\n"
    )
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{observe.VERSIONS}"
    said = subprocess.run(
        [sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True
    )
    expected: dict[str, Any] = {"torch": "2.0", "torch_cuda": cuda, "torch_build": build}
    assert expected.items() <= __import__("json").loads(said.stdout).items()


def test_this_machine_reports_its_software() -> None:
    said = observe.observe_software("lo", {"torch_cuda": "13.0"})
    assert said["glibc"].split(".")[0] == "2"
    assert (said["nic_driver"], said["torch_cuda"]) == ("", "13.0")
    assert said["time_zone"]
