"""Evaluate checks L7 and L8: NCCL's bandwidth compared with the links, nccl-tests, and training."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from statistics import median
from typing import TypedDict

from fullmesh.contract import convert_rank_steps
from fullmesh.model.auto import VISIBLE
from fullmesh.observed.ranks import GpusStepResult, NcclSizeResult
from fullmesh.result.findings import WARNING, Finding, join_names
from fullmesh.verify import nccl_ways
from fullmesh.verify.cards import (
    describe_amd_gpus,
    describe_gpus,
    get_gpu_survey,
    get_torch_build,
    has_gpus,
    list_amd_gpus,
    list_gpus,
)
from fullmesh.verify.model import ClusterObservations
from fullmesh.verify.nccl_ways import (
    compute_pcie_rate,
    find_nccl_networks,
    find_nccl_transports,
    list_nccl_ports,
    parse_first_number,
)
from fullmesh.verify.rank_ends import iterate_ranks

# The share of a link that NCCL reaches on a healthy cluster: nearly all of it over RDMA. Over TCP with default
# settings, it reaches a third of a 100 Gbit/s link and most of a slow one. A lower share is a fault, not a lack of
# tuning.
SHARE_RDMA = 0.5
SHARE_SOCKET = 0.2
SHARE_OF_OTHERS = 0.5  # of the rate of nccl-tests on the other nodes of the cluster
LARGE = 4 << 20  # bytes. Smaller messages measure latency, not bandwidth.
# The share of a GPU's NVLinks in one direction, if they connect all GPUs. NCCL's developers name 370 of 450 GB/s for
# 8 H100 (480 with SHARP) and 230 of 300 for 8 A100, at sizes of GiB (NVIDIA/nccl-tests#212, #149). Two bridged H100
# PCIe measured 115 of 300 (NVIDIA/nccl#1161). 64 MiB reach less than that, and PCIe alone reaches a tenth.
SHARE_NVLINK = 0.2
LARGE_NVLINK = 64 << 20
TABLE_ROW = re.compile(r"^\s*(\d+)\s+(\d+)\s+(\w+)\s+(\w+)\s+(.*)")
OUT_OF_BOUNDS = re.compile(r"# Out of bounds values : (\d+) (OK|FAILED)")
AVERAGE = re.compile(r"# Avg bus bandwidth\s*: ([0-9.]+)")

GIB = 8.0  # Gbit/s of a GB/s


class NcclTestRow(TypedDict):
    """A size of nccl-tests with its bus bandwidth out of place, GB/s."""

    bytes: int
    bus_gb_s: float


class NcclTestsOutput(TypedDict):
    """The output of nccl-tests.

    Attributes:
        wrong: values out of bounds, None if it did not print its last line.
        average: GB/s, None likewise.
    """

    rows: list[NcclTestRow]
    wrong: int | None
    average: float | None


class NcclTestsRun(NcclTestsOutput):
    """The same, with its exit code and last line."""

    code: int
    last: str


def parse_nccl_tests(text: str) -> NcclTestsOutput:
    """Parse the output of ``all_reduce_perf`` of nccl-tests.

    Before 2.13, the table has no ``root``, and the last column of each half is the largest error instead of a count.
    """
    rows: list[NcclTestRow] = []
    for line in text.splitlines():
        match = TABLE_ROW.match(line)
        if not match:
            continue
        words = match[5].split()
        half = words[-8:-4] if len(words) >= 8 else []  # noqa: PLR2004 (time algbw busbw wrong, twice)
        try:
            rows.append({"bytes": int(match[1]), "bus_gb_s": float(half[2])})
        except (IndexError, ValueError):
            continue
    bounds, average = OUT_OF_BOUNDS.search(text), AVERAGE.search(text)
    return {
        "rows": rows,
        "wrong": int(bounds[1]) if bounds else None,
        "average": float(average[1]) if average else None,
    }


def collect_rank_gpus(seen: ClusterObservations) -> dict[int, tuple[str, GpusStepResult]]:
    """Map each rank to its node and the result of its step ``gpus``."""
    return {
        rank: (name, data)
        for name, rank, report, _ in iterate_ranks(seen)
        if (data := convert_rank_steps(report).get("gpus"))
    }


def explain_no_rank_gpus(seen: ClusterObservations) -> str:
    """Return why all ranks that reached this step have no GPU, or "" if one has a GPU."""
    rows = collect_rank_gpus(seen)
    if not rows or any(data["applicable"] for _, data in rows.values()):
        return ""
    return join_names(sorted({str(data.get("why", "")) for _, data in rows.values()}))


def has_unseen_amd_gpus(seen: ClusterObservations, name: str) -> bool:
    """Return whether a node has GPUs of AMD's and a torch for ROCm that should use them."""
    return bool(list_amd_gpus(seen, name)) and get_torch_build(seen, name) == "hip"


def explain_no_gpus(seen: ClusterObservations) -> str:
    """Return why check L7 does not apply. Return "" if it does, or if another rule explains unused GPUs."""
    whys = explain_no_rank_gpus(seen)
    names = list(seen.plan["nodes"])
    if not whys or any(has_gpus(seen, name) or has_unseen_amd_gpus(seen, name) for name in names):
        return ""
    dark = [name for name in names if "present" not in get_gpu_survey(seen, name)]
    if dark:
        return f"no rank has a GPU ({whys}), and the survey does not show whether {join_names(dark)} has one"
    return f"not applicable: no GPU on any node ({whys})"


def collect_nccl_rates(seen: ClusterObservations) -> list[NcclSizeResult]:
    """Return the rates of all_reduce by message size, from the slowest rank."""
    table: dict[int, NcclSizeResult] = {}
    for _, _, report, _ in iterate_ranks(seen):
        said = convert_rank_steps(report).get("nccl_sizes")
        for row in said.get("sizes", []) if said else []:
            held = table.get(row["bytes"])
            if held is None or row["bus_gbit_s"] < held["bus_gbit_s"]:
                table[row["bytes"]] = row
    return [table[size] for size in sorted(table)]


def get_rdma_speed(seen: ClusterObservations, name: str) -> float:
    """Return the total Gbit/s of the RDMA ports that NCCL uses on a node, or 0.

    A port carries no more than its PCIe link. Each of a DGX Spark's twins has the port's rate and half its lanes.
    """
    return sum(
        min(
            rate
            for rate in (parse_first_number(port["rate"]), compute_pcie_rate(port, "current"))
            if rate
        )
        for port in list_nccl_ports(seen, name)
        if parse_first_number(port["rate"])
    )


def get_interface_speed(seen: ClusterObservations, name: str) -> float:
    """Return the Gbit/s of a node's cluster interface, or 0 if the kernel does not report it (virtual NICs)."""
    return max(0, int(seen.facts(name).get("interface", {}).get("speed", 0) or 0)) / 1000


def find_expected_speed(seen: ClusterObservations) -> tuple[str, float, str]:
    """Return the slowest node, its Gbit/s and the kind of link. RDMA counts if it is up on every node."""
    names = list(seen.plan["nodes"])
    rdma = {name: get_rdma_speed(seen, name) for name in names}
    kind, speeds = "RDMA ports", rdma
    if not all(rdma.values()):
        kind, speeds = (
            "cluster interface",
            {name: get_interface_speed(seen, name) for name in names},
        )
    slowest = min(names, key=lambda name: speeds[name])
    return slowest, speeds[slowest], kind


def rule_nccl_bandwidth(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the bus bandwidth of large messages fits the slowest link between the nodes."""
    rates = [row["bus_gbit_s"] for row in collect_nccl_rates(seen) if row["bytes"] >= LARGE]
    name, speed, kind = find_expected_speed(seen)
    if not rates or not speed or len(seen.plan["nodes"]) < 2:  # noqa: PLR2004 (one node has no link)
        return
    rdma = kind == "RDMA ports"
    least = speed * (SHARE_RDMA if rdma else SHARE_SOCKET)
    if max(rates) >= least:
        return
    over = sorted(set(find_nccl_networks(seen).values()))
    way = f" over {join_names(over)}" if over else ""
    yield Finding(
        "VC-714",
        "L7",
        f"NCCL reaches {max(rates):.1f} Gbit/s{way}, but the {kind} of {name} can do {speed:g}",
        node=name,
        peer=join_names([other for other in seen.plan["nodes"] if other != name]),
        seen=f"{max(rates):.1f} Gbit/s",
        expected=f"at least {least:.1f} Gbit/s",
        check=f"on {name}: {'ibstat, ib_write_bw between two nodes' if rdma else 'iperf3'} and "
        "nvidia-smi topo -m. Run again with NCCL_DEBUG=INFO",
        fix="set NCCL_SOCKET_IFNAME and NCCL_IB_HCA as role cluster_env does, or correct the slow interface",
        severity=WARNING,
    )


def read_nccl_tests(seen: ClusterObservations) -> dict[str, NcclTestsRun]:
    """Parse the output of nccl-tests on each node, with its exit code and last line."""
    found: dict[str, NcclTestsRun] = {}
    for name, _, report, _ in iterate_ranks(seen):
        data = convert_rank_steps(report).get("nccl_tests")
        if data and data["applicable"]:
            text = data["text"]
            lines = [line for line in text.splitlines() if line.strip()]
            last = lines[-1][:300] if lines else ""
            found[name] = {**parse_nccl_tests(text), "code": data["code"], "last": last}
    return found


def rule_nccl_tests(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that nccl-tests, if installed, completes without a wrong value."""
    for name, rows in read_nccl_tests(seen).items():
        if rows["code"] == 0 and rows["wrong"] == 0:
            continue
        wrong = rows["wrong"]
        why = (
            f"{wrong} values out of bounds"
            if wrong
            else f"exit code {rows['code']}, {rows['last']}"
        )
        yield Finding(
            "VC-715",
            "L7",
            f"nccl-tests over the GPUs of {name} failed: {why}",
            node=name,
            seen=why,
            expected="0 values out of bounds",
            check=f"on {name}: NCCL_P2P_DISABLE=1 all_reduce_perf -g 2 (a peer-to-peer fault disappears) and "
            "dmesg | grep -i -E 'xid|iommu'",
            fix="set the IOMMU to passthrough and turn ACS off, or replace the GPU with the Xid",
        )


def collect_intra_node_rates(seen: ClusterObservations) -> dict[str, float]:
    """Return the GB/s of large messages between a node's GPUs: nccl-tests', or check L7's on a single node."""
    found = {
        name: max(
            (row["bus_gb_s"] for row in rows["rows"] if row["bytes"] >= LARGE_NVLINK), default=0.0
        )
        for name, rows in read_nccl_tests(seen).items()
    }
    if len(seen.plan["nodes"]) == 1:
        (name,) = seen.plan["nodes"]
        own = [
            row["bus_gbit_s"] / GIB
            for row in collect_nccl_rates(seen)
            if row["bytes"] >= LARGE_NVLINK
        ]
        found[name] = max([found.get(name, 0.0), *own])
    return {name: rate for name, rate in found.items() if rate}


def get_nvlink_speed(seen: ClusterObservations, name: str) -> float:
    """Return the GB/s of the slowest GPU's NVLinks in one direction, or 0 unless they connect all GPUs."""
    speeds = [card.get("link_gb_s", 0.0) for card in list_gpus(seen, name)]
    return min(speeds) if speeds and get_gpu_survey(seen, name).get("linked") else 0.0


def rule_nvlink_rate(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that GPUs with NVLinks use them for large messages."""
    for name, rate in collect_intra_node_rates(seen).items():
        speed = get_nvlink_speed(seen, name)
        if rate < speed * SHARE_NVLINK:
            yield Finding(
                "VC-722",
                "L7",
                f"the GPUs of {name} exchange {rate:.1f} GB/s, but their NVLinks can do {speed:g}",
                node=name,
                seen=f"{rate:.1f} GB/s",
                expected=f"at least {speed * SHARE_NVLINK:.0f} GB/s",
                check=f"on {name}: NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,P2P,GRAPH shows the path. See also "
                "env | grep -E 'NCCL_(P2P|SHM|NVLS|ALGO|PROTO)' and nvidia-smi topo -p2p n",
                fix="remove these variables, start the fabric manager, or give a container all GPUs",
                severity=WARNING,
            )


def rule_slow_node(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that nccl-tests measures about the same rate inside every node."""
    best = {
        name: max(row["bus_gb_s"] for row in rows["rows"])
        for name, rows in read_nccl_tests(seen).items()
        if rows["rows"]
    }
    if len(best) < 2:  # noqa: PLR2004 (nothing to compare with)
        return
    usual = max(median(best.values()), 0.01) if len(best) > 2 else max(best.values())  # noqa: PLR2004 (a pair)
    slow = [name for name, rate in best.items() if rate < usual * SHARE_OF_OTHERS]
    for name in slow:
        yield Finding(
            "VC-716",
            "L7",
            f"the GPUs of {name} exchange {best[name]:.1f} GB/s among themselves, and those of the others {usual:.1f}",
            node=name,
            peer=join_names([other for other in best if other not in slow]),
            seen=f"{best[name]:.1f} GB/s",
            expected=f"about {usual:.1f} GB/s",
            check=f"on {name}: nvidia-smi nvlink -s && nvidia-smi topo -m && systemctl status nvidia-fabricmanager",
            fix=f"on {name}: systemctl enable --now nvidia-fabricmanager, or reseat the NVLink bridge",
            severity=WARNING,
        )


def describe_nccl_library(seen: ClusterObservations) -> str:
    """Describe the library that replaced NCCL, or return "" if NCCL was used. torch for ROCm calls RCCL ``nccl``."""
    hip = [name for name in seen.plan["nodes"] if get_torch_build(seen, name) == "hip"]
    return (
        f"by RCCL, which torch for ROCm has in the place of NCCL ({join_names(hip)})" if hip else ""
    )


def build_nccl_details(seen: ClusterObservations) -> Mapping[str, object]:
    """Build the details of check L7."""
    name, speed, kind = find_expected_speed(seen)
    return {
        "gpus": {
            str(rank): data.get("name", data.get("device", ""))
            for rank, (_, data) in collect_rank_gpus(seen).items()
        },
        "sizes": collect_nccl_rates(seen),
        "transport": find_nccl_transports(seen),
        "link": {"node": name, "gbit_s": speed, "kind": kind},
        "nccl_tests": {
            n: {k: v for k, v in t.items() if k != "rows"} for n, t in read_nccl_tests(seen).items()
        },
    }


def build_training_details(seen: ClusterObservations) -> Mapping[str, object]:
    """Build the details of check L8: the end of each job, as the first rank reported it."""
    for _, _, report, _ in iterate_ranks(seen):
        said = convert_rank_steps(report)
        jobs = {
            "ddp": said.get("ddp"),
            "amp": said.get("amp"),
            "subgroups": said.get("subgroups"),
            "fsdp": said.get("fsdp"),
            "gpu_ddp": said.get("gpu_ddp"),
            "gpu_amp": said.get("gpu_amp"),
            "gpu_subgroups": said.get("gpu_subgroups"),
            "gpu_fsdp": said.get("gpu_fsdp"),
        }
        return {
            "jobs": {
                step: {k: v for k, v in ended.items() if k != "applicable"}
                for step, ended in jobs.items()
                if ended and ended["applicable"]
            }
        }
    return {}


def rule_unused_gpus(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that torch sees the GPUs of a node."""
    why = explain_no_rank_gpus(seen)
    blind = [
        n for n in seen.plan["nodes"] if has_gpus(seen, n) and get_torch_build(seen, n) != "cpu"
    ]
    if why and blind:
        yield Finding(
            "VC-719",
            "L7",
            f"there are GPUs on {join_names(blind)} ({describe_gpus(seen, blind[0])}) and no rank sees one: {why}",
            node=blind[0],
            peer=join_names(blind[1:]),
            seen=why,
            expected="a GPU for every rank",
            check=f"on {blind[0]}: nvidia-smi && ls -l /dev/nvidia* && echo ${VISIBLE}",
            fix=f"on {blind[0]}: install a driver (role nvidia_driver), or give the container the devices",
        )
    amd = [name for name in seen.plan["nodes"] if has_unseen_amd_gpus(seen, name)]
    if why and amd:
        first = list_amd_gpus(seen, amd[0])[0]
        driver = f"its driver is {first['driver']}" if first["driver"] else "it has no driver"
        yield Finding(
            "VC-719",
            "L7",
            f"there are GPUs on {join_names(amd)} ({describe_amd_gpus(seen, amd[0])}) and no rank sees one: {why}",
            node=amd[0],
            peer=join_names(amd[1:]),
            seen=f"{why}; {first['bus']}: {driver}",
            expected="a GPU for every rank",
            check=f"on {amd[0]}: ls -l /dev/kfd /dev/dri && dmesg | grep amdgpu",
            fix=f"on {amd[0]}: load AMD's driver (modprobe amdgpu), or give the container the devices /dev/kfd and "
            "/dev/dri",
        )


JOB_RULES = (
    *(rule_unused_gpus, *nccl_ways.RULES),
    *(rule_nccl_bandwidth, rule_nccl_tests, rule_nvlink_rate, rule_slow_node),
)


def check_gpu_jobs(seen: ClusterObservations) -> list[Finding]:
    """Return all findings of check L7 that need more than one rank."""
    return [finding for rule in JOB_RULES for finding in rule(seen)]
