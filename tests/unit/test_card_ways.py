"""Paths between GPUs, which the hardware or the fabric manager decides. A fault is reported only if it is certain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gpu_samples import Machine, gpus_of, smi

from fullmesh.causes.engine import load_causes
from fullmesh.contract import convert_value
from fullmesh.observed.survey import GpuSurvey
from fullmesh.result.findings import Finding
from fullmesh.verify.cards import GpuNodeFacts
from fullmesh.verify.model import ClusterObservations

CAUSES = [cause for code, cause in load_causes("VC").items() if "VC-131" <= code <= "VC-147"]


def find_gpu_faults(nodes: dict[str, GpuNodeFacts]) -> list[Finding]:
    """Return the faults of single GPUs, and of the paths between them."""
    seen: Any = {
        name: {
            "node": {
                "facts": {"survey": {"gpus": one.gpus, "rdma": [{"state": "ACTIVE"}] * one.rdma}}
            }
        }
        for name, one in nodes.items()
    }
    plan: Any = {"nodes": {name: {} for name in nodes}}
    observed = ClusterObservations(plan, seen)
    return [found for cause in CAUSES if cause.find for found in cause.find(observed)]


def gpus(*numa: tuple[str, int], links: tuple[int, ...] = (), model: str = "A100") -> GpuSurvey:
    """Return GPUs of a model with a number of NVLinks each, and devices (kind, NUMA node)."""
    gpus_of_node: list[dict[str, Any]] = [
        {"name": model, "uuid": f"GPU-{at}", "memory": "40960 MiB", "links": count}
        for at, count in enumerate(links)
    ]
    paths = [
        {"bus": f"0000:0{at}:00.0", "kind": kind, "numa": node, "iommu": "", "redirecting": []}
        for at, (kind, node) in enumerate(numa)
    ]
    return convert_value(
        GpuSurvey, {"present": True, "cards": gpus_of_node, "paths": paths, "direct": "dma_buf"}
    )


@pytest.mark.parametrize(
    ("numa", "rdma", "expected"),
    [
        ([("gpu", 0), ("gpu", 1), ("rdma", 1)], True, False),
        ([("gpu", 0), ("gpu", 0), ("rdma", 1)], True, True),
        ([("gpu", 0), ("rdma", 1)], False, False),  # no port is up, so no data goes there
        ([("gpu", 0), ("rdma", -1)], True, False),  # the firmware does not report it
        ([("gpu", -1), ("rdma", -1)], True, False),
        ([("gpu", 0)], True, False),
    ],
)
def test_gpus_and_nics_on_different_cpus_are_reported(
    numa: list[tuple[str, int]], rdma: bool, expected: bool
) -> None:
    found = [one.code for one in find_gpu_faults({"a": GpuNodeFacts(gpus(*numa), rdma=rdma)})]
    assert found == (["VC-146"] if expected else [])


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (gpus(links=(12, 12)), gpus(links=(12, 12)), []),
        (gpus(links=(12, 12)), gpus(links=(12, 0)), ["b"]),
        (gpus(links=(12, 12)), gpus(links=(0, 0)), ["b"]),
        # other pairs are bridged: only the total counts
        (gpus(links=(12, 12, 0, 0)), gpus(links=(0, 0, 12, 12)), []),
        # other models or numbers of GPUs are not compared
        (gpus(links=(12, 12)), gpus(links=(0, 0), model="L40S"), []),
        (gpus(links=(12, 12)), gpus(links=(0,)), []),
    ],
)
def test_a_missing_nvlink_bridge_is_reported(
    first: GpuSurvey, second: GpuSurvey, expected: list[str]
) -> None:
    found = [
        (one.code, one.node)
        for one in find_gpu_faults({"a": GpuNodeFacts(first), "b": GpuNodeFacts(second)})
    ]
    assert found == [("VC-145", node) for node in expected]


@pytest.mark.parametrize(
    ("state", "switches", "manager", "expected"),
    [
        ("Completed", 4, ("active", "580.95.05"), ("", "")),
        ("In Progress", 4, ("active", "580.95.05"), ("VC-136", "not set up. CUDA starts on none")),
        ("Not Started", 4, ("inactive", ""), ("VC-136", "no fabric manager is installed")),
        (
            "In Progress",
            4,
            ("failed", "580.82.07"),
            ("VC-136", "is 580.82.07, the driver 580.95.05"),
        ),
        ("Not Started", 4, ("inactive", "580.95.05"), ("VC-136", "does not run (inactive)")),
        # a fabric that is up stays up until a reset
        ("Completed", 4, ("failed", "580.95.05"), ("VC-147", "does not run (failed)")),
        ("Completed", 4, ("active", "580.82.07"), ("VC-147", "is 580.82.07, the driver 580.95.05")),
        # a GPU older than Hopper does not report its fabric state
        ("N/A", 6, ("inactive", "580.95.05"), ("VC-136", "does not run (inactive)")),
        ("N/A", 6, ("active", "580.95.05"), ("", "")),
        # a guest whose host has the switches, and GPUs without any
        ("Completed", 0, ("inactive", ""), ("", "")),
        ("N/A", 0, ("inactive", ""), ("", "")),
    ],
)
def test_the_fabric_managers_state_gives_its_finding(
    tmp_path: Path, state: str, switches: int, manager: tuple[str, str], expected: tuple[str, str]
) -> None:
    (active, version), (code, words) = manager, expected
    printed = f"Fabric Manager version is : {version}\n" if version else ""
    machine = Machine(
        smi("h100-stand-in", state=state), bus=1, switches=switches, manager=(active, printed)
    )
    found = list(find_gpu_faults({"a": GpuNodeFacts(gpus_of(machine, tmp_path))}))
    assert [one.code for one in found] == [code] * bool(code)
    assert all(words in one.cause for one in found)
    assert all(("error 802" in one.cause) for one in found)
