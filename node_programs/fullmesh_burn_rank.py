# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Measure a device and its transfers for `fullmesh-check burn`. Runs in the environment of torch, one per device.

The first rank of a node starts the others, and prints the results of all ranks as JSON. Ranks meet in torch's store,
which takes bytes only: no rank loads an object that another one has sent.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

WINDOWS, WINDOW_SECONDS = 3, 1.0
PAIR_REPEATS = 3
SLOW_SECONDS = 1.0  # of an all-reduce, above which the pairs exchange less
GPU_SIZE, CPU_SIZE = 8192, 1024  # of a matrix
GPU_BYTES, CPU_BYTES = 256 << 20, 16 << 20  # of an all-reduce
END_SECONDS = 5.0  # until the other ranks have read all results
MOST_DEVICES = 64  # of a node


class BurnRank:
    """One device of one node, in a group of all."""

    def __init__(self, task: dict[str, Any], count: int) -> None:
        """Join the others.

        Args:
            task: of this node: ``node``, ``nodes``, ``local`` (the number of the device), ``partners`` (a node for each
                round), ``store``, ``seconds``, ``join_seconds``.
            count: devices of this node.
        """
        self.task = task
        self.wrong = ""  # the other ranks still wait for this one, so it goes on
        gpu = torch.cuda.is_available()
        self.device = torch.device(f"cuda:{task['local']}" if gpu else "cpu")
        if gpu:
            torch.cuda.set_device(self.device)
        wait = timedelta(seconds=task["seconds"])
        place = task["store"]
        if "path" in place:
            self.store: Any = dist.FileStore(place["path"], -1)
        else:
            host = task["node"] == 0 and task["local"] == 0
            self.store = dist.TCPStore(
                place["address"], place["port"], None, host, wait, wait_for_workers=False
            )
        self.store.set_timeout(timedelta(seconds=task["join_seconds"]))
        self.store.set(f"count/{task['node']}", str(count))
        self.counts = [self.read_count(node) for node in range(task["nodes"])]
        self.store.set_timeout(wait)
        self.first = [sum(self.counts[:node]) for node in range(task["nodes"])]
        self.rank, self.world = self.first[task["node"]] + task["local"], sum(self.counts)
        group = dist.PrefixStore("group", self.store)
        backend = "nccl" if gpu else "gloo"
        dist.init_process_group(
            backend, store=group, rank=self.rank, world_size=self.world, timeout=wait
        )

    def read_count(self, node: int) -> int:
        """Return the number of devices that a node reports.

        Raises:
            ValueError: it is none that a node can have.
        """
        text = self.store.get(f"count/{node}").decode("ascii", "replace")
        if not (len(text) <= 2 and text.isascii() and text.isdecimal()):  # noqa: PLR2004 (digits)
            raise ValueError(f"node {node} reports {text[:20]!r} as its number of devices")
        if not 1 <= int(text) <= MOST_DEVICES:
            raise ValueError(
                f"node {node} reports {text} devices, 1 to {MOST_DEVICES} are possible"
            )
        return int(text)

    def wait_for_device(self) -> None:
        """Wait until the device has done its work."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def measure_product(self) -> float:
        """Return the TFLOP/s of matrix products: the median of some windows."""
        gpu = self.device.type == "cuda"
        size, kind = (GPU_SIZE, torch.bfloat16) if gpu else (CPU_SIZE, torch.float32)
        torch.manual_seed(1)
        left, right = (torch.rand(size, size, device=self.device, dtype=kind) for _ in range(2))
        out = torch.empty_like(left)
        for _ in range(3):
            torch.matmul(left, right, out=out)
        expected, found = out.clone(), []
        # a GPU gives the same bits each time, the threads of a CPU may not
        same = torch.equal if gpu else torch.allclose
        for _ in range(WINDOWS):
            dist.barrier()
            self.wait_for_device()
            begun, done = time.monotonic(), 0
            while time.monotonic() - begun < WINDOW_SECONDS:
                for _ in range(20 if gpu else 1):
                    torch.matmul(left, right, out=out)
                    done += 1
                self.wait_for_device()
            found.append(2 * size**3 * done / (time.monotonic() - begun) / 1e12)
            if not same(out, expected):
                self.wrong = "two products of the same matrices differ"
        return sorted(found)[WINDOWS // 2]

    def measure_reduction(self) -> tuple[float, float]:
        """Return GB/s of all-reduces of all ranks, and the seconds of one on the slowest rank."""
        size = GPU_BYTES if self.device.type == "cuda" else CPU_BYTES
        data = torch.ones(size // 4, device=self.device)
        dist.all_reduce(data)  # opens the connections
        data.fill_(1)
        seconds = torch.tensor([self.time_reduction(data)], device=self.device)
        dist.all_reduce(seconds, op=dist.ReduceOp.MAX)
        slowest = float(seconds[0])
        repeats = max(2, min(50, int(WINDOW_SECONDS / max(slowest, 1e-4))))
        taken = 0.0
        for _ in range(repeats):
            data.fill_(1)
            taken += self.time_reduction(data)
            if not bool((data == self.world).all()):
                self.wrong = "the sum of an all-reduce is wrong"
        return size * repeats / taken / 1e9, slowest

    def time_reduction(self, data: torch.Tensor) -> float:
        """Return the seconds of one all-reduce."""
        self.wait_for_device()
        begun = time.monotonic()
        dist.all_reduce(data)
        self.wait_for_device()
        return time.monotonic() - begun

    def measure_pairs(self, slowest: float) -> dict[str, float]:
        """Return GB/s to other nodes, keyed by their number. In each round, every node has another partner."""
        found: dict[str, float] = {}
        size = (8 << 20) if slowest < SLOW_SECONDS else (512 << 10)
        data = [torch.ones(size // 4, device=self.device) for _ in range(2)]
        for partner in self.task["partners"]:
            dist.barrier()
            if self.task["local"] or partner >= self.task["nodes"]:
                continue
            self.exchange(data, self.first[partner])
            begun = time.monotonic()
            for _ in range(PAIR_REPEATS):
                self.exchange(data, self.first[partner])
            found[str(partner)] = 2 * size * PAIR_REPEATS / (time.monotonic() - begun) / 1e9
        return found

    def exchange(self, data: list[torch.Tensor], partner: int) -> None:
        """Send to a rank and receive from it, at the same time."""
        both = [dist.P2POp(dist.isend, data[0], partner), dist.P2POp(dist.irecv, data[1], partner)]
        for work in dist.batch_isend_irecv(both):
            work.wait()
        self.wait_for_device()

    def measure(self) -> dict[str, Any]:
        """Measure everything."""
        gpu = self.device.type == "cuda"
        found: dict[str, Any] = {
            "device": torch.cuda.get_device_name(self.device) if gpu else describe_cpu(),
            "tflops": self.measure_product(),
        }
        if self.world > 1:
            found["reduction"], slowest = self.measure_reduction()
            found["pairs"] = self.measure_pairs(slowest) if self.task["nodes"] > 1 else {}
        return {**found, "wrong": self.wrong}

    def share_results(self, found: dict[str, Any]) -> list[str]:
        """Return the results of all ranks as texts: `fullmesh-check` parses each, with its limits."""
        self.store.set(f"result/{self.rank}", json.dumps(found))
        results = [
            self.store.get(f"result/{rank}").decode("utf-8", "replace")
            for rank in range(self.world)
        ]
        left = self.store.add("left", 1)
        end = time.monotonic() + END_SECONDS
        # the store ends with the first rank
        while self.rank == 0 and left < self.world and time.monotonic() < end:
            time.sleep(0.05)
            left = self.store.add("left", 0)
        return results


def describe_cpu() -> str:
    """Return the model and the number of the CPUs, so that only equal ones are compared."""
    model = ""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as stream:
        for line in stream:
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return f"CPU {model} x {len(os.sched_getaffinity(0))}"


def start_others(task: dict[str, Any], count: int) -> list[subprocess.Popen[bytes]]:
    """Start the ranks of the other devices of this node."""
    return [
        subprocess.Popen(
            [sys.executable, "-B", "-s", __file__, json.dumps({**task, "local": local})],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        for local in range(1, count)
    ]


def main() -> None:
    """Measure, and print the results."""
    task = json.loads(sys.argv[1])
    signal.alarm(int(task["seconds"]) + 1)  # a device that hangs
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    count = gpus or (1 if task["nodes"] > 1 else 2)
    threads = len(os.sched_getaffinity(0))
    torch.set_num_threads(max(1, threads if task["nodes"] > 1 else threads // 2))
    others = start_others(task, count) if task["local"] == 0 else []
    try:
        rank = BurnRank(task, count)
        results = rank.share_results(rank.measure())
        answer = json.dumps({"torch": torch.__version__, "counts": rank.counts, "results": results})
        failed = False
    except Exception as error:  # its text is the answer
        text = f"{type(error).__name__}: {error}".splitlines()[0][:300]
        answer, failed = json.dumps({"error": text}), True
    for one in others:
        if failed:
            one.kill()
        one.wait()
    if task["local"] == 0:
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()
    os._exit(0)  # groups of torch can hang at their end


if __name__ == "__main__":
    main()
