"""What a fault of a job over lab nodes is made of: what is done, and what has to be said of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import slow_jobs
from hang_jobs import DATA, JOBS, MAIN, late

from fullmesh.settings import ROOT

STATE = "/srv/jobs/state"
HEALTHY = MAIN + "while True:\n    time.sleep(0.01)\n    dist.all_reduce(grads)\n"
# a step of some size: what is on its way when the cable is cut
CARRIES = MAIN + "big = torch.ones(1 << 20)\nwhile True:\n    dist.all_reduce(big)\n"
# Control groups of version 1: on a hybrid machine version 2 has no such controllers. Where it has them these can't be
# mounted, and the test fails there.
CPU, MEMORY = "/run/fullmesh-hang/cpu", "/run/fullmesh-hang/memory"
GROUPS = f"mkdir -p {CPU} {MEMORY}; findmnt {CPU} >/dev/null || mount -t cgroup -o cpu none {CPU}; "
GROUPS += f"findmnt {MEMORY} >/dev/null || mount -t cgroup -o memory none {MEMORY}; "
GROUPS += f"mkdir -p {CPU}/fullmesh-hang {MEMORY}/fullmesh-hang"
NO_GROUPS = f"sleep 1; rmdir {CPU}/fullmesh-hang {MEMORY}/fullmesh-hang; umount {CPU} {MEMORY}"
DISK = "/mnt/fullmesh-hang"
# its process ends only now
NO_DISK = (
    f"fsfreeze -u {DISK} || true; for i in 1 2 3 4 5 6 7 8 9; do umount {DISK} && break; sleep 1; done; "
    "rm -f /var/tmp/fullmesh-hang.img"
)
MAKE_DISK = (
    # a run that was interrupted leaves its disk behind
    f"! findmnt {DISK} >/dev/null || ({NO_DISK}); mkdir -p {DISK}; truncate -s 32M /var/tmp/fullmesh-hang.img; "
    "mkfs.ext4 -q -F /var/tmp/fullmesh-hang.img; "
    f"mount -o loop /var/tmp/fullmesh-hang.img {DISK}; chown trainer {DISK}"
)
# What stands for a network's file system whose server is gone: this kernel has no NFS.
FILES, SERVER = "/mnt/fullmesh-files", "/run/fullmesh-hang-files.py"
MOUNT_FILES = (
    f"mkdir -p {FILES}; test -e /dev/fuse || mknod -m 666 /dev/fuse c 10 229; cat > {SERVER} <<'END-OF-FILE'\n"
    f"{(ROOT / 'tests/support/stalled_files.py').read_text()}\nEND-OF-FILE\n"
    f"setsid python3 {SERVER} {FILES} >/dev/null 2>&1 </dev/null & "
    f"for i in 1 2 3 4 5 6 7 8 9; do findmnt {FILES} && break; sleep 0.3; done; test -s {FILES}/batch"
)
LOGGER = "threading.Thread(target=time.sleep, args=(1000,), name='logger').start()\n"


@dataclass(frozen=True)
class JobFault:
    """One thing that makes a job stand.

    Attributes:
        name: of the test and of the row.
        what: what was done, for the table.
        script: train.py; files: beside it.
        code, ranks: of the first finding.
        line: a text in the line to be named, ``N|text`` for the Nth line (from 0) with it; "" where none can be.
        file: where that line is.
        each: ranks of a node; there are two nodes.
        breaks: what is done as root on the node of rank ``at`` when all are ready, with PID; undo: restores it.
        prepares: the same before the job is started.
        also: the codes of further causes, each of its own.
        settle: seconds until it stands for sure.
        words: for ``fullmesh hang``.
        says: what its sentences have to hold.
        pulls: the cable of that node is pulled as well.
        record: what its ranks answer is kept for the unit tests: the evidence is of the kernel's.
    """

    name: str
    what: str
    script: str
    code: str
    ranks: tuple[int, ...]
    line: str = ""
    file: str = "train.py"
    files: Mapping[str, str] = field(default_factory=dict)
    each: int = 1
    at: int = 1
    breaks: str = ""
    undo: str = ""
    prepares: str = ""
    also: tuple[str, ...] = ()
    settle: float = 3.0
    words: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    pulls: bool = False
    record: bool = False

    @property
    def world(self) -> int:
        """How many ranks it has, on however many nodes."""
        return 2 * self.each


def known_fault(
    name: str, what: str, code: str, ranks: tuple[int, ...], line: str = "", **more: object
) -> JobFault:
    """A job that the rules were made with."""
    job = JOBS[name]
    script = job.script.replace("/home/user/work", STATE)
    fixed = {"files": job.files, "each": job.world // 2, **more}
    return JobFault(name, what, script, code, ranks, line, **fixed)  # type: ignore[arg-type]


FSDP = """\
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.device_mesh import init_device_mesh

dist.init_process_group("gloo")
rank = dist.get_rank()
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 2))
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def augment(step):
    if step == 3:
        ready()
    while rank == 1 and step == 3: sum(range(100000))


for step in range(1000):
    augment(step)
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
"""
# a loop on one line: where in it the rank is seen is chance
ONE_LINE = DATA.replace(
    "while True:\n            BODY", "while hashlib.sha256(b'0').digest(): pass"
)
# Four times as many as two nodes of eight cards have; they take 9 GiB of memory together.
MANY = JobFault(
    "sixty_four",
    "one of 64 ranks sleeps",
    late("time.sleep(1000)", "rank == 40"),
    "HG-107",
    (40,),
    "time.sleep(1000)",
    each=32,
    at=40,
)

# What must hear nothing but that every rank goes on.
HEALTHY_JOBS: tuple[JobFault, ...] = (
    JobFault("healthy", "two ranks", HEALTHY, "HG-162", (0, 1)),
    JobFault("healthy_four", "four ranks", HEALTHY, "HG-162", (0, 1, 2, 3), each=2),
    known_fault("long_step", "steps of 0.4 s", "HG-162", (0, 1)),
    JobFault(
        "healthy_varied",
        "steps that vary on both ranks",
        slow_jobs.JOBS["healthy_varied"].script,
        "HG-162",
        (0, 1),
        settle=8.0,
        words=("--samples", "4"),
    ),
    JobFault(
        "healthy_pipeline",
        "two stages that send to each other",
        slow_jobs.JOBS["healthy_pipeline"].script,
        "HG-162",
        (0, 1),
        settle=8.0,
        words=("--samples", "4"),
    ),
)
