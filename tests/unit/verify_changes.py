"""Typed changes of recorded nodes' answers, one for each rule of the verification.

A change edits the answers as read by their type. `records.verify_answers` reads them again and raises
ContractError for a form that no module returns, which would prove nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from gpu_samples import (
    Machine,
    give,
    gpus_of,
    nvlink,
    rdma,
    smi,
    survey,
    torch_for,
    without_gpus,
)
from records import EL1, UBUNTU1, build_cluster

from fullmesh.model.types import AutoSettings
from fullmesh.observed.ladder import LadderFacts, LadderLinksResult, LinkResult, Verdict
from fullmesh.observed.survey import PciPath
from fullmesh.verify.model import ClusterObservations

SeenChange = Callable[[ClusterObservations], Any]


ON = {"persistence_mode": "Enabled"}


A10G = Machine(smi(**ON), bus=1)


H100 = Machine(smi("h100-stand-in"), bus=1, nvlink=nvlink(18, 0))


WRONG = {"text": "got 1", "seen": "1", "expected": "2"}


def with_gpus(folder: Path, ranks: int = 1, **change_machines: Machine) -> ClusterObservations:
    """Return the recorded nodes with one GPU each, or with the given ones, and torch for CUDA."""
    seen = build_cluster(ranks)
    give(seen, folder, **{EL1: A10G, UBUNTU1: A10G, **change_machines})
    torch_for(seen, "cuda", "11.7")
    return seen


def facts(seen: ClusterObservations, name: str = UBUNTU1) -> LadderFacts:
    return seen.nodes[name]["node"]["facts"]


def links(seen: ClusterObservations, source: str, target: str, *kinds: str) -> list[LinkResult]:
    wanted = kinds or ("sample", "range", "master", "rendezvous")
    found = seen.nodes[source]["links"]["links"]
    return [r for r in found if r["node"] == target and r["kind"] in wanted]


def block(
    seen: ClusterObservations,
    source: str,
    target: str,
    word: Verdict,
    *kinds: str,
    taps: str = "asked",
) -> None:
    """Block a direction. *taps*: how far the packets get (left, asked, answered, back)."""
    pair = f"{seen.address(source)}>{seen.address(target)}"
    watched: tuple[tuple[str, Literal["asked", "answered"], str], ...] = (
        (source, "asked", "left asked answered back"),
        (target, "asked", "asked answered back"),
        (target, "answered", "answered back"),
        (source, "answered", "back"),
    )
    shut = links(seen, source, target, *kinds)
    for record in shut:
        record.update(verdict=word, errno="", ms=0.0, rtt_ms=0.0, offset=None)
    for watcher, what, needs in watched:
        report = seen.nodes[watcher]["started"]["listeners"][what]
        open_ = set(report.get(pair, [])) - {record["port"] for record in shut}
        came = {record["port"] for record in shut} if taps in needs.split() else set()
        report[pair] = sorted(open_ | came)


def stop_rank(
    seen: ClusterObservations, step: str, state: str, name: str = UBUNTU1, /, **more: Any
) -> None:
    """End a node's rank at a step. *more* is added to its last line."""
    rank = str(seen.plan["nodes"][name]["ranks"][0])
    gloo = seen.nodes[name]["gloo"]
    held = gloo["ranks"][rank]
    at = next(i for i, e in enumerate(held["events"]) if e["step"] == step)
    held["events"] = held["events"][: at + 1]
    gloo["ended"]["codes"] = {} if state == "hung" else {rank: -11 if state == "died" else 1}
    if state == "hung":
        gloo["ended"]["killed"] = [int(rank)]
    elif state != "died":
        event: dict[str, Any] = {
            "step": step,
            "state": state,
            "seconds": 1.0,
            "text": "",
            "data": {},
        }
        held["events"].append({**event, **more})  # type: ignore[typeddict-item]


def get_step_report(seen: ClusterObservations, step: str, name: str = UBUNTU1) -> dict[str, Any]:
    """Return the editable report of a step of a node's rank."""
    rank = str(seen.plan["nodes"][name]["ranks"][0])
    events = seen.nodes[name]["gloo"]["ranks"][rank]["events"]
    return next(e for e in events if e["step"] == step and e["state"] == "ok")["data"]


def hold_port(seen: ClusterObservations) -> None:
    for port in seen.nodes[EL1]["node"]["ports"]:
        if port["kind"] == "master":
            port.update(error="EADDRINUSE", holder="python3 (pid 7)")


def no_sample(seen: ClusterObservations) -> None:
    seen.nodes[EL1]["node"]["ports"][0].update(port=0, error="EADDRINUSE")


def nccl(seen: ClusterObservations, **change: Any) -> None:
    seen.nodes[UBUNTU1]["node"]["nccl"].update(change)  # type: ignore[typeddict-item]


def outside_record(seen: ClusterObservations, verdict: Verdict = "open") -> LinkResult:
    """Return a test of a port that the plan does not open, in the form of the recorded ones."""
    return {**links(seen, EL1, UBUNTU1)[0], "kind": "outside", "port": 8193, "verdict": verdict}


def open_outside(seen: ClusterObservations) -> None:
    seen.nodes[EL1]["links"]["links"].append(outside_record(seen))


def reach_from_controller(seen: ClusterObservations, **change: Any) -> LadderLinksResult:
    """Return the controller's answer after it reached the master port."""
    record: LinkResult = {**links(seen, UBUNTU1, EL1, "master")[0], "kind": "outside", **change}  # type: ignore[typeddict-item]
    return {**seen.nodes[EL1]["links"], "links": [record]}


def nccl_tests(text: str, code: int = 0) -> dict[str, Any]:
    return {"applicable": True, "command": ["all_reduce_perf"], "code": code, "text": text}


def slow_gpus(seen: ClusterObservations, first: float = 370.1, second: float = 24.9) -> None:
    for name, rate in ((EL1, first), (UBUNTU1, second)):
        row = f"67108864 16777216 float sum -1 190.1 200.0 {rate} 0 190.0 200.1 {rate} 0"
        text = f"{row}\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {rate}\n"
        get_step_report(seen, "nccl_tests", name).update(nccl_tests(text))


def set_load(seen: ClusterObservations, load: float = 7.5) -> None:
    """Set the load of every node at the end of its ranks."""
    for node in seen.nodes.values():
        node["gloo"]["ended"].update(load=load, cpus=2)


def change_smi(**change: str) -> SeenChange:
    """Change a field in the output of the second node's nvidia-smi."""
    return change_machines(ubuntu1=Machine(smi(**{**ON, **change}), bus=1))


def change_h100(**change: str) -> SeenChange:
    """Give each node an H100 (the real nvidia-smi over a simulated NVML), and change a field of the second one."""
    other = Machine(smi("h100-stand-in", **change), bus=1, nvlink=nvlink(18, 0))
    return change_machines(el1=H100, ubuntu1=other)


def change_machines(**given: Machine) -> SeenChange:
    """Change the hardware, as read by the survey's reader."""

    def change(seen: ClusterObservations) -> None:
        with TemporaryDirectory() as folder:
            for name, machine in given.items():
                survey(seen, name)["gpus"] = gpus_of(machine, Path(folder) / name)

    return change


def left_to_auto(seen: ClusterObservations) -> None:
    """Let the number of ranks come from an earlier survey."""
    one: AutoSettings = {
        "ranks": True,
        "accelerator": "cuda",
        "torch": "",
        "lock": "",
        "driver_branch": "",
        "visible": None,
    }
    seen.plan["auto"] = dict.fromkeys(seen.plan["nodes"], one)


def change_pci_path(**change: Any) -> SeenChange:
    """Put two GPUs on the second node, with a PCIe path in the form of the sysfs reader."""

    def apply(seen: ClusterObservations) -> None:
        way: PciPath = {
            "bus": "0000:1b:00.0",
            "kind": "gpu",
            "numa": 0,
            "iommu": "identity",
            "redirecting": [],
        }
        held = survey(seen, UBUNTU1)["gpus"]
        held["paths"] = [{**way, **change}, {**way, "bus": "0000:43:00.0"}]
        held["direct"] = "dma_buf"

    return apply


def pin_gid(
    value: str, *gids: tuple[int, str, str], source: str = "/etc/environment"
) -> Callable[[ClusterObservations], None]:
    """Make one RoCE port with these entries, and a variable that makes NCCL use one of them."""

    def change(seen: ClusterObservations) -> None:
        found = survey(seen, UBUNTU1)
        found["rdma"] = [
            {
                "device": "rocep1s0f1",
                "port": 1,
                "state": "ACTIVE",
                "physical": "LinkUp",
                "layer": "Ethernet",
                "rate": "100 Gb/sec",
                "vendor": "0x15b3",
                "gids": [{"index": index, "type": kind, "gid": gid} for index, kind, gid in gids],
            }
        ]
        found["limits"]["memlock"] = -1
        row = {"value": value, "source": source}
        found["environment"]["values"]["NCCL_IB_GID_INDEX"] = row

    return change


ROCE_GIDS = (
    (0, "IB/RoCE v1", "fe80:0000:0000:0000:0e42:a1ff:fe12:3456"),
    (1, "RoCE v2", "fe80:0000:0000:0000:0e42:a1ff:fe12:3456"),
    (2, "IB/RoCE v1", "0000:0000:0000:0000:0000:ffff:0a4e:000c"),
    (3, "RoCE v2", "0000:0000:0000:0000:0000:ffff:0a4e:000c"),
)


TCP = [
    "n:1:9 [0] NCCL INFO NET/IB : No device found.",
    "n:1:9 [0] NCCL INFO NET/Socket : Using [0]eth1:10.78.2.11<0>",
    "n:1:9 [0] NCCL INFO Using network Socket",
]


IB = [
    "n:1:9 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth1:10.78.2.11<0>",
    "n:1:9 [0] NCCL INFO Using network IB",
    "n:1:9 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0/GDRDMA",
]


HOSTS_MEMORY = [line.removesuffix("/GDRDMA") for line in IB]


def infiniband(said: list[str], rate: float = 390.0, **more: Any) -> SeenChange:
    """Give both nodes a port of 400 Gbit/s, with NCCL's messages, *more* of the step, and the measured rate."""

    def change(seen: ClusterObservations) -> None:
        with TemporaryDirectory() as folder:
            for name in (EL1, UBUNTU1):
                survey(seen, name)["rdma"] = rdma(Path(folder) / name)
                get_step_report(seen, "nccl", name).update(said=said, **more)
                get_step_report(seen, "nccl_sizes", name)["sizes"][-1].update(bus_gbit_s=rate)

    return change


def two_networks(seen: ClusterObservations) -> None:
    """Hide the second node's RDMA device. Both nodes then wait for each other until the deadline."""
    infiniband(IB)(seen)
    words = {EL1: IB[:-1], UBUNTU1: TCP}
    for name, said in words.items():
        survey(seen, name)["limits"][
            "memlock"
        ] = -1  # the limit of a lab node is too low for RDMA (DG-148)
        stop_rank(seen, "nccl", "hung", name)
        rank = str(seen.plan["nodes"][name]["ranks"][0])
        early = {"applicable": True, "said": said, "settings": {}, "verbs": 0, "shut": []}
        events = seen.nodes[name]["gloo"]["ranks"][rank]["events"]
        events.append({"step": "nccl", "state": "begin", "data": early})


def nvlinks_unused(seen: ClusterObservations) -> None:
    """Make GPUs that are fully connected by NVLink, but as slow as PCIe."""
    change_machines(el1=H100, ubuntu1=H100)(seen)
    slow_gpus(seen, 41.0, 41.0)
    for name in (EL1, UBUNTU1):
        survey(seen, name)["gpus"]["linked"] = True


def remove_driver(seen: ClusterObservations, count: int = 1) -> None:
    """Put GPUs on the bus without a driver, so that the ranks see none."""
    change_machines(el1=Machine(bus=count), ubuntu1=Machine(bus=count))(seen)
    without_gpus(seen, "torch sees no GPU")


def hide_amd_gpus(seen: ClusterObservations) -> None:
    """Give each node two GPUs of AMD's and a torch for ROCm, whose ranks see none."""
    machine = Machine(amd=(0, 0))
    change_machines(el1=machine, ubuntu1=machine)(seen)
    torch_for(seen, "hip", "")
    without_gpus(seen, "torch sees no GPU")


def listeners(value: list[list[Any]]) -> SeenChange:
    return lambda s: get_step_report(s, "sockets").update(listeners=value)


def stopped(step: str, state: str, **more: Any) -> SeenChange:
    return lambda s: stop_rank(s, step, state, **more)


def wrong(step: str, **more: Any) -> SeenChange:
    return stopped(step, "wrong", **WRONG, **more)


def verdict(word: Verdict, source: str = EL1, target: str = UBUNTU1) -> SeenChange:
    return lambda s: block(s, source, target, word)
