"""The jobs that record_hang.py runs: users' scripts that hang, with two and four ranks."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from subprocess import run


@dataclass(frozen=True)
class Job:
    """A script and the way to sample it.

    Attributes:
        script: train.py. It calls ready() shortly before it hangs.
        world: number of ranks.
        files: other files next to it.
        breaks: breaks it from outside when it is ready.
        undo: restores everything that does not end with the job.
        settle: seconds until it hangs.
        samples, pause: number of samples, seconds between them.
    """

    script: str
    world: int = 2
    files: Mapping[str, str] = field(default_factory=dict)
    breaks: Callable[[list[int]], None] | None = None
    undo: Callable[[], None] | None = None
    settle: float = 0.7
    samples: int = 2
    pause: float = 0.5


START = """\
import datetime, os, sys, threading, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
grads = torch.ones(8)
for step in range(3):
    dist.all_reduce(grads)
"""
MAIN = START + "ready()\n"


def make_late_script(body: str, condition: str = "rank == 1") -> str:
    """Let one rank do something else while the others continue."""
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    return f"{MAIN}\n\ndef between():\n    if {condition}:\n{lines}\n\nbetween()\ndist.all_reduce(grads)\n"


TRAIN = """\
import time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from data import Samples

dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
ready()
for batch in DataLoader(Samples(rank), batch_size=2, num_workers=WORKERS):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
"""
DATA = """\
import hashlib
import time
import torch


class Samples(torch.utils.data.Dataset):
    def __init__(self, rank):
        self.rank = rank

    def __len__(self):
        return 64

    def __getitem__(self, index):
        if self.rank == 1 and index == 9:
            self.fetch()
        return torch.ones(4)

    def fetch(self):
        while True:
            BODY
"""
SLOW = START.replace("range(3)", "range(4)") + (
    "ready()\nwhile True:\n    time.sleep(0.3 if rank == 1 else 0.01)\n    dist.all_reduce(grads)\n"
)
HEALTHY = MAIN + "while True:\n    time.sleep(0.01)\n    dist.all_reduce(grads)\n"
TWO_GROUPS = (
    START
    + """\
rows = dist.new_group([0, 1], group_desc="tensor")
columns = dist.new_group([0, 1], group_desc="pipeline")
dist.all_reduce(grads, group=rows)
dist.all_reduce(grads, group=columns)
ready()
if rank == 0:
    dist.all_reduce(grads, group=rows)
    dist.all_reduce(grads, group=columns)
else:
    dist.all_reduce(grads, group=columns)
    dist.all_reduce(grads, group=rows)
"""
)


def stop_rank(pids: list[int]) -> None:
    """Stop rank 1, as a debugger or a user's Ctrl-Z does."""
    os.kill(pids[1], signal.SIGSTOP)


def kill_rank(pids: list[int]) -> None:
    """Kill rank 1, as the kernel does when memory runs out."""
    os.kill(pids[1], signal.SIGKILL)


def block_packets(_pids: list[int]) -> None:
    """Block all packets in the network namespace of record_hang.py."""
    run(["ip", "link", "set", "lo", "down"], check=True)


def restore_loopback() -> None:
    """Restore the loopback for the next job."""
    run(["ip", "link", "set", "lo", "up"], check=True)


JOBS: dict[str, Job] = {
    "healthy": Job(HEALTHY, pause=1.0),
    "healthy_4": Job(HEALTHY, world=4, pause=1.0),
    "long_step": Job(
        MAIN + "while True:\n    time.sleep(0.4)\n    dist.all_reduce(grads)\n", samples=3
    ),
    "slow": Job(SLOW, samples=8, pause=0.47),
    "late_sleep": Job(make_late_script("time.sleep(1000)")),
    "late_input": Job(make_late_script('input("continue? ")')),
    "late_pdb": Job(make_late_script("breakpoint()")),
    "late_save": Job(
        MAIN
        + """

def checkpoint(path):
    with open(path, "wb") as file:
        torch.save({"weights": torch.ones(1 << 20)}, file)


if rank == 0:
    os.mkfifo("/home/user/work/last.ckpt")
    keep = os.open("/home/user/work/last.ckpt", os.O_RDWR)
    checkpoint("/home/user/work/last.ckpt")
dist.barrier()
"""
    ),
    "late_loader": Job(
        TRAIN.replace("WORKERS", "1"), files={"data.py": DATA.replace("BODY", "time.sleep(1000)")}
    ),
    "late_data": Job(
        TRAIN.replace("WORKERS", "0"),
        files={"data.py": DATA.replace("BODY", "hashlib.sha256(b'0').digest()")},
    ),
    "late_lock": Job(
        MAIN
        + """
buffers, files = threading.Lock(), threading.Lock()


def writer():
    with files:
        time.sleep(0.3)
        with buffers:
            pass


def flush():
    with buffers:
        time.sleep(0.5)
        with files:
            pass


if rank == 1:
    threading.Thread(target=writer, name="writer").start()
    flush()
dist.all_reduce(grads)
"""
    ),
    "late_event": Job(
        make_late_script(
            "done = threading.Event()\n"
            "threading.Thread(target=time.sleep, args=(1000,), name='upload').start()\n"
            "done.wait()"
        )
    ),
    "late_lock_file": Job(
        make_late_script(
            "from torch.utils.file_baton import FileBaton\n"
            "baton = FileBaton('/home/user/work/lock')\n"
            "baton.try_acquire()\n"
            "baton.wait()"
        )
    ),
    "late_stopped": Job(
        MAIN + "if rank == 1:\n    time.sleep(0.5)\ndist.all_reduce(grads)\ntime.sleep(0.5)\n"
        "dist.all_reduce(grads)\n",
        breaks=stop_rank,
        settle=0.2,
    ),
    "late_four": Job(make_late_script("time.sleep(1000)", "rank == 2"), world=4),
    "late_two_causes": Job(
        make_late_script(
            "if rank == 1:\n    time.sleep(1000)\nelse:\n    input()",
            "rank in (1, 3)",
        ),
        world=4,
    ),
    "late_chain": Job(
        START
        + """\
pair = dist.new_group([2, 3], group_desc="pair")
if rank > 1:
    dist.all_reduce(grads, group=pair)
ready()
if rank == 3:
    time.sleep(1000)
if rank > 1:
    dist.all_reduce(grads, group=pair)
dist.all_reduce(grads)
""",
        world=4,
    ),
    "kinds": Job(
        MAIN
        + """\
if rank == 0:
    dist.broadcast(grads, src=1)
else:
    dist.barrier()
dist.all_reduce(grads)
"""
    ),
    "kinds_four": Job(
        MAIN + "if rank == 3:\n    dist.all_gather([torch.zeros(8) for _ in range(4)], grads)\n"
        "dist.all_reduce(grads)\n",
        world=4,
    ),
    "sizes": Job(
        # Gloo ends a rank that receives more than expected. Here one receives a little less, and
        # waits.
        MAIN + "dist.all_reduce(torch.ones(8 if rank == 0 else 6))\ndist.barrier()\n"
    ),
    # Gloo's reaction to a rank that receives more than expected
    "aborted": Job(MAIN + "dist.all_reduce(torch.ones(8 if rank == 0 else 4096))\n"),
    "groups_crossed": Job(TWO_GROUPS),
    "exited": Job(
        MAIN + "for step in range(9 if rank == 0 else 7):\n    dist.all_reduce(grads)\n"
        "if rank == 0:\n    time.sleep(1000)\n"
    ),
    "finished": Job(
        MAIN
        + """\
threading.Thread(target=time.sleep, args=(1000,), name="logger").start()
for batch in range(9 if rank == 0 else 7):
    dist.all_reduce(grads)
"""
    ),
    "killed": Job(
        MAIN + "time.sleep(0.6)\nif rank == 1:\n    time.sleep(1000)\ndist.all_reduce(grads)\n",
        breaks=kill_rank,
        settle=1.0,
    ),
    "raised": Job(
        MAIN
        + """\
threading.Thread(target=time.sleep, args=(1000,), name="logger").start()


def loss(step):
    if rank == 1 and step == 5:
        raise ValueError("loss is NaN")


for step in range(9):
    loss(step)
    dist.all_reduce(grads)
"""
    ),
    "send": Job(
        MAIN
        + """\
if rank == 0:
    dist.send(torch.ones(1 << 22), 1)
dist.barrier()
"""
    ),
    "recv": Job(
        MAIN
        + """\
if rank == 0:
    dist.recv(torch.ones(64), 1)
dist.barrier()
"""
    ),
    "not_in_group": Job(
        START
        + """\
threading.Thread(target=time.sleep, args=(1000,), name="logger").start()
pair = dist.new_group([0, 1], group_desc="pair")
ready()
if rank in (1, 2):
    dist.broadcast(grads, src=2, group=pair)
dist.all_reduce(grads)
""",
        world=4,
    ),
    "new_group": Job(
        MAIN
        + """\
if rank == 0:
    pair = dist.new_group([0, 1], group_desc="pair")
dist.all_reduce(grads)
"""
    ),
    "network": Job(
        MAIN + "big = torch.ones(1 << 20)\nwhile True:\n    dist.all_reduce(big)\n",
        breaks=block_packets,
        undo=restore_loopback,
    ),
}
