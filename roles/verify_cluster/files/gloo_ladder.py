"""One rank of the verification: a real Gloo job whose every result is compared with the exact value.

``gloo_ladder.py settings.json events.jsonl``, started by the module ladder_gloo with the environment
of a real job. Every step writes a line when it begins and one when it ends. They show the step in
which a rank hung when it was killed.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import statistics
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ladder_gpu
import ladder_train
from ladder_rank import BEGUN, Rank, UnsupportedError, WrongValueError, refuse_objects

if TYPE_CHECKING:  # types of these events. Nodes do not have this module
    from fullmesh.observed.ranks import (
        BandwidthStepResult,
        EmptyStepResult,
        GroupsStepResult,
        ImportStepResult,
        LatencyStepResult,
        SocketsStepResult,
    )

ELEMENTS = 1024
GROUP_PAIRS = 8  # each group costs each member one listener. Eight pairs show the same as eighty
LATENCY_ROUNDS = 20
# Between two collectives of the training steps, a rank took up to 1 s of CPU time (torch compiles and imports at first
# use). Ranks that share a CPU do so one after the other.
COLLECTIVE_PATIENCE = 3
BANDWIDTH_ROUNDS = 3
LISTEN = "0A"
SUPERVISOR_SECONDS = 0.5
LOCAL_STEPS = ("import", "gpus")  # their errors are this node's own
MOST_WORDS = 160  # characters of an error, so that the file and line fit into a finding


def equal(rank: Rank, what: str, seen: Any, expected: Any) -> None:
    """Compare exactly: the values are small integers, which are never rounded."""
    if not rank.torch.equal(seen, expected):
        wrong = int((seen != expected).flatten().nonzero()[0])
        first = (seen.flatten()[wrong].item(), expected.flatten()[wrong].item())
        raise WrongValueError(f"{what}, element {wrong}", *first)


def pattern(rank: Rank, number: int) -> Any:
    """Return numbers that differ for each rank and element."""
    return rank.torch.arange(ELEMENTS, dtype=rank.torch.float32) + number * 7


def step_import(rank: Rank) -> ImportStepResult:
    """Load torch, and read the environment file of jobs, which can be wrong without a GPU as well."""
    ladder_gpu.read_environment_file(ladder_gpu.get_environment_file(rank))
    rank.torch = importlib.import_module("torch")
    rank.dist = importlib.import_module("torch.distributed")
    rank.torch.set_num_threads(1)
    refuse_objects(rank.dist)
    return {"torch": rank.torch.__version__, "gloo": rank.dist.is_gloo_available()}


def open_store(rank: Rank, address: str, port: int, serve: bool) -> Any:
    """Connect to (or serve) a TCPStore."""
    return rank.dist.TCPStore(
        address,
        port,
        rank.world,
        serve,
        timeout=timedelta(seconds=rank.left()),
        wait_for_workers=False,
    )


def meet(rank: Rank, store: Any, name: str) -> EmptyStepResult:
    """Wait until each rank has set its key, or name the missing ranks."""
    store.set(f"{name}/{rank.rank}", str(rank.rank))
    keys = [f"{name}/{number}" for number in range(rank.world)]
    try:
        store.wait(keys, timedelta(seconds=rank.left()))
    except Exception as exc:
        missing = [n for n, key in enumerate(keys) if not store.check([key])]
        text = f"ranks {missing} never reached the store"
        raise RuntimeError(text) from exc
    for number, key in enumerate(keys):
        if store.get(key) != str(number).encode():
            raise WrongValueError(f"store key {key}", store.get(key), number)
    return {}


def step_store(rank: Rank) -> EmptyStepResult:
    """Reach rank 0's store."""
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    rank.store = open_store(rank, address, port, rank.rank == 0)
    return meet(rank, rank.store, "store")


def step_rendezvous(rank: Rank) -> EmptyStepResult:
    """Reach a store on the port of torchrun's rendezvous."""
    address, port = os.environ["MASTER_ADDR"], int(rank.settings["rendezvous_port"])
    rank.rendezvous = open_store(rank, address, port, rank.rank == 0)
    return meet(rank, rank.rendezvous, "rendezvous")


def be_patient(rank: Rank, group: Any) -> None:
    """Give the collectives of a group more time than its connections, because they wait for the slowest rank."""
    seconds = min(COLLECTIVE_PATIENCE * float(rank.settings["init_timeout"]), rank.left())
    rank.dist.distributed_c10d._set_pg_timeout(timedelta(seconds=seconds), group)


def step_init(rank: Rank) -> EmptyStepResult:
    """Let Gloo connect every rank with every rank."""
    rank.dist.init_process_group(
        "gloo",
        store=rank.dist.PrefixStore("fullmesh", rank.store),
        rank=rank.rank,
        world_size=rank.world,
        timeout=timedelta(seconds=float(rank.settings["init_timeout"])),
    )
    be_patient(rank, rank.dist.group.WORLD)
    return {}


def step_all_reduce(rank: Rank) -> EmptyStepResult:
    """Compute a sum and a maximum over all ranks."""
    total = pattern(rank, rank.rank)
    rank.dist.all_reduce(total)
    steps = 7 * rank.world * (rank.world - 1) // 2
    base = rank.torch.arange(ELEMENTS, dtype=rank.torch.float32)
    equal(rank, "all_reduce(sum)", total, base * rank.world + steps)
    top = pattern(rank, rank.rank)
    rank.dist.all_reduce(top, op=rank.dist.ReduceOp.MAX)
    equal(rank, "all_reduce(max)", top, pattern(rank, rank.world - 1))
    return {}


def step_broadcast(rank: Rank) -> EmptyStepResult:
    """Broadcast from each rank in turn."""
    for source in range(rank.world):
        mine = pattern(rank, source if source == rank.rank else -1)
        rank.dist.broadcast(mine, source)
        equal(rank, f"broadcast from rank {source}", mine, pattern(rank, source))
    return {}


def step_all_gather(rank: Rank) -> EmptyStepResult:
    """Gather the numbers of all ranks on all ranks."""
    found = [rank.torch.zeros(ELEMENTS) for _ in range(rank.world)]
    rank.dist.all_gather(found, pattern(rank, rank.rank))
    for number, seen in enumerate(found):
        equal(rank, f"all_gather, part of rank {number}", seen, pattern(rank, number))
    return {}


def supported(call: Callable[[], Any]) -> None:
    """Distinguish a missing collective from a failing one."""
    try:
        call()
    except (RuntimeError, NotImplementedError) as exc:
        text = str(exc)
        if any(word in text.lower() for word in ("not support", "unsupported", "not implemented")):
            raise UnsupportedError(text.splitlines()[0]) from exc
        raise


def step_reduce_scatter(rank: Rank) -> EmptyStepResult:
    """Sum over all ranks, and return one part to each."""
    parts = [pattern(rank, rank.rank + part) for part in range(rank.world)]
    mine = rank.torch.zeros(ELEMENTS)
    supported(lambda: rank.dist.reduce_scatter(mine, parts))
    steps = 7 * (rank.world * (rank.world - 1) // 2 + rank.world * rank.rank)
    base = rank.torch.arange(ELEMENTS, dtype=rank.torch.float32)
    equal(rank, "reduce_scatter", mine, base * rank.world + steps)
    return {}


def step_all_to_all(rank: Rank) -> EmptyStepResult:
    """Send different numbers from each rank to each rank."""
    torch = rank.torch
    sent = torch.arange(rank.world, dtype=torch.int64) + rank.rank * rank.world
    got = torch.zeros(rank.world, dtype=torch.int64)
    supported(lambda: rank.dist.all_to_all_single(got, sent))
    equal(rank, "all_to_all", got, torch.arange(rank.world) * rank.world + rank.rank)
    return {}


def step_barrier(rank: Rank) -> EmptyStepResult:
    """Wait for all ranks."""
    rank.dist.barrier()
    return {}


def group_members(world: int) -> list[list[int]]:
    """Return even ranks, odd ranks and some pairs. Each rank makes the same list, as new_group demands."""
    wanted = [list(range(0, world, 2)), list(range(1, world, 2))]
    pairs = [[first, first + 1] for first in range(0, world - 1, 2)]
    return [group for group in wanted + pairs[:GROUP_PAIRS] if group]


def step_groups(rank: Rank) -> GroupsStepResult:
    """Create subgroups, each with its own listeners, and sum within each."""
    wanted = group_members(rank.world)
    timeout = timedelta(seconds=float(rank.settings["init_timeout"]))
    for members in wanted:
        group = rank.dist.new_group(members, timeout=timeout, backend="gloo")
        if rank.rank in members:
            be_patient(rank, group)
        rank.groups.append((members, group))
    for members, group in rank.groups:
        if rank.rank in members:
            value = rank.torch.tensor([float(rank.rank + 1)])
            rank.dist.all_reduce(value, group=group)
            expected = rank.torch.tensor([float(sum(members) + len(members))])
            equal(rank, f"all_reduce in group {members}", value, expected)
    return {"groups": wanted}


def step_latency(rank: Rank) -> LatencyStepResult:
    """Time the smallest all_reduce."""
    value = rank.torch.zeros(1)
    seconds = []
    for _ in range(LATENCY_ROUNDS):
        begun = time.perf_counter()
        rank.dist.all_reduce(value)
        seconds.append(time.perf_counter() - begun)
    return {"latency_us": round(statistics.median(seconds) * 1e6, 1)}


def step_bandwidth(rank: Rank) -> BandwidthStepResult:
    """Time a large all_reduce. Bus bandwidth is as nccl-tests defines it."""
    size = int(rank.settings["bandwidth_mib"]) * 1024 * 1024
    value = rank.torch.ones(size // 4)
    seconds = []
    for _ in range(BANDWIDTH_ROUNDS):
        value.fill_(1.0)
        rank.dist.barrier()
        begun = time.perf_counter()
        rank.dist.all_reduce(value)
        seconds.append(time.perf_counter() - begun)
    ends = rank.torch.stack((value[0], value[-1]))
    equal(rank, "large all_reduce", ends, rank.torch.full((2,), float(rank.world)))
    best = min(seconds)
    share = 2 * (rank.world - 1) / rank.world
    gbits = size * share * 8 / best / 1e9
    return {"mib": size >> 20, "seconds_best": round(best, 4), "bus_gbit_s": round(gbits, 3)}


def decode(text: str) -> tuple[str, int]:
    """Read an address of /proc/net/tcp."""
    shown, port = text.split(":")
    words = [struct.pack("=I", int(shown[i : i + 8], 16)) for i in range(0, len(shown), 8)]
    raw = b"".join(words)
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    address = socket.inet_ntop(family, raw)
    return address.removeprefix("::ffff:"), int(port, 16)


def step_sockets(rank: Rank) -> SocketsStepResult:
    """Report the sockets of this process."""
    own = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            own.add(str(entry.readlink()))
        except OSError:
            continue
    listeners, connections = [], []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        if not Path(table).exists():
            continue
        for line in Path(table).read_text().splitlines()[1:]:
            part = line.split()
            if f"socket:[{part[9]}]" not in own:
                continue
            if part[3] == LISTEN:
                listeners.append(decode(part[1]))
            else:
                connections.append((*decode(part[1]), *decode(part[2])))
    rank.dist.barrier()  # no rank ends while others still count
    return {"listeners": sorted(listeners), "connections": len(connections)}


STEPS: dict[str, Callable[[Rank], Mapping[str, object]]] = {
    "import": step_import,
    "store": step_store,
    "rendezvous": step_rendezvous,
    "init": step_init,
    "all_reduce": step_all_reduce,
    "broadcast": step_broadcast,
    "all_gather": step_all_gather,
    "reduce_scatter": step_reduce_scatter,
    "all_to_all": step_all_to_all,
    "barrier": step_barrier,
    "groups": step_groups,
    "latency": step_latency,
    "bandwidth": step_bandwidth,
    "sockets": step_sockets,
    **ladder_gpu.STEPS,
    **ladder_train.STEPS,
}


def describe_error(exc: Exception) -> str:
    """Describe an error with its file and line, and a folder that this account cannot read."""
    words = (str(exc).splitlines() or [""])[0][:MOST_WORDS]
    frames = traceback.extract_tb(exc.__traceback__)
    place = f", at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    closed = find_unreadable() if isinstance(exc, ImportError) else ""
    return f"{type(exc).__name__}: {words}{closed}{place}"


def find_unreadable() -> str:
    """Name a folder of Python packages that exists and that this account cannot read."""
    for folder in sys.path:
        for path in (
            folder,
            f"{folder}/torch",
            f"{folder}/torch/distributed",
            f"{folder}/torch/lib",
        ):
            if path and os.path.exists(path) and not os.access(path, os.R_OK):
                return f" (this account cannot read {path})"
    return ""


def take(rank: Rank, name: str) -> bool:
    """Take one step. Return False if it failed, so that no further step runs."""
    rank.say(step=name, state="begin", at=round(time.monotonic() - BEGUN, 3))
    begun = time.monotonic()
    state, text = "ok", ""
    data: Mapping[str, object] = {}
    seen: dict[str, object] = {}
    try:
        data = STEPS[name](rank)
    except UnsupportedError as exc:
        state, text = "unsupported", str(exc)
    except WrongValueError as exc:
        state, text = "wrong", str(exc)
        seen = {"seen": exc.seen, "expected": exc.expected}
        seen |= {"check": exc.check, "ranks": exc.ranks}
    except Exception as exc:  # any error of torch is a result
        state, text = "failed", f"{type(exc).__name__}: {exc}"[:2000]
        if name in LOCAL_STEPS:
            text = describe_error(exc)
    spent = round(time.monotonic() - begun, 4)
    rank.say(step=name, state=state, seconds=spent, text=text, data=data, **seen)
    return state in ("ok", "unsupported")


def follow_supervisor(pid: int) -> None:
    """End this process when its supervisor is gone, which systemd does not watch."""
    while True:
        time.sleep(SUPERVISOR_SECONDS)
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            os._exit(1)
        except OSError:
            continue  # it is there, and root's


def main() -> int:
    """Take the steps until one fails."""
    if supervisor := os.environ.get("FULLMESH_SUPERVISOR", ""):
        threading.Thread(target=follow_supervisor, args=(int(supervisor),), daemon=True).start()
    settings = json.loads(Path(sys.argv[1]).read_text())
    rank = Rank(settings, Path(sys.argv[2]))
    for name in STEPS:
        if name in settings["steps"] and not take(rank, name):
            return 1
    rank.say(step="done", state="ok", seconds=round(time.monotonic() - BEGUN, 3), text="", data={})
    return 0


if __name__ == "__main__":
    CODE = main()
    sys.stdout.flush()
    # Threads of Gloo and the store make a normal exit slow. All events are written.
    os._exit(CODE)
