"""The network that NCCL used, and why not a better one, from NCCL's output, the node and its files."""

from __future__ import annotations

import copy
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import ladder_gpu
import pytest
import records
import verify_changes
from ansible.module_utils.fullmesh.survey import job, job_unit
from ansible.module_utils.fullmesh.tools.nvidia_smi import parse_topology
from gpu_samples import Machine, gpus_of, nvlink, smi, survey
from ladder_rank import Rank
from records import EL1, UBUNTU1
from verify_changes import (
    H100,
    HOSTS_MEMORY,
    IB,
    ROCE_GIDS,
    TCP,
    get_step_report,
    infiniband,
    pin_gid,
    with_gpus,
)

from fullmesh import contract
from fullmesh.causes.gpu import vc148_gid_index
from fullmesh.diagnose import verification
from fullmesh.diagnose.root_cause import add_root_causes
from fullmesh.observed.ranks import NcclStepResult
from fullmesh.observed.survey import EfaSurvey, RdmaPort
from fullmesh.result.findings import Finding
from fullmesh.verify import gpu, nccl_ways
from fullmesh.verify.model import ClusterObservations

OURS = "/etc/fullmesh/env"
LIBRARY = "n:1:9 [0] NCCL INFO Failed to open libibverbs.so[.1]"
OFF = "n:1:9 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'"


@pytest.fixture
def seen(tmp_path: Path) -> ClusterObservations:
    return copy.deepcopy(with_gpus(tmp_path))


def find_findings(seen: ClusterObservations) -> list[Finding]:
    """Return the findings about these nodes, read again by their types, with their consequences."""
    again = records.read_again(seen)
    return add_root_causes(again, verification.judge_all_checks(again)[1])


def get_only_finding(seen: ClusterObservations) -> Finding:
    (one,) = find_findings(seen)
    return one


def setting(name: str, value: str, source: str = "/etc/nccl.conf") -> dict[str, Any]:
    return {"settings": {name: {"value": value, "source": source}}}


@pytest.mark.parametrize(
    ("more", "cause", "fix"),
    [
        ({}, "NCCL says: NET/IB : No device found", "ibv_devinfo"),
        (setting("NCCL_NET", "socket"), "NCCL_NET=socket (/etc/nccl.conf) asks for TCP", "remove"),
        (
            setting("NCCL_IB_DISABLE", "1", OURS),
            f"NCCL_IB_DISABLE=1 ({OURS}) switches RDMA off",
            "cluster_env_extra",
        ),
        (setting("NCCL_IB_DISABLE", "0"), "No device found", "ibv_devinfo"),
        (
            setting("NCCL_IB_HCA", "mlx5_7"),
            "matches none of the active ports: mlx5_0:1",
            "from /etc/nccl.conf",
        ),
        (setting("NCCL_IB_HCA", "=mlx5_0:1"), "No device found", "ibv_devinfo"),
        ({"verbs": 0}, "there is no /dev/infiniband/uverbs*", "modprobe ib_uverbs"),
        (
            {"verbs": 1, "shut": ["/dev/infiniband/uverbs0"]},
            "only root may open /dev/infiniband/uverbs0",
            "chmod 0666 /dev/infiniband/uverbs0",
        ),
        ({"said": [LIBRARY, *TCP]}, "NCCL cannot open libibverbs.so[.1]", "install libibverbs"),
        ({"said": TCP[1:]}, "NCCL does not say why", "NCCL_DEBUG=INFO"),
    ],
)
def test_the_reason_for_tcp_is_named(
    seen: ClusterObservations, more: dict[str, Any], cause: str, fix: str
) -> None:
    more = {"verbs": 1, "shut": [], "settings": {}, **more}
    infiniband(more.pop("said", TCP), **more)(seen)
    one = get_only_finding(seen)
    assert (one.code, one.node, one.peer) == ("VC-720", EL1, UBUNTU1)
    assert f"NCCL on {EL1}, {UBUNTU1} uses TCP although the RDMA port mlx5_0:1" in one.cause
    assert cause in one.cause
    assert fix in one.fix
    assert one.seen.startswith("Using network Socket")


def test_each_cause_is_a_finding(seen: ClusterObservations) -> None:
    infiniband(TCP, 1.9)(seen)
    get_step_report(seen, "nccl")["verbs"] = 0
    one, other = find_findings(seen)
    assert (one.code, one.node, other.code, other.node) == ("VC-720", EL1, "VC-720", UBUNTU1)
    assert [follower.code for follower in one.follows] == ["VC-714"]
    assert other.follows == ()


def test_without_rdma_tcp_is_expected(seen: ClusterObservations) -> None:
    infiniband(TCP)(seen)
    survey(seen, UBUNTU1)["rdma"] = []
    assert find_findings(seen) == []


def test_a_port_that_is_down_is_ignored(seen: ClusterObservations) -> None:
    infiniband(TCP)(seen)
    for port in survey(seen, UBUNTU1)["rdma"]:
        port["state"] = "DOWN"
    assert find_findings(seen) == []


def efa(**change: Any) -> EfaSurvey:
    """Return an EFA in the form of module_utils/fullmesh/facts/efa.py, without faults unless changed."""
    plain = {
        "vendor": "Amazon EC2",
        "instance": "p5.48xlarge",
        "pci": [{"slot": "0000:4f:00.0", "driver": "efa"}],
        "verbs": [{"name": "rdmap79s0", "state": "ACTIVE"}],
        "driver_version": "2.13.0",
        "libfabric": {"fi_info": "/opt/amazon/efa/bin/fi_info", "domains": ["rdmap79s0-rdm"]},
        "plugin": {"path": "/opt/amazon/ofi-nccl/lib/libnccl-net.so", "elsewhere": ""},
        "environment": {},
    }
    return contract.convert_value(EfaSurvey, {**plain, **change})


def test_the_plugin_of_efa_is_missing(seen: ClusterObservations) -> None:
    for name in (EL1, UBUNTU1):
        survey(seen, name)["efa"] = efa(plugin={"path": "", "elsewhere": ""})
        get_step_report(seen, "nccl", name)["said"] = TCP
    one = get_only_finding(seen)
    assert (one.code, one.node) == ("VC-720", EL1)
    assert "although EFA of el1 is up: it has EFA, but NCCL finds no libnccl-net.so" in one.cause
    assert "EFA installer" in one.fix


@pytest.mark.parametrize(
    ("hca", "taken"),
    [
        ("mlx5_0", True),
        ("mlx5", True),  # a prefix of a name
        ("=mlx5", False),
        ("=mlx5_0", True),
        ("=mlx5_0:1,mlx5_3:1", True),
        ("=mlx5_0:2", False),
        ("mlx5_3,mlx5_0:1", True),
        ("^mlx5_0", False),
        ("^mlx5_3", True),
        ("^=mlx5_0:1", False),
        ("^=mlx5_0:2", True),
        ("roce", False),
    ],
)
def test_nccl_ib_hca_selects_these_ports(hca: str, taken: bool) -> None:
    """The cases follow NCCL's documentation of NCCL_IB_HCA."""
    plain = {
        "device": "mlx5_0",
        "port": 1,
        "state": "ACTIVE",
        "physical": "LinkUp",
        "layer": "InfiniBand",
        "rate": "400 Gb/sec (4X NDR)",
        "vendor": "0x15b3",
        "gids": [],
    }
    assert nccl_ways.is_port_selected(hca, contract.convert_value(RdmaPort, plain)) is taken


def test_nodes_with_different_networks_hang_and_are_reported(seen: ClusterObservations) -> None:
    verify_changes.two_networks(seen)
    one = get_only_finding(seen)
    assert (one.code, one.severity, one.node, one.peer) == ("VC-721", "error", UBUNTU1, EL1)
    assert [follower.code for follower in one.follows] == ["VC-712"]
    assert "NCCL uses Socket on ubuntu1 (there is no /dev/infiniband/uverbs*) and IB" in one.cause
    assert (one.seen, one.expected) == (
        "Using network Socket, no uverbs device",
        "Using network IB",
    )


def test_a_node_without_rdma_explains_the_different_networks(seen: ClusterObservations) -> None:
    infiniband(IB)(seen)
    survey(seen, EL1)["rdma"] = []
    get_step_report(seen, "nccl", EL1)["said"] = TCP
    one = get_only_finding(seen)
    assert (one.code, one.severity, one.node) == ("VC-721", "warning", EL1)
    assert "(no RDMA port of it is up)" in one.cause


def test_different_plugins_are_reported(seen: ClusterObservations) -> None:
    for name, network in ((EL1, "AWS Libfabric"), (UBUNTU1, "Libfabric")):
        get_step_report(seen, "nccl", name)["said"] = [
            f"n:1:9 [0] NCCL INFO Using network {network}"
        ]
    one = get_only_finding(seen)
    assert one.code == "VC-721"
    assert "its plugin differs" in one.cause


def no_gpudirect(seen: ClusterObservations, said: list[str], **more: Any) -> None:
    infiniband(said, **more)(seen)
    survey(seen, UBUNTU1)["gpus"]["direct"] = "dma_buf"


def test_the_reason_for_missing_gpudirect_is_named(seen: ClusterObservations) -> None:
    no_gpudirect(seen, HOSTS_MEMORY)
    one = get_only_finding(seen)
    assert (one.code, one.node, one.seen) == ("VC-723", UBUNTU1, "via NET/IB/0")
    assert one.expected == "via NET/IB/0/GDRDMA"
    assert "too far from the GPUs" in one.cause
    get_step_report(seen, "nccl")["said"] = [OFF, *HOSTS_MEMORY]
    assert "GPU Direct RDMA Disabled for mlx5_0" in get_only_finding(seen).cause
    get_step_report(seen, "nccl").update(setting("NCCL_NET_GDR_LEVEL", "LOC"))
    assert "NCCL_NET_GDR_LEVEL=LOC (/etc/nccl.conf)" in get_only_finding(seen).cause


def test_impossible_gpudirect_is_another_finding_or_none(seen: ClusterObservations) -> None:
    no_gpudirect(seen, HOSTS_MEMORY)
    cards = survey(seen, UBUNTU1)["gpus"]["cards"]
    name = cards[0]["name"]
    cards[0]["name"] = "NVIDIA GeForce RTX 4090"
    assert [one.code for one in find_findings(seen)] == ["VC-111"]
    cards[0]["name"] = name
    way = {"bus": "0000:1b:00.0", "kind": "gpu", "numa": 0, "iommu": "", "redirecting": []}
    survey(seen, UBUNTU1)["gpus"]["paths"] = [way, {**way, "kind": "rdma", "numa": 1}]
    assert [one.code for one in find_findings(seen)] == ["VC-146"]


def topology(*rows: str) -> str:
    """Return ``nvidia-smi topo -m`` of a number of GPUs."""
    names = "\t".join(f"GPU{at}" for at in range(len(rows)))
    return "\n".join([f"\t{names}\tCPU Affinity", *(f"GPU{a}\t{r}" for a, r in enumerate(rows))])


@pytest.mark.parametrize(
    ("rows", "linked"),
    [
        ((" X \tNV18", "NV18\t X "), True),
        # two bridged pairs: a ring over all four crosses the CPU
        (
            (
                " X \tNV4\tSYS\tSYS",
                "NV4\t X \tSYS\tSYS",
                "SYS\tSYS\t X \tNV4",
                "SYS\tSYS\tNV4\t X ",
            ),
            False,
        ),
        ((" X ",), False),
        ((), False),
    ],
)
def test_nvlinks_between_all_gpus(rows: tuple[str, ...], linked: bool) -> None:
    assert job.is_fully_linked(parse_topology(topology(*rows))) is linked


def test_the_survey_lists_nvlink_speeds(tmp_path: Path) -> None:
    both = topology(" X \tNV18", "NV18\t X ")
    card = nvlink(16, 2)
    machine = Machine(
        smi("h100-stand-in", 2), bus=2, nvlink=card + card.replace("GPU 0", "GPU 1"), topology=both
    )
    held = gpus_of(machine, tmp_path / "linked")
    assert held["linked"] is True
    assert [(one["links"], one["links_down"], one["link_gb_s"]) for one in held["cards"]] == [
        (18, 2, 425.0),
        (18, 2, 425.0),
    ]
    assert "linked" not in gpus_of(replace(H100, nvlink=""), tmp_path / "without")


def run_alone(
    seen: ClusterObservations, rate: float, size: int = gpu.LARGE_NVLINK
) -> ClusterObservations:
    """Let the second node report the rate of all_reduce on itself, in GB/s."""
    survey(seen, UBUNTU1)["gpus"].update(linked=True)
    for card in survey(seen, UBUNTU1)["gpus"]["cards"]:
        card["link_gb_s"] = 478.1
    get_step_report(seen, "nccl_sizes")["sizes"][-1].update(bytes=size, bus_gbit_s=rate * 8)
    plan = {**seen.plan, "nodes": {UBUNTU1: seen.plan["nodes"][UBUNTU1]}}
    return replace(seen, plan=contract.convert_value(type(seen.plan), json.loads(json.dumps(plan))))


@pytest.mark.parametrize(
    ("rate", "size", "said"),
    [
        (20.0, gpu.LARGE_NVLINK, ["VC-722"]),
        (120.0, gpu.LARGE_NVLINK, []),
        (20.0, gpu.LARGE, []),  # too small for a conclusion about NVLink
    ],
)
def test_one_nodes_rate_is_compared_with_its_nvlinks(
    seen: ClusterObservations, rate: float, size: int, said: list[str]
) -> None:
    one_node = run_alone(seen, rate, size)
    assert [one.code for one in gpu.check_gpu_jobs(one_node)] == said
    survey(seen, UBUNTU1)["gpus"]["linked"] = False  # bridges of pairs
    assert gpu.check_gpu_jobs(one_node) == []


def test_a_missing_nvlink_is_not_also_reported_as_slow(seen: ClusterObservations) -> None:
    verify_changes.nvlinks_unused(seen)
    verify_changes.slow_gpus(seen, 400.0, 20.0)
    one = get_only_finding(seen)
    assert (one.code, one.node) == ("VC-722", UBUNTU1)
    assert [follower.code for follower in one.follows] == ["VC-716"]


# --- the rank's report
# --------------------------------------------------------------------------------


@pytest.fixture
def rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rank:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(ladder_gpu, "get_nccl_log", lambda _: tmp_path / "words")
    monkeypatch.setattr(ladder_gpu, "CONF", str(tmp_path / "nccl.conf"))
    for name in [name for name in os.environ if name.startswith("NCCL_")]:
        monkeypatch.delenv(name)
    settings = {"environment_file": str(tmp_path / "env"), "shut": ["/dev/nvidia0"]}
    return Rank(settings, tmp_path / "events.jsonl")


def test_settings_of_others_are_named_with_their_file(
    rank: Rank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "env").write_text("NCCL_IB_HCA='=mlx5_0:1'\nWORLD_SIZE=2\nNCCL_NET=IB\n")
    (tmp_path / "nccl.conf").write_text("# ours\nNCCL_IB_DISABLE=1\nNCCL_NET=Socket\n")
    monkeypatch.setenv("NCCL_IB_HCA", "=mlx5_0:1")
    monkeypatch.setenv("NCCL_NET", "Socket")  # an exported value overrides the file
    assert ladder_gpu.find_network_choices(rank) == {
        "NCCL_IB_DISABLE": {"value": "1", "source": str(tmp_path / "nccl.conf")},
        "NCCL_IB_HCA": {"value": "=mlx5_0:1", "source": str(tmp_path / "env")},
        "NCCL_NET": {"value": "Socket", "source": "the environment"},
    }


def test_the_first_line_of_a_name_in_nccls_files_counts(
    rank: Rank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """param.cc calls setenv() without overwriting, and reads the file of NCCL_CONF_FILE first."""
    (tmp_path / "nccl.conf").write_text("NCCL_NET=Socket\nNCCL_NET=IB\nNCCL_IB_DISABLE=1\n")
    (tmp_path / "own.conf").write_text("NCCL_IB_DISABLE=0\n")
    monkeypatch.setenv("NCCL_CONF_FILE", str(tmp_path / "own.conf"))
    assert ladder_gpu.find_network_choices(rank) == {
        "NCCL_IB_DISABLE": {"value": "0", "source": str(tmp_path / "own.conf")},
        "NCCL_NET": {"value": "Socket", "source": str(tmp_path / "nccl.conf")},
    }


def test_messages_appear_once(rank: Rank, tmp_path: Path) -> None:
    ways = [f"n:1:{at} [0] NCCL INFO Channel {at} : via NET/IB/0/GDRDMA" for at in range(64)]
    noise = ["n:1:9 [0] NCCL INFO Trees [0] -1/-1/-1", ""]
    (tmp_path / "words").write_text("\n".join([*IB[:2], *noise, *ways]) + "\n")
    assert ladder_gpu.read_nccl_log(rank) == [*IB[:2], ways[0]]


def events(rank: Rank) -> list[dict[str, Any]]:
    lines = rank.events.read_text().splitlines() if rank.events.exists() else []
    return [json.loads(line) for line in lines]


def test_the_network_is_named_while_nccl_still_connects(rank: Rank, tmp_path: Path) -> None:
    with ladder_gpu.report_network_early(rank):
        (tmp_path / "words").write_text(TCP[0] + "\n")
        time.sleep(3 * ladder_gpu.LISTENING)
        assert events(rank) == []  # NCCL has not decided yet
        (tmp_path / "words").write_text("\n".join(TCP) + "\n")
        until = time.monotonic() + 10
        while not events(rank) and time.monotonic() < until:
            time.sleep(0.05)
    (event,) = events(rank)
    assert (event["step"], event["state"]) == ("nccl", "begin")
    said = contract.convert_value(NcclStepResult, event["data"])
    assert said["said"] == TCP
    assert "seconds" not in said


# --- NCCL_IB_GID_INDEX ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "index"),
    [
        ("", None),
        ("-1", None),
        ("3", 3),
        (" 3", 3),
        ("0", 0),
        ("-0", 0),
        ("0x3", 3),
        ("010", 8),
        ("3 # RoCE v2", 3),
        # a file whose reader keeps quotes, and words: strtoll returns 0 for them
        ('""', 0),
        ('"3"', 0),
        ("auto", 0),
        (" ", 0),
    ],
)
def test_a_pin_is_read_as_nccl_reads_it(value: str, index: int | None) -> None:
    assert vc148_gid_index.parse_gid_index(value) == index


def find_pins(seen: ClusterObservations) -> list[Finding]:
    """Return the findings about pins, from a survey that is read again by its type."""
    return list(vc148_gid_index.find_bad_gid_pins(records.read_again(seen)))


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ("3", ""),
        ("", ""),
        ("-1", ""),
        ("0", "is of type IB/RoCE v1"),
        ("1", "is link-local (fe80:"),
        ("2", "is of type IB/RoCE v1"),
        ("4", "is empty"),
        ('""', "is of type IB/RoCE v1"),
    ],
)
def test_a_pin_to_an_unsuitable_entry_is_named(
    seen: ClusterObservations, value: str, wrong: str
) -> None:
    pin_gid(value, *ROCE_GIDS)(seen)
    found = find_pins(seen)
    assert len(found) == bool(wrong)
    for one in found:
        assert one.code == "VC-148"
        assert f"rocep1s0f1:1, which {wrong}" in one.cause
        assert one.expected.endswith("(here 3)")
        assert one.fix == "on ubuntu1: remove NCCL_IB_GID_INDEX from /etc/environment"


def test_each_half_of_a_port_that_nccl_may_use_is_checked(
    seen: ClusterObservations,
) -> None:
    """Two DGX Sparks with one address: entry 3 of the half without it is empty."""
    pin_gid("3", *ROCE_GIDS)(seen)
    found = survey(seen, UBUNTU1)
    twin = {**found["rdma"][0], "device": "roceP2p1s0f1"}
    twin["gids"] = [gid for gid in twin["gids"] if gid["index"] < 2]
    infiniband = {**twin, "device": "mlx5_0", "layer": "InfiniBand"}
    found["rdma"] += [twin, infiniband, {**twin, "device": "roceP2p1s0f0", "state": "DOWN"}]
    (one,) = find_pins(seen)
    assert "entry 3 of roceP2p1s0f1:1, which is empty" in one.cause
    held = found["environment"]["values"]
    held["NCCL_IB_HCA"] = {"value": "=rocep1s0f1:1", "source": "/etc/fullmesh/env"}
    assert find_pins(seen) == []


@pytest.mark.parametrize("where", ["values", "unit", "job", "inventory"])
def test_a_pin_is_found_in_each_source_of_a_job(seen: ClusterObservations, where: str) -> None:
    pin_gid("7", *ROCE_GIDS, source="/etc/fullmesh/env")(seen)
    found = survey(seen, UBUNTU1)
    row = found["environment"]["values"]["NCCL_IB_GID_INDEX"]
    if where in ("unit", "job"):
        del found["environment"]["values"]["NCCL_IB_GID_INDEX"]
    if where == "values":
        row["source"] = "/etc/nccl.conf"
    if where == "unit":
        found["job_unit"] = job_unit.parse_job_unit(
            'LoadState=loaded\nEnvironment=LANG=C "NCCL_IB_GID_INDEX=7"\n'
        )
    if where == "job":
        environment = {"RANK": "0", "NCCL_IB_GID_INDEX": "7"}
        found["jobs"] = [{"pid": 77, "command": "train", "age": 1.0, "environment": environment}]
    (one,) = find_pins(seen)
    place = {
        "values": "from /etc/nccl.conf",
        "unit": "from the unit fullmesh-job@",
        "job": "from the environment of process 77",
        "inventory": "from cluster_env_extra in the inventory, then ",
    }[where]
    assert place in one.fix


def test_a_request_for_roce_v1_is_honoured(seen: ClusterObservations) -> None:
    pin_gid("2", *ROCE_GIDS)(seen)
    row = {"value": "1", "source": "/etc/environment"}
    survey(seen, UBUNTU1)["environment"]["values"]["NCCL_IB_ROCE_VERSION_NUM"] = row
    assert find_pins(seen) == []
