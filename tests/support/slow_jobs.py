"""The jobs that record_slow.py runs: they go on, at the pace of one rank or as healthy jobs do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hang_jobs import TRAIN

FILES = "/home/files"


@dataclass(frozen=True)
class GoingJob:
    """A job that goes on.

    Attributes:
        script, world: of its ranks.
        files: other files in its folder.
        quota: rank 1 gets a fifth of a CPU. hogs: other processes come before it.
        storage: a slow file system is at FILES.
    """

    script: str
    world: int = 2
    files: Mapping[str, str] = field(default_factory=dict)
    quota: bool = False
    hogs: bool = False
    storage: bool = False


HEAD = """\
import gc, os, random, socket, subprocess, sys, threading, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
grads = torch.ones(1024)
random.seed(rank)


def compute(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))


def slow():
BODY

step = 0
ready()
while True:
    step += 1
    compute(0.004)
    time.sleep(0.01)
    slow()
    dist.all_reduce(grads)
"""


def make_loop_script(body: str, **more: object) -> GoingJob:
    """Every rank runs the same loop with this body in it."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return GoingJob(HEAD.replace("BODY\n", lines), **more)  # type: ignore[arg-type]


SAMPLES = """\
import time
import torch


class Samples(torch.utils.data.Dataset):
    def __init__(self, rank):
        self.rank = rank

    def __len__(self):
        return 100000

    def __getitem__(self, index):
        time.sleep(0.04 if self.rank == 1 else 0.002)
        return torch.ones(4)
"""
DDP = """\
import random, time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
random.seed(rank)
layers = [torch.nn.Linear(256, 256) for _ in range(12)]
model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.5)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
step = 0
ready()
while True:
    step += 1
    data = torch.ones(ROWS, 256)
    optimizer.zero_grad()
    model(data).sum().backward()
    optimizer.step()
"""
PIPELINE = """\
import time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
data, grads = torch.ones(1024), torch.ones(1024)
ready()
while True:
    for batch in range(2):
        if rank > 0:
            dist.recv(data, rank - 1)
        time.sleep(0.02)
        if rank < world - 1:
            dist.send(data, rank + 1)
            dist.recv(data, rank + 1)
        time.sleep(0.04)
        if rank > 0:
            dist.send(data, rank - 1)
    dist.all_reduce(grads)
"""
FSDP = """\
import random
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.device_mesh import init_device_mesh

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)])
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
ready()
while True:
    optimizer.zero_grad()
    model(torch.ones(ROWS, 256)).sum().backward()
    optimizer.step()
"""
GROUPS = """\
import random, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
random.seed(rank)
tensor = [dist.new_group([0, 1], group_desc="tensor"), dist.new_group([2, 3], group_desc="tensor")][rank // 2]
data = [dist.new_group([0, 2], group_desc="data"), dist.new_group([1, 3], group_desc="data")][rank % 2]
grads = torch.ones(1024)
ready()
while True:
    for layer in range(4):
        time.sleep(0.01 * random.uniform(0.8, 1.2))
        dist.all_reduce(grads, group=tensor)
    time.sleep(0.02 + SLOW)
    dist.all_reduce(grads, group=data)
"""
BROADCASTS = """\
import time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
batch, grads = torch.ones(1024), torch.ones(1024)
ready()
while True:
    if rank == 0:
        time.sleep(0.05)
    dist.broadcast(batch, 0)
    time.sleep(0.03)
    dist.all_reduce(grads)
"""
ONE = "if rank == 1:\n    "
JOBS: dict[str, GoingJob] = {
    "slow_sleep": make_loop_script(ONE + "time.sleep(0.04)"),
    "slow_tenth": make_loop_script(ONE + "if step % 8 == 0:\n        time.sleep(0.3)"),
    "slow_data": make_loop_script(ONE + "compute(0.03)"),
    "slow_quota": make_loop_script("compute(0.006)", quota=True),
    "slow_cpu": make_loop_script("compute(0.006)", hogs=True),
    "slow_loader": GoingJob(
        TRAIN.replace("WORKERS", "1").replace("ready()", "ready(); step = 0"),
        files={"data.py": SAMPLES},
    ),
    "slow_gc": make_loop_script(
        "global heap\nif step == 1:\n    heap = [[number] for number in range(150_000)]\n"
        "if rank == 1:\n    gc.collect()"
    ),
    "slow_lock": make_loop_script(
        "global lock\nif step == 1:\n    lock = threading.Lock()\n"
        "    def upload():\n        while True:\n            with lock:\n                time.sleep(0.05)\n"
        "            time.sleep(0.001)\n"
        "    threading.Thread(target=upload, name='upload', daemon=True).start()\n"
        "if rank == 1:\n    with lock:\n        pass"
    ),
    "slow_child": make_loop_script(ONE + "subprocess.run(['sleep', '0.05'])"),
    "slow_files": make_loop_script(
        ONE + f"with open('{FILES}/batch', 'rb', buffering=0) as file:\n        file.read(4096)",
        storage=True,
    ),
    "slow_ddp": GoingJob(DDP.replace("ROWS", "512 if rank == 1 else 64")),
    "slow_node": make_loop_script(
        "if rank >= 2:\n    time.sleep(0.04 * random.uniform(0.8, 1.2))", world=4
    ),
    "slow_of_four": make_loop_script(
        "time.sleep(0.03 * random.uniform(0.5, 1.5))\nif rank == 2:\n    time.sleep(0.05)", world=4
    ),
    "slow_pair": GoingJob(GROUPS.replace("SLOW", "(0.05 if rank == 3 else 0)"), world=4),
    "healthy_even": make_loop_script("pass"),
    "healthy_four": make_loop_script("pass", world=4),
    "healthy_varied": make_loop_script("time.sleep(random.lognormvariate(-4, 0.8))"),
    "healthy_varied_four": make_loop_script("time.sleep(random.lognormvariate(-4, 0.8))", world=4),
    "healthy_turns": make_loop_script("time.sleep(0.04 if step % 2 == rank else 0.01)"),
    "healthy_long_texts": make_loop_script("time.sleep(0.06 if random.random() < 0.1 else 0.01)"),
    "healthy_checkpoints": make_loop_script(
        "if rank == 0 and step % 100 == 0:\n    time.sleep(0.5)"
    ),
    "healthy_logs": make_loop_script(
        "if rank == 0:\n    sys.stderr.write('')\n    compute(0.0005)"
    ),
    "healthy_ddp": GoingJob(DDP.replace("ROWS", "random.randint(32, 96)")),
    "healthy_ddp_four": GoingJob(DDP.replace("ROWS", "64"), world=4),
    "healthy_fsdp": GoingJob(FSDP.replace("ROWS", "64")),
    "healthy_pipeline": GoingJob(PIPELINE),
    "healthy_pipeline_four": GoingJob(PIPELINE, world=4),
    "healthy_groups": GoingJob(GROUPS.replace("SLOW", "0"), world=4),
    "healthy_broadcasts": GoingJob(BROADCASTS),
}
