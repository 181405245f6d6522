"""Break one thing in L7 or L8 and print the output of the ranks: ``train_faults.py [CASE...]``.

This runs the ranks' own program, which is in the same folder, with one of its functions replaced on one rank (or on
all). torch is imported once, then every case forks its ranks, so that a case takes only tenths of a second. The
process that forks has no other threads: a lock that a thread held at that moment would never be released in the rank.
"""

from __future__ import annotations

import faulthandler
import json
import os
import pickle
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import gloo_ladder
import ladder_gpu
import ladder_rank
import ladder_train
import torch
import torch._dynamo  # DDP would import this in every rank
import torch.distributed as dist
from ladder_rank import BEGUN, RESERVE_SECONDS, Place, Rank

HERE = Path(__file__).parent
HANG_SECONDS = 90
CPU = {"device": "cpu", "backend": "gloo"}
RAN = HERE / "a-pickle-ran"
GPU_CASES = (
    "no gpu",
    "wrong sum",
    "nccl dies",
    "gpus",
    "pickle",
    "asked for a pickle",
    "pickled key",
)
GPU_STEPS = ("init", "groups", "gpus", "nccl", "nccl_sizes", "nccl_tests")
TRAIN_STEPS = ("init", "groups", "ddp", "amp", "subgroups", "fsdp")


@dataclass(frozen=True)
class OtherTeam(ladder_train.Team):
    """A rank that was started with another seed."""

    seed: int = ladder_train.SEED + 1


def patched(module: Any, **names: Any) -> None:
    """Replace functions of a module."""
    for name, value in names.items():
        setattr(module, name, value)


def without_epochs(made: Callable[..., Any]) -> Callable[..., Any]:
    """Leave out set_epoch, the usual mistake."""

    def make(*given: Any) -> Any:
        sampler = made(*given)
        sampler.set_epoch = lambda _: None
        return sampler

    return make


def everything(rank: Rank, team: Any, data: Any) -> Any:
    """Use no DistributedSampler at all, the other usual mistake."""
    sampler = torch.utils.data.RandomSampler(data)
    sampler.set_epoch = lambda _: None  # type: ignore[attr-defined]
    return sampler


def summed(made: Callable[..., Any]) -> Callable[..., Any]:
    """Add gradients up without dividing them."""

    def hook(group: Any, bucket: Any) -> Any:
        future = dist.all_reduce(bucket.buffer(), group=group, async_op=True).get_future()
        return future.then(lambda done: done.value()[0])

    # DDP reads the annotations, which are strings in this file
    hook.__annotations__ = {"bucket": dist.GradBucket, "return": torch.futures.Future[torch.Tensor]}

    def make(rank: Rank, net: Any, team: Any) -> Any:
        wrapped = made(rank, net, team)
        wrapped.register_comm_hook(team.place.group, hook)
        return wrapped

    return make


def over_all(rank: Rank, net: Any, team: Any) -> Any:
    """Send a subgroup's gradients to all ranks."""
    return torch.nn.parallel.DistributedDataParallel(net)


def in_subgroups(job: Callable[..., Any]) -> Callable[..., Any]:
    """Break only the subgroups."""

    def broken(rank: Rank, place: Place) -> Any:
        ladder_train.wrap_with_ddp = over_all
        return job(rank, place)

    return broken


def other_start(job: Callable[..., Any]) -> Callable[..., Any]:
    """Start FSDP with another seed. Unlike DDP, it does not copy rank 0's parameters."""

    def broken(rank: Rank, place: Place) -> Any:
        if rank.rank == 1:
            made = ladder_train.build_network
            ladder_train.build_network = lambda r, t, d=None: made(
                r, OtherTeam(t.members, t.place), d
            )
        return job(rank, place)

    return broken


def alone_sharded(made: Callable[..., Any]) -> Callable[..., Any]:
    """Let every rank shard alone."""

    def make(rank: Rank, net: Any, place: Place) -> Any:
        own = next(group for members, group in rank.groups if members == [rank.rank])
        return made(rank, net, Place("cpu", "gloo", own))

    return make


def leave(*_: Any) -> Any:
    """End the rank."""
    os._exit(9)


def cpu_jobs(**jobs: Any) -> None:
    """Replace the jobs of the steps."""
    for name, job in jobs.items():
        gloo_ladder.STEPS[name] = lambda rank, job=job: ladder_train.run_on_cpu(job, rank)


class Weapon:
    """An object that a peer would send to run code on this rank."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(RAN),)


def row(_: Any) -> bytes:
    """Return a pickle instead of JSON."""
    raw = pickle.dumps(Weapon())
    return (len(raw).to_bytes(2, "big") + raw).ljust(ladder_rank.ROW, b"\0")


def asking(rank: Rank) -> tuple[str, str, str]:
    """Gather an object from every rank, one of them malicious. The program must reject this."""
    rows: list[Any] = [None] * rank.world
    dist.all_gather_object(rows, Weapon() if rank.rank == 1 else "")
    return "cpu", "gloo", ""


def key_of_store(rank: Rank) -> dict[str, Any]:
    """Answer in the store as a fake peer."""
    if rank.rank == 1:
        rank.store.set("store/1", pickle.dumps(Weapon()))
        os._exit(0)
    return gloo_ladder.meet(rank, rank.store, "store")


# name -> (number of ranks, broken ranks, their change)
CASES: dict[str, tuple[int, list[int], Callable[[], None]]] = {
    "healthy": (2, [], lambda: None),
    "other seed": (2, [1], lambda: patched(ladder_train, Team=OtherTeam)),
    "no set_epoch": (
        2,
        [1],
        lambda: patched(ladder_train, make_sampler=without_epochs(ladder_train.make_sampler)),
    ),
    "no sampler": (2, [1], lambda: patched(ladder_train, make_sampler=everything)),
    "other rate": (2, [1], lambda: patched(ladder_train, RATE=0.2)),
    "not a number": (2, [1], lambda: patched(ladder_train, RATE=float("nan"))),
    "summed": (
        2,
        [0, 1],
        lambda: patched(ladder_train, wrap_with_ddp=summed(ladder_train.wrap_with_ddp)),
    ),
    "no autocast": (2, [1], lambda: patched(torch, autocast=lambda *_, **__: nullcontext())),
    "overflow": (2, [0, 1], lambda: patched(ladder_train, SCALE=3e38)),
    "mixed groups": (
        4,
        [0, 1, 2, 3],
        lambda: cpu_jobs(subgroups=in_subgroups(ladder_train.step_subgroups)),
    ),
    "fsdp seed": (2, [0, 1], lambda: cpu_jobs(fsdp=other_start(ladder_train.step_fsdp))),
    "not sharded": (
        2,
        [0, 1],
        lambda: patched(ladder_train, shard_network=alone_sharded(ladder_train.shard_network)),
    ),
    "dies": (2, [1], lambda: cpu_jobs(fsdp=leave)),
    "no gpu": (
        2,
        [1],
        lambda: patched(ladder_gpu, choose_device=lambda _: ("", "", "torch sees no GPU")),
    ),
    "wrong sum": (2, [1], lambda: patched(ladder_gpu, PATTERN=17)),
    "nccl dies": (2, [1], lambda: gloo_ladder.STEPS.update(nccl=leave)),
    "pickle": (2, [1], lambda: patched(ladder_rank, encode_row=row)),
    "asked for a pickle": (2, [0, 1], lambda: patched(ladder_gpu, choose_device=asking)),
    "pickled key": (2, [0, 1], lambda: gloo_ladder.STEPS.update(init=key_of_store)),
}


def run_steps(rank: Rank, steps: tuple[str, ...], port: int) -> None:
    """Run the steps like the program, with a store that no rank serves."""
    gloo_ladder.step_import(rank)
    patience = timedelta(seconds=20)
    store = dist.TCPStore("127.0.0.1", port, timeout=patience)
    rank.store = dist.PrefixStore(str(rank.events.parent), store)
    for name in steps:
        if not gloo_ladder.take(rank, name):
            break


def child(number: int, world: int, broken: Callable[[], None] | None, where: Path) -> None:
    """Run one forked rank. One that hangs prints where, and ends."""
    faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
    port = int(os.environ["STORE_PORT"])
    steps = GPU_STEPS if where.name in GPU_CASES else TRAIN_STEPS
    os.environ.update(RANK=str(number), LOCAL_RANK=str(number), GLOO_SOCKET_IFNAME="lo")
    os.environ.update(WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world))
    if broken:
        broken()
    # If a rank died, the others wait until the deadline, so it is short in this case.
    patience = 15 if where.name == "nccl dies" else 60
    deadline = time.monotonic() - BEGUN + RESERVE_SECONDS + patience
    settings = {"deadline": deadline, "init_timeout": 20, "bandwidth_mib": 1, "gpu": CPU}
    settings["nccl_tests"] = [str(HERE / "fake_all_reduce_perf")]
    run_steps(Rank(settings, where / f"{number}.jsonl"), steps, port)
    os._exit(0)


def case(name: str, world: int, guilty: list[int], broken: Callable[[], None]) -> list[Any]:
    """Run a case and return the last line of every rank."""
    where = Path(tempfile.mkdtemp()) / name
    where.mkdir()
    children = []
    for number in range(world):
        pid = os.fork()
        if pid == 0:
            child(number, world, broken if number in guilty else None, where)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)
    found = []
    for number in range(world):
        lines = (where / f"{number}.jsonl").read_text().splitlines()
        found.append(json.loads(lines[-1]))
    return found


def telling(lines: list[Any]) -> dict[str, Any]:
    """Return a short form of the most specific last line, and all lines."""
    order = ("wrong", "failed", "ok", "begin")
    line = min(lines, key=lambda held: order.index(held["state"]))
    short = [line["step"], line["state"], line.get("check", ""), line.get("ranks", [])]
    return {"short": short, "lines": lines}


def serve_store() -> int:
    """Serve the ranks' store in a process of its own and return its process ID. Its port is in the environment."""
    reader, writer = os.pipe()
    server = os.fork()
    if server == 0:
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        os.write(writer, str(store.port).encode())
        signal.pause()
    os.environ["STORE_PORT"] = os.read(reader, 5).decode()
    return server


def main() -> None:
    """Print the results of the named cases, or of all, as JSON."""
    server = serve_store()
    try:
        wanted = sys.argv[1:] or list(CASES)
        found = {name: telling(case(name, *CASES[name])) for name in wanted}
        found["gpus"] = telling(case("gpus", 2, [], lambda: None))
    finally:
        os.kill(server, signal.SIGKILL)
    found["a pickle ran"] = RAN.exists()
    pickle.loads(pickle.dumps(Weapon()))  # noqa: S301 (our own, to show that it is one)
    found["the weapon works"] = RAN.exists()
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
