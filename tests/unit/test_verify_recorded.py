"""The rules about GPUs and RDMA, tested with real answers of ladder_node.

They once read the survey at a wrong place, which handmade samples did not show.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gpu_samples import Machine, gpus_of, smi, survey, torch_for, without_gpus
from records import EL1, UBUNTU1, build_cluster, load_node_answer
from records import verify_answers as judged
from verify_changes import (
    IB,
    ON,
    TCP,
    WRONG,
    hide_amd_gpus,
    infiniband,
    left_to_auto,
    remove_driver,
    stop_rank,
    with_gpus,
)

from fullmesh.observed.survey import NodeSurvey


def codes(found: dict[str, Any]) -> set[str]:
    return {finding["code"] for finding in found["findings"]}


def find_check(found: dict[str, Any], name: str) -> dict[str, Any]:
    (one,) = (r for r in found["rungs"] if r["id"] == name)
    return dict(one)


@pytest.mark.parametrize("name", [EL1, UBUNTU1])
def test_the_record_is_complete(name: str) -> None:
    """The record must match today's module: its answer for a node without GPUs, with the whole survey."""
    record = load_node_answer(name)
    assert set(record) == {"facts", "nccl", "ports", "tapped"}
    assert record["facts"]["survey"]["gpus"] == {"present": False, "cards": [], "pci": []}
    assert record["facts"]["survey"]["rdma"] == []
    assert record["facts"]["software"]["torch_build"] == "cpu"
    # lookups run besides the probe, the unit is missing if there is none, and the rest is newer
    # than the record
    looked_up = {
        "reverse",
        "own_answers",
        "master_answers",
        "job_unit",
        "hooks",
        "job_start",
        "unit_start",
        "slurm_start",
    }
    looked_up |= {"changed_sysctls", "legacy_rules", "queues", "tunnel"}
    assert (
        NodeSurvey.__annotations__.keys() - looked_up
        == record["facts"]["survey"].keys() - looked_up
    )


def test_nodes_without_gpus_have_no_findings() -> None:
    seen = build_cluster()
    without_gpus(seen, "torch is built for CPUs")
    found = judged(seen)
    assert (found["verdict"], found["findings"]) == ("ok", [])
    l7 = find_check(found, "L7")
    assert (l7["status"], l7["reason"]) == (
        "skipped",
        "not applicable: no GPU on any node (torch is built for CPUs)",
    )


def test_nodes_with_gpus_have_no_findings(tmp_path: Path) -> None:
    found = judged(with_gpus(tmp_path))
    assert (found["verdict"], found["findings"]) == ("ok", [])


def test_reports_name_rccl_instead_of_nccl(tmp_path: Path) -> None:
    seen = with_gpus(tmp_path)
    assert find_check(judged(seen), "L7")["reason"] == ""
    torch_for(seen, "hip", "")
    l7 = find_check(judged(seen), "L7")
    assert (l7["status"], "by RCCL" in l7["reason"]) == ("passed", True)


def test_fewer_pcie_lanes_on_all_nodes_are_no_fault(tmp_path: Path) -> None:
    """The recorded A10G has 8 of 16 lanes on EC2, by design."""
    seen = with_gpus(tmp_path)
    gpu = survey(seen, EL1)["gpus"]["cards"][0]
    assert (gpu["width"], gpu["width_most"]) == ("8x", "16x")
    assert judged(seen)["findings"] == []


def test_tcp_despite_working_rdma_is_reported(tmp_path: Path) -> None:
    seen = with_gpus(tmp_path)
    infiniband(TCP, 1.9)(seen)
    (finding,) = judged(seen)["findings"]
    assert "uses TCP although the RDMA port mlx5_0:1 of el1 is up" in finding["cause"]
    (slow,) = finding["follows"]
    assert "over Socket, but the RDMA ports of el1 can do 400" in slow["cause"]
    assert slow["expected"] == "at least 200.0 Gbit/s"


@pytest.mark.parametrize("bus", [True, False], ids=["no driver", "driver"])
def test_gpus_and_a_torch_for_cpus_are_no_success(tmp_path: Path, bus: bool) -> None:
    """The false success was: 8 GPUs per node, the default torch, "no GPU on any node" and the result OK."""
    eight = Machine(bus=8) if bus else Machine(smi(count=8, **ON))
    seen = with_gpus(tmp_path, 8, el1=eight, ubuntu1=eight)
    torch_for(seen, "cpu", "")
    without_gpus(seen, "torch is built for CPUs")
    found = judged(seen)
    assert (found["verdict"], found["failed_rungs"]) == ("failed", ["L7"])
    (finding,) = found["findings"]
    assert (finding["code"], finding["severity"], finding["peer"]) == ("VC-717", "error", UBUNTU1)
    assert "torch_runtime_accelerator: cuda for el1, ubuntu1" in finding["fix"]
    reason = find_check(found, "L7")["reason"]
    assert "torch there is built for CPUs" in reason
    assert ("8 GPU(s) on the PCI bus" if bus else "8 x NVIDIA A10G") in reason
    assert "no GPU on any node" not in reason


def test_one_cpu_torch_explains_the_errors_of_the_ranks(tmp_path: Path) -> None:
    seen = with_gpus(tmp_path)
    torch_for(seen, "cpu", "", UBUNTU1)
    stop_rank(seen, "gpus", "wrong", check="gpus", ranks=[1], **WRONG)
    (finding,) = (f for f in judged(seen)["findings"] if f["severity"] == "error")
    assert (finding["code"], finding["node"]) == ("VC-717", UBUNTU1)
    assert [one["code"] for one in finding["follows"]] == ["VC-711"]


@pytest.mark.parametrize(
    ("ranks", "gpus", "auto", "severity"),
    [
        (1, 8, True, "error"),
        (1, 8, False, "warning"),
        (8, 4, True, "error"),
        (8, 4, False, "error"),
    ],
)
def test_ranks_and_gpus_are_as_many(
    tmp_path: Path, ranks: int, gpus: int, auto: bool, severity: str
) -> None:
    machine = Machine(smi(count=gpus, **ON), bus=gpus)
    seen = with_gpus(tmp_path, ranks, el1=machine, ubuntu1=machine)
    if auto:
        left_to_auto(seen)
    found = judged(seen)
    (finding,) = found["findings"]
    wanted = ("failed", ["L7"]) if severity == "error" else ("ok", [])
    assert (found["verdict"], found["failed_rungs"]) == wanted
    assert (finding["code"], finding["severity"]) == ("VC-718", severity)
    by_hand = "" if auto else ", set by hand"
    assert finding["seen"] == f"fullmesh_local_ranks: {ranks}{by_hand}"
    assert finding["expected"] == f"fullmesh_local_ranks: {gpus}"
    assert f"fullmesh_local_ranks: {gpus} for el1, ubuntu1" in finding["fix"]
    assert ("7 of them idle" if ranks < gpus else "the others have none") in finding["cause"]


def test_a_torch_for_cpus_does_not_hide_the_ranks(tmp_path: Path) -> None:
    eight = Machine(smi(count=8, **ON), bus=8)
    seen = with_gpus(tmp_path, 1, el1=eight, ubuntu1=eight)
    torch_for(seen, "cpu", "")
    without_gpus(seen, "torch is built for CPUs")
    assert codes(judged(seen)) == {"VC-717", "VC-718"}


@pytest.mark.parametrize(("named", "found"), [("0,3", set()), ("0", {"VC-718"}), ("-1", set())])
def test_excluded_gpus_are_listed(tmp_path: Path, named: str, found: set[str]) -> None:
    eight = Machine(smi(count=8, **ON), bus=8)
    seen = with_gpus(tmp_path, 2, el1=eight, ubuntu1=eight)
    for name in (EL1, UBUNTU1):
        values = survey(seen, name)["environment"]["values"]
        assert "MASTER_ADDR" in values  # from the file that also gets cluster_env_extra
        values["CUDA_VISIBLE_DEVICES"] = {"value": named, "source": "/etc/fullmesh/env"}
    assert codes(judged(seen)) == found


def test_parts_of_a_gpu_are_not_counted(tmp_path: Path) -> None:
    """The recorded A100 uses MIG: one GPU, up to seven devices."""
    mig = Machine(smi("a100-sxm4-v12", **ON), bus=1)
    assert codes(judged(with_gpus(tmp_path, 4, el1=mig, ubuntu1=mig))) == {"VC-139"}


def test_gpus_that_no_rank_sees_are_no_success(tmp_path: Path) -> None:
    seen = with_gpus(tmp_path, 8)
    remove_driver(seen, 8)
    found = judged(seen)
    assert (found["verdict"], found["failed_rungs"]) == ("failed", ["L7"])
    (finding,) = found["findings"]
    assert (finding["code"], finding["seen"]) == ("VC-719", "torch sees no GPU")
    assert "8 GPU(s) on the PCI bus" in finding["cause"]


def test_amds_gpus_only_count_for_a_torch_that_could_use_them(tmp_path: Path) -> None:
    seen = with_gpus(tmp_path, 2)
    hide_amd_gpus(seen)
    (finding,) = judged(seen)["findings"]
    assert finding["code"] == "VC-719"
    assert "2 x AMD Instinct MI300X" in finding["cause"]
    torch_for(seen, "cpu", "")
    found = judged(seen)
    assert (found["verdict"], found["findings"]) == ("ok", [])
    assert "no GPU on any node" in find_check(found, "L7")["reason"]


def test_without_a_survey_nothing_is_claimed() -> None:
    seen = build_cluster()
    without_gpus(seen, "torch is built for CPUs")
    survey(seen, UBUNTU1).pop("gpus")  # as Survey.ask leaves it if its reader fails
    l7 = find_check(judged(seen), "L7")
    assert l7["status"] == "skipped"
    assert "no GPU on any node" not in l7["reason"]
    assert "the survey does not show whether ubuntu1 has one" in l7["reason"]


def test_a_failed_driver_explains_the_errors_of_the_ranks(tmp_path: Path) -> None:
    broken = Machine(code=9, bus=1)
    seen = with_gpus(tmp_path, el1=broken, ubuntu1=broken)
    without_gpus(seen, "torch sees no GPU")
    found = judged(seen)
    assert found["verdict"] == "failed"
    assert codes(found) == {"VC-131"}
    assert "VC-719" in {one["code"] for row in found["findings"] for one in row["follows"]}


@pytest.mark.parametrize(
    ("machine", "present", "on_bus"),
    [
        (Machine(), False, 0),
        (Machine(bus=2), False, 2),
        (Machine(code=9, bus=2), True, 2),
        (Machine(code=9, bus=2, container=True), False, 0),
        (Machine(code=9, bus=2, container=True, device=True), True, 0),
        (Machine(smi(), bus=1, container=True), True, 0),
    ],
    ids=["none", "no driver", "driver broken", "the host's", "passed in, broken", "passed in"],
)
def test_a_container_does_not_count_its_hosts_gpus(
    tmp_path: Path, machine: Machine, present: bool, on_bus: int
) -> None:
    found = gpus_of(machine, tmp_path)
    assert (found["present"], len(found["pci"])) == (present, on_bus)


def test_nccl_errors_are_recognized_by_their_text(tmp_path: Path) -> None:
    """A fast enough InfiniBand gives no finding."""
    seen = with_gpus(tmp_path)
    infiniband(IB)(seen)
    assert judged(seen)["findings"] == []
