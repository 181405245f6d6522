"""Measure the bandwidth of collectives over all ranks by message size, like nccl-tests, on GPUs and on CPUs.

Run on every node: ``/opt/fullmesh/bin/fullmesh-torchrun all_reduce_perf.py [COLLECTIVE] [-b 1M] [-e 64M] [-f 4] [-n 20]
[-w 5]``. The options are those of nccl-tests. You can use any other launcher. Nothing has to be built: torch has NCCL.
"""

from __future__ import annotations

import argparse
import atexit
import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import NamedTuple

import torch
import torch.distributed as dist

PATTERN = 16  # of the values, which are small whole numbers, so their sums are exact
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Buffers(NamedTuple):
    """The input and output of a collective. all_reduce uses one tensor for both."""

    put: torch.Tensor
    got: torch.Tensor


# How often each byte is on the wire, for n ranks (nccl-tests, doc/PERFORMANCE.md): twice if every value travels once to
# be summed, and once more as the result.
ROUNDS = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "all_to_all": 1}
# torch 2.13 has new names for these two
all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
CALLS: dict[str, Callable[[Buffers], object]] = {
    "all_reduce": lambda at: dist.all_reduce(at.got),
    "all_gather": lambda at: all_gather(at.got, at.put),
    "reduce_scatter": lambda at: reduce_scatter(at.got, at.put),
    "all_to_all": lambda at: dist.all_to_all_single(at.got, at.put),
}


def begin() -> torch.device:
    """Join the other ranks; return the device of this one."""
    local = int(os.environ["LOCAL_RANK"])
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", local) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    seconds = float(os.environ.get("FULLMESH_TIMEOUT_SECONDS", "120"))
    dist.init_process_group("nccl" if gpu else "gloo", timeout=timedelta(seconds=seconds))
    return device


def bus_share(name: str) -> float:
    """Return the ratio of bus to algorithm bandwidth. Bus bandwidth does not grow with the number of ranks."""
    world = dist.get_world_size()
    return ROUNDS[name] * (world - 1) / world


def buffers(name: str, count: int, device: torch.device) -> Buffers:
    """Allocate *count* values, and fill this rank's part with a pattern plus its own number."""
    world, rank = dist.get_world_size(), dist.get_rank()
    put = count // world if name == "all_gather" else count
    got = count // world if name == "reduce_scatter" else count
    given = torch.arange(put, device=device).remainder(PATTERN).add(rank).float()
    return Buffers(given, given if name == "all_reduce" else torch.zeros(got, device=device))


def expected(name: str, count: int, device: torch.device) -> torch.Tensor:
    """Return the values that this rank must have received."""
    world, rank = dist.get_world_size(), dist.get_rank()
    part = count // world
    base = torch.arange(count, device=device).remainder(PATTERN)
    each = torch.arange(world, device=device).repeat_interleave(part)
    summed = base * world + world * (world - 1) // 2
    mine = slice(rank * part, (rank + 1) * part)
    return {
        "all_reduce": lambda: summed,
        "reduce_scatter": lambda: summed[mine],
        "all_gather": lambda: base[:part].repeat(world) + each,
        "all_to_all": lambda: base[mine].repeat(world) + each,
    }[name]().float()


def all_ranks(value: float, how: dist.ReduceOp.RedOpType, device: torch.device) -> float:
    """Return the sum or the maximum of a number over all ranks."""
    held = torch.tensor([value], dtype=torch.float64, device=device)
    dist.all_reduce(held, op=how)
    return float(held)


def seconds(name: str, at: Buffers, asked: argparse.Namespace, device: torch.device) -> float:
    """Return the average seconds of a call on the slowest rank."""

    def run(times: int) -> float:
        if device.type == "cuda":
            torch.cuda.synchronize()  # a call returns before the work on the GPU ends
        dist.barrier()
        begun = time.perf_counter()
        for _ in range(times):
            CALLS[name](at)
        if device.type == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - begun) / times

    run(asked.warm_up)
    return all_ranks(run(asked.times), dist.ReduceOp.MAX, device)


def sweep(asked: argparse.Namespace, device: torch.device) -> Iterator[tuple[int, float, int]]:
    """Yield size in bytes, seconds, and the number of wrong values on all ranks together."""
    world, size = dist.get_world_size(), max(4, asked.smallest)
    while size <= asked.largest:
        count = max(1, size // 4 // world) * world
        at = buffers(asked.collective, count, device)
        CALLS[asked.collective](at)
        differ = int((at.got != expected(asked.collective, count, device)).sum())
        wrong = int(all_ranks(differ, dist.ReduceOp.SUM, device))
        at.got.zero_()  # or all_reduce would add up to infinity
        yield count * 4, seconds(asked.collective, at, asked, device), wrong
        size *= asked.factor


def bytes_of(text: str) -> int:
    """Return ``64M`` as bytes."""
    unit = UNITS.get(text[-1:].upper(), 1)
    return int(text[:-1] if unit > 1 else text) * unit


def arguments() -> argparse.Namespace:
    """Parse the options, which have the names of nccl-tests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collective", nargs="?", choices=sorted(CALLS), default="all_reduce")
    parser.add_argument("-b", dest="smallest", type=bytes_of, default="1M")
    parser.add_argument("-e", dest="largest", type=bytes_of, default="64M")
    parser.add_argument("-f", dest="factor", type=lambda text: max(2, int(text)), default=4)
    parser.add_argument("-n", dest="times", type=lambda text: max(1, int(text)), default=20)
    parser.add_argument("-w", dest="warm_up", type=lambda text: max(1, int(text)), default=5)
    return parser.parse_args()


def say(text: str) -> None:
    """Print a line, on rank 0."""
    if dist.get_rank() == 0:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def main() -> int:
    """Print a line per size; return the number of wrong values."""
    asked = arguments()
    device = begin()
    say(f"{'bytes':>12} {'time us':>11} {'algbw GB/s':>11} {'busbw GB/s':>11} {'wrong':>6}")
    best, all_wrong = 0.0, 0
    for size, spent, wrong in sweep(asked, device):
        rate = size / spent / 1e9
        bus = rate * bus_share(asked.collective)
        say(f"{size:>12} {spent * 1e6:>11.1f} {rate:>11.2f} {bus:>11.2f} {wrong:>6}")
        best, all_wrong = max(best, bus), all_wrong + wrong
    say(
        f"{asked.collective}: {dist.get_world_size()} ranks on {device.type}, {best:.2f} GB/s on the bus, "
        f"{all_wrong} wrong"
    )
    return all_wrong


def leave(code: int) -> None:
    """Exit as in ddp.py: Gloo's threads may abort a rank in Python's own cleanup."""
    dist.destroy_process_group()
    atexit._run_exitfuncs()  # run the exit handlers of loggers and profilers
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    leave(min(main(), 1))
