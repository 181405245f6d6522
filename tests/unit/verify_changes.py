"""Typed changes of what recorded nodes said, one for each way in which a rule of verification fires.

A change edits the answers as the strict reader gave them; `records.verified` reads them again, so a shape that no
module returns is refused (ContractError) and proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, cast

from ansible.module_utils.fullmesh.survey import job
from gpu_samples import (
    XID,
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
from records import EL1, UBUNTU1, cluster

from fullmesh.model.types import AutoSettings
from fullmesh.observed.ladder import LadderFacts, LadderLinksResult, LinkResult, Verdict
from fullmesh.observed.ranks import CollectedRanks
from fullmesh.observed.survey import PciPath
from fullmesh.verify import rank_ends
from fullmesh.verify.model import ClusterObservations

Change = Callable[[ClusterObservations], Any]
ON = {"persistence_mode": "Enabled"}
A10G = Machine(smi(**ON), bus=1)
H100 = Machine(smi("h100-stand-in"), bus=1, nvlink=nvlink(18, 0))
MANAGER = "Fabric Manager version is : {}\n"
HGX = replace(H100, switches=4, manager=("active", MANAGER.format("580.95.05")))
WRONG = {"text": "got 1", "seen": "1", "expected": "2"}
BAD_TESTS = "# Out of bounds values : 50 FAILED\n# Avg bus bandwidth    : 0.4\n"


def with_gpus(folder: Path, ranks: int = 1, **machines: Machine) -> ClusterObservations:
    """The recorded nodes with a GPU each, or with those given, and torch for CUDA."""
    seen = cluster(ranks)
    give(seen, folder, **{EL1: A10G, UBUNTU1: A10G, **machines})
    torch_for(seen, "cuda", "11.7")
    return seen


# --- what is changed --------------------------------------------------------------------------------


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
    """Block a direction; *taps*: how far the packets come (left, asked, answered, back)."""
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
    """Let the rank of a node end at a step; *more* goes into its last line."""
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


def told(seen: ClusterObservations, step: str, name: str = UBUNTU1) -> dict[str, Any]:
    """What a step of a node's rank reported, to be changed."""
    rank = str(seen.plan["nodes"][name]["ranks"][0])
    events = seen.nodes[name]["gloo"]["ranks"][rank]["events"]
    return next(e for e in events if e["step"] == step and e["state"] == "ok")["data"]


def hold_port(seen: ClusterObservations) -> None:
    for port in seen.nodes[EL1]["node"]["ports"]:
        if port["kind"] == "master":
            port.update(error="EADDRINUSE", holder="python3 (pid 7)")


def no_sample(seen: ClusterObservations) -> None:
    seen.nodes[EL1]["node"]["ports"][0].update(port=0, error="EADDRINUSE")


def sample_elsewhere(seen: ClusterObservations) -> None:
    seen.nodes[EL1]["node"]["ports"][0]["port"] = 40000


def move_clock(seen: ClusterObservations, seconds: float) -> None:
    """Peers measure that the last node's clock is ahead."""
    for name in seen.plan["nodes"]:
        for record in links(seen, name, UBUNTU1):
            record["offset"] = seconds
        for record in links(seen, UBUNTU1, name):
            record["offset"] = -seconds


def lose_rank(seen: ClusterObservations) -> None:
    seen.nodes[UBUNTU1]["gloo"]["ranks"]["1"] = {"events": [], "log": "No such file: python"}


def refuse_rank(seen: ClusterObservations) -> None:
    """The ranks of a node cannot start, and the node knows why."""
    gloo = seen.nodes[UBUNTU1]["gloo"]
    gloo["ranks"]["1"] = {"events": [], "log": ""}
    gloo["ended"] = {
        "codes": {},
        "killed": [],
        "error": "/opt has mode 0700",
        "code": "VC-305",
        "fix": "chmod o+rx /opt",
    }


def lose_node(seen: ClusterObservations) -> None:
    """The connection to a node went away while its rank ran."""
    lost = rank_ends.read_missing_answer(
        {"unreachable": True, "msg": "[AK-102] it was silent"}, [1]
    )
    seen.nodes[UBUNTU1]["gloo"] = cast("CollectedRanks", lost)


def nccl(seen: ClusterObservations, **change: Any) -> None:
    seen.nodes[UBUNTU1]["node"]["nccl"].update(change)  # type: ignore[typeddict-item]


def outside_record(seen: ClusterObservations, verdict: Verdict = "open") -> LinkResult:
    """A try of a port that the plan does not open, like the recorded ones of the others."""
    return {**links(seen, EL1, UBUNTU1)[0], "kind": "outside", "port": 8193, "verdict": verdict}


def open_outside(seen: ClusterObservations) -> None:
    seen.nodes[EL1]["links"]["links"].append(outside_record(seen))


def outside(seen: ClusterObservations, **change: Any) -> LadderLinksResult:
    """What the controller says that tried the master port and got through."""
    record: LinkResult = {**links(seen, UBUNTU1, EL1, "master")[0], "kind": "outside", **change}  # type: ignore[typeddict-item]
    return {**seen.nodes[EL1]["links"], "links": [record]}


def outsider(seen: ClusterObservations) -> None:
    object.__setattr__(seen, "outside", outside(seen))


def late(seen: ClusterObservations) -> None:
    links(seen, EL1, UBUNTU1)[0].update(remark="connected, but the answer was late")


def nccl_tests(text: str, code: int = 0) -> dict[str, Any]:
    return {"applicable": True, "command": ["all_reduce_perf"], "code": code, "text": text}


def slow_gpus(seen: ClusterObservations, first: float = 370.1, second: float = 24.9) -> None:
    for name, rate in ((EL1, first), (UBUNTU1, second)):
        row = f"67108864 16777216 float sum -1 190.1 200.0 {rate} 0 190.0 200.1 {rate} 0"
        text = f"{row}\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {rate}\n"
        told(seen, "nccl_tests", name).update(nccl_tests(text))


def two_nccls(seen: ClusterObservations) -> None:
    for name in seen.plan["nodes"]:
        facts(seen, name)["versions"]["torch_nccl"] = "2.29.7"


def busy(seen: ClusterObservations, load: float = 7.5) -> None:
    """Every node was this busy when its ranks had ended."""
    for node in seen.nodes.values():
        node["gloo"]["ended"].update(load=load, cpus=2)


def waited(seen: ClusterObservations) -> None:
    busy(seen)
    stop_rank(seen, "fsdp", "hung")


def swap(**change: str) -> Change:
    """Another field in what the second node's nvidia-smi prints."""
    return machines(ubuntu1=Machine(smi(**{**ON, **change}), bus=1))


def h100(**change: str) -> Change:
    """Two nodes with an H100 each (the lab's stand-in below the real nvidia-smi), the second one's field changed."""
    other = Machine(smi("h100-stand-in", **change), bus=1, nvlink=nvlink(18, 0))
    return machines(el1=H100, ubuntu1=other)


def broken_smi(said: str, code: int) -> Change:
    """nvidia-smi fails in these words, which are the real one's over the stand-in."""
    return machines(el1=H100, ubuntu1=Machine(said, code, bus=1, device=True))


def machines(**given: Machine) -> Change:
    """Other hardware, as the survey's own reader sees it."""

    def change(seen: ClusterObservations) -> None:
        with TemporaryDirectory() as folder:
            for name, machine in given.items():
                survey(seen, name)["gpus"] = gpus_of(machine, Path(folder) / name)

    return change


def left_to_auto(seen: ClusterObservations) -> None:
    """The number of ranks came from an earlier look at the nodes."""
    one: AutoSettings = {
        "ranks": True,
        "accelerator": "cuda",
        "torch": "",
        "lock": "",
        "driver_branch": "",
        "visible": None,
    }
    seen.plan["auto"] = dict.fromkeys(seen.plan["nodes"], one)


def idle(seen: ClusterObservations) -> None:
    """Four GPUs on each node, and a rank, as it was worked out when there was one."""
    machines(**{n: Machine(smi(count=4, **ON), bus=4) for n in (EL1, UBUNTU1)})(seen)
    left_to_auto(seen)


def on_the_way(**change: Any) -> Change:
    """Two GPUs of the second node on a machine of its own, whose way through PCIe is as the reader of sysfs says it."""

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


def no_gpudirect(seen: ClusterObservations) -> None:
    survey(seen, UBUNTU1)["gpus"].update(direct="")
    with TemporaryDirectory() as folder:
        survey(seen, UBUNTU1)["rdma"] = rdma(Path(folder))


def other_socket(seen: ClusterObservations) -> None:
    on_the_way(kind="rdma", numa=1)(seen)
    with TemporaryDirectory() as folder:
        survey(seen, UBUNTU1)["rdma"] = rdma(Path(folder))


def nccl_tuned(seen: ClusterObservations) -> None:
    row = {"value": "Ring", "source": "/etc/environment"}
    survey(seen, UBUNTU1)["environment"]["values"]["NCCL_ALGO"] = row


def pin_gid(
    value: str, *gids: tuple[int, str, str], source: str = "/etc/environment"
) -> Callable[[ClusterObservations], None]:
    """One RoCE port with these entries, and a variable that makes NCCL take one of them."""

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


def xid(seen: ClusterObservations) -> None:
    survey(seen, UBUNTU1)["kernel_log"] = job.parse_kernel_log([XID], 1000.0)


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


def infiniband(said: list[str], rate: float = 390.0, **more: Any) -> Change:
    """Two nodes with a port of 400 Gbit/s each; what NCCL says of it, *more* of the step, and what it reaches."""

    def change(seen: ClusterObservations) -> None:
        with TemporaryDirectory() as folder:
            for name in (EL1, UBUNTU1):
                survey(seen, name)["rdma"] = rdma(Path(folder) / name)
                told(seen, "nccl", name).update(said=said, **more)
                told(seen, "nccl_sizes", name)["sizes"][-1].update(bus_gbit_s=rate)

    return change


def two_networks(seen: ClusterObservations) -> None:
    """The second node's card is not seen there; both wait for each other until the deadline."""
    infiniband(IB)(seen)
    words = {EL1: IB[:-1], UBUNTU1: TCP}
    for name, said in words.items():
        survey(seen, name)["limits"]["memlock"] = -1  # a lab node's is too small for RDMA (DG-148)
        stop_rank(seen, "nccl", "hung", name)
        rank = str(seen.plan["nodes"][name]["ranks"][0])
        early = {"applicable": True, "said": said, "settings": {}, "verbs": 0, "shut": []}
        events = seen.nodes[name]["gloo"]["ranks"][rank]["events"]
        events.append({"step": "nccl", "state": "begin", "data": early})


def no_gpudirect_used(seen: ClusterObservations) -> None:
    infiniband(HOSTS_MEMORY)(seen)
    survey(seen, UBUNTU1)["gpus"]["direct"] = "dma_buf"


def nvlinks_unused(seen: ClusterObservations) -> None:
    """Cards whose NVLinks lead to all others of their node, and the pace of PCIe."""
    machines(el1=H100, ubuntu1=H100)(seen)
    slow_gpus(seen, 41.0, 41.0)
    for name in (EL1, UBUNTU1):
        survey(seen, name)["gpus"]["linked"] = True


def no_driver(seen: ClusterObservations, count: int = 1) -> None:
    """GPUs on the bus that no driver has: the ranks see none."""
    machines(el1=Machine(bus=count), ubuntu1=Machine(bus=count))(seen)
    without_gpus(seen, "torch sees no GPU")


def listeners(value: list[list[Any]]) -> Change:
    return lambda s: told(s, "sockets").update(listeners=value)


def stopped(step: str, state: str, **more: Any) -> Change:
    return lambda s: stop_rank(s, step, state, **more)


def wrong(step: str, **more: Any) -> Change:
    return stopped(step, "wrong", **WRONG, **more)


def verdict(word: Verdict, source: str = EL1, target: str = UBUNTU1) -> Change:
    return lambda s: block(s, source, target, word)


CHANGES: dict[str, tuple[str, Change]] = {
    "address gone": ("VC-121", lambda s: facts(s)["addresses"].pop(s.address(UBUNTU1))),
    "address elsewhere": (
        "VC-122",
        lambda s: facts(s)["addresses"].update({s.address(UBUNTU1): "eth0"}),
    ),
    "other host name": ("VC-123", lambda s: s.plan["nodes"][UBUNTU1].update(hostname="gpu7")),
    "stale name": ("VC-101", lambda s: facts(s)["names"]["plan"].update(el1=["10.9.9.9"])),
    "unknown name": ("VC-101", lambda s: facts(s)["names"]["plan"].update(el1=[])),
    "silent name server": ("VC-101", lambda s: facts(s)["names"]["plan"].update(el1=None)),
    "127.0.1.1": ("VC-102", lambda s: facts(s)["names"].update(own=["127.0.1.1"])),
    "own name unknown": ("VC-102", lambda s: facts(s)["names"].update(own=[])),
    "clock behind": ("VC-103", lambda s: move_clock(s, -20.0)),
    "clock ahead": ("VC-103", lambda s: move_clock(s, 6.0)),
    "other torch": ("VC-104", lambda s: facts(s)["versions"].update(torch="2.12.0+cpu")),
    "other python": ("VC-104", lambda s: facts(s)["versions"].update(python="3.12.1")),
    "other system nccl": ("VC-104", lambda s: nccl(s, version="2.27.3")),
    "few files": ("VC-105", lambda s: facts(s)["limits"].update(nofile=4)),
    "no carrier": ("VC-106", lambda s: facts(s)["interface"].update(up=False)),
    "no pin": ("VC-107", lambda s: facts(s)["sysctls"].update(port_range="32768\t60999")),
    "range reserved": (
        "VC-108",
        lambda s: facts(s)["sysctls"].update(reserved_ports="29400,50000-60000"),
    ),
    "master port taken": ("VC-109", hold_port),
    "other mtu": ("VC-110", lambda s: facts(s)["interface"].update(mtu=9000)),
    "a gpu less": ("VC-111", machines(ubuntu1=Machine())),
    "other model": ("VC-111", machines(ubuntu1=Machine(smi("tesla-t4", **ON), bus=1))),
    "other driver": ("VC-111", swap(driver_version="570.1")),
    "ecc": ("VC-112", swap(dram_uncorrectable="2")),
    "xid": ("VC-113", xid),
    "few lanes": ("VC-114", swap(current_link_width="4x")),
    "persistence": ("VC-115", swap(persistence_mode="Disabled")),
    "other kernel": ("VC-116", lambda s: facts(s).update(kernel="6.2.0")),
    "other zone": ("VC-116", lambda s: facts(s)["software"].update(time_zone="Europe/Berlin")),
    "other cuda of the driver": ("VC-116", swap(cuda_version="11.8")),
    "torch too new": ("VC-117", lambda s: torch_for(s, "cuda", "13.0")),
    "two nccls": ("VC-118", two_nccls),
    "driver changed under its module": (
        "VC-131",
        broken_smi("Failed to initialize NVML: Driver/library version mismatch\n", 18),
    ),
    "gpu lost": (
        "VC-131",
        broken_smi("Unable to determine the device handle for GPU1: GPU is lost.  Reboot\n", 15),
    ),
    "module not loaded": (
        "VC-131",
        broken_smi("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA\n", 9),
    ),
    "no gpu started": ("VC-131", broken_smi("No devices were found\n", 6)),
    "smi says nothing": ("VC-131", broken_smi("", 1)),
    "gpu not shown": ("VC-132", machines(ubuntu1=Machine(smi(**ON), bus=2))),
    "worn memory": ("VC-133", h100(remapped_row_failure="Yes")),
    "memory to be remapped": ("VC-134", h100(remapped_row_pending="Yes")),
    "nvlinks down": (
        "VC-135",
        machines(el1=H100, ubuntu1=replace(H100, nvlink=nvlink(16, 2))),
    ),
    "fabric not up": ("VC-136", h100(state="In Progress")),
    "fabric manager of another version": (
        "VC-147",
        machines(el1=HGX, ubuntu1=replace(HGX, manager=("active", MANAGER.format("580.82.07")))),
    ),
    "hot": ("VC-137", h100(clocks_event_reason_hw_thermal_slowdown="Active")),
    "nobody may compute": ("VC-138", h100(compute_mode="Prohibited")),
    "mig": ("VC-139", h100(current_mig="Enabled")),
    "acs": ("VC-141", on_the_way(redirecting=["0000:19:00.0"])),
    "iommu": ("VC-142", on_the_way(iommu="DMA-FQ")),
    "no gpudirect": ("VC-143", no_gpudirect),
    "nccl tuned": ("VC-144", nccl_tuned),
    "gid pin": ("VC-148", pin_gid("3", *ROCE_GIDS[:2])),
    "no nvlink bridge": ("VC-145", machines(el1=H100, ubuntu1=replace(H100, nvlink=""))),
    "rdma on the other socket": ("VC-146", other_socket),
    "memory held": ("VC-140", h100(used="28610 MiB")),
    "drop": ("VC-201", verdict("dropped")),
    "reject": ("VC-202", lambda s: block(s, EL1, UBUNTU1, "rejected", "sample", "range")),
    "reset by firewall": (
        "VC-203",
        lambda s: block(s, UBUNTU1, EL1, "refused", "sample", "range"),
    ),
    "no route": ("VC-204", verdict("no_route")),
    "cut off": ("VC-205", verdict("reset")),
    "other source": ("VC-206", verdict("wrong_source")),
    "stranger": ("VC-207", verdict("someone_else")),
    "mtu hole": ("VC-208", verdict("mtu_black_hole")),
    "late answer": ("VC-209", late),
    "outside port": (
        "VC-210",
        lambda s: (object.__setattr__(s, "mode", "peers_only"), open_outside(s)),
    ),
    "outsider": ("VC-211", outsider),
    "pin not real": ("VC-212", sample_elsewhere),
    "no port given": ("VC-213", no_sample),
    "store away": ("VC-301", stopped("store", "failed", text="DistNetworkError: timed out")),
    "rendezvous away": ("VC-301", stopped("rendezvous", "failed", text="timed out")),
    "foreign key": ("VC-308", wrong("store")),
    "foreign key at the rendezvous": ("VC-308", wrong("rendezvous")),
    "no torch": ("VC-302", stopped("import", "failed", text="ModuleNotFoundError: torch")),
    "segfault": ("VC-303", stopped("all_reduce", "died")),
    "no interpreter": ("VC-304", lose_rank),
    "account may not run python": ("VC-305", refuse_rank),
    "processors": ("VC-306", waited),
    "connection lost": ("VC-309", lose_node),
    "file closed": (
        "VC-310",
        stopped(
            "import", "failed", text="PermissionError: [Errno 13] Permission denied: 'x', at y:1"
        ),
    ),
    "library missing": (
        "VC-311",
        stopped("import", "failed", text="ImportError: libx.so.1: cannot open shared object file"),
    ),
    "line of the environment": (
        "VC-312",
        stopped(
            "import", "failed", text="EnvironmentFileError: env, NCCL_NET: No closing quotation"
        ),
    ),
    "gpu raises": (
        "VC-724",
        stopped("gpus", "failed", text="RuntimeError: CUDA driver version is insufficient, at x:1"),
    ),
    "gloo fails": ("VC-401", stopped("init", "failed", text="connectFullMesh failed")),
    "gloo hangs": ("VC-401", stopped("init", "hung")),
    "wrong sum": ("VC-402", wrong("all_reduce")),
    "barrier fails": ("VC-403", stopped("barrier", "failed", text="RuntimeError")),
    "collective hangs": ("VC-403", stopped("bandwidth", "hung")),
    "listener outside": ("VC-501", listeners([["10.78.2.12", 40001]])),
    "listener on lo": ("VC-502", listeners([["127.0.0.1", 50001]])),
    "nccl address": ("VC-601", lambda s: nccl(s, address="172.17.0.1")),
    "nccl port": ("VC-602", lambda s: nccl(s, port=40000)),
    "nccl fails": ("VC-603", lambda s: nccl(s, reason="refused", error="no socket interface")),
    "nccl missing": ("VC-604", lambda s: nccl(s, version="", reason="missing")),
    "no gpu": ("VC-711", wrong("gpus", check="gpus", ranks=[1])),
    "nccl aborts": ("VC-712", stopped("nccl", "died")),
    "nccl hangs": ("VC-712", stopped("nccl_sizes", "hung")),
    "nccl sums wrong": ("VC-713", wrong("nccl_sizes", check="values")),
    "nccl slow": ("VC-714", lambda s: told(s, "nccl_sizes")["sizes"][-1].update(bus_gbit_s=1.9)),
    "slow for infiniband": ("VC-714", infiniband(IB, 1.9)),
    "tcp beside infiniband": ("VC-720", infiniband(TCP, 1.9)),
    "fast tcp beside infiniband": ("VC-720", infiniband(TCP)),
    "two networks": ("VC-721", two_networks),
    "nvlinks unused": ("VC-722", nvlinks_unused),
    "no gpudirect used": ("VC-723", no_gpudirect_used),
    "nccl-tests fail": ("VC-715", lambda s: told(s, "nccl_tests").update(nccl_tests(BAD_TESTS))),
    "nccl-tests break off": (
        "VC-715",
        lambda s: told(s, "nccl_tests").update(nccl_tests("Test NCCL failure", 3)),
    ),
    "nccl-tests hang": ("VC-715", stopped("nccl_tests", "failed", text="TimeoutExpired")),
    "slow gpus": ("VC-716", slow_gpus),
    "torch for cpus": ("VC-717", lambda s: torch_for(s, "cpu", "")),
    "idle gpus": ("VC-718", idle),
    "no driver": ("VC-719", no_driver),
    "other seed": ("VC-801", wrong("ddp", check="start")),
    "sampler": ("VC-802", wrong("ddp", check="sampler")),
    "other loss": ("VC-803", wrong("gpu_ddp", check="ranks")),
    "not as alone": ("VC-804", wrong("ddp", check="reference")),
    "amp": ("VC-805", wrong("gpu_amp", check="amp")),
    "groups": ("VC-806", wrong("subgroups", check="reference")),
    "fsdp": ("VC-807", wrong("fsdp", check="sharding")),
    "training hangs": ("VC-808", stopped("subgroups", "hung")),
    "training fails": ("VC-808", stopped("fsdp", "failed", text="RuntimeError")),
}
WARNINGS = {
    *("VC-110", "VC-111", "VC-114", "VC-115", "VC-116", "VC-118"),
    *("VC-134", "VC-135", "VC-137", "VC-139", "VC-140"),
    *("VC-141", "VC-142", "VC-143", "VC-144", "VC-145", "VC-146", "VC-147"),
    *("VC-209", "VC-714", "VC-716", "VC-720", "VC-722", "VC-723"),
}
