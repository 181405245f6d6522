"""The parts of a fault of a job on lab nodes: how it is made, and the expected finding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import slow_jobs
from hang_jobs import DATA, JOBS, MAIN, make_late_script

from fullmesh.settings import ROOT

STATE = "/srv/jobs/state"
HEALTHY = MAIN + "while True:\n    time.sleep(0.01)\n    dist.all_reduce(grads)\n"
# a large step: its data is in flight when the cable is cut
LARGE_STEPS = MAIN + "big = torch.ones(1 << 20)\nwhile True:\n    dist.all_reduce(big)\n"
# Control groups of version 1, because on a hybrid machine version 2 lacks these controllers. If
# version 2 has them, these can't be mounted and the test fails.
CPU, MEMORY = "/run/fullmesh-hang/cpu", "/run/fullmesh-hang/memory"
MAKE_GROUPS = (
    f"mkdir -p {CPU} {MEMORY}; findmnt {CPU} >/dev/null || mount -t cgroup -o cpu none {CPU}; "
)
MAKE_GROUPS += f"findmnt {MEMORY} >/dev/null || mount -t cgroup -o memory none {MEMORY}; "
MAKE_GROUPS += f"mkdir -p {CPU}/fullmesh-hang {MEMORY}/fullmesh-hang"
REMOVE_GROUPS = f"sleep 1; rmdir {CPU}/fullmesh-hang {MEMORY}/fullmesh-hang; umount {CPU} {MEMORY}"
DISK = "/mnt/fullmesh-hang"
# the process of the test ends only after this
REMOVE_DISK = (
    f"fsfreeze -u {DISK} || true; for i in 1 2 3 4 5 6 7 8 9; do umount {DISK} && break; sleep 1; done; "
    "rm -f /var/tmp/fullmesh-hang.img"
)
MAKE_DISK = (
    # an interrupted run leaves its disk behind
    f"! findmnt {DISK} >/dev/null || ({REMOVE_DISK}); mkdir -p {DISK}; truncate -s 32M /var/tmp/fullmesh-hang.img; "
    "mkfs.ext4 -q -F /var/tmp/fullmesh-hang.img; "
    f"mount -o loop /var/tmp/fullmesh-hang.img {DISK}; chown trainer {DISK}"
)
# Simulates a network file system whose server is gone, because this kernel has no NFS.
SERVED_FOLDER, SERVER = "/mnt/fullmesh-files", "/run/fullmesh-hang-files.py"
MOUNT_FILES = (
    f"mkdir -p {SERVED_FOLDER}; test -e /dev/fuse || mknod -m 666 /dev/fuse c 10 229; cat > {SERVER} <<'END-OF-FILE'\n"
    f"{(ROOT / 'tests/support/stalled_files.py').read_text()}\nEND-OF-FILE\n"
    f"setsid python3 {SERVER} {SERVED_FOLDER} >/dev/null 2>&1 </dev/null & "
    f"for i in 1 2 3 4 5 6 7 8 9; do findmnt {SERVED_FOLDER} && break; sleep 0.3; done; test -s {SERVED_FOLDER}/batch"
)
LOGGER = "threading.Thread(target=time.sleep, args=(1000,), name='logger').start()\n"


@dataclass(frozen=True)
class JobFault:
    """A fault that makes a job hang.

    Attributes:
        name: of the test and of the row.
        what: the fault, for the table.
        script: train.py.
        code, ranks: of the first finding.
        line: a text in the expected line, ``N|text`` for the Nth line (from 0) with it, or "" if no
            line is expected.
        file: the file with that line.
        files: other files of the job.
        each: ranks per node. There are two nodes.
        at: the rank whose node the scripts run on.
        breaks: a script that root runs when all ranks are ready, with PID.
        undo: its undo.
        prepares: the same before the job starts.
        also: the codes of further causes.
        settle: seconds until the job is certainly hung.
        options: of ``fullmesh hang``.
        expected: texts that its output must contain.
        pulls: the cable of that node is cut as well.
        record: the ranks' answers are kept for the unit tests, because the evidence comes from the
            kernel.
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
    options: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()
    pulls: bool = False
    record: bool = False

    @property
    def world(self) -> int:
        """Return the number of ranks on both nodes."""
        return 2 * self.each


def make_known_fault(
    name: str, what: str, code: str, ranks: tuple[int, ...], line: str = "", **more: object
) -> JobFault:
    """Make a fault from a job that the rules were written with."""
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
# A loop on one line. The sample can hit any part of it.
ONE_LINE = DATA.replace(
    "while True:\n            BODY", "while hashlib.sha256(b'0').digest(): pass"
)
# Four times the ranks of two nodes with eight GPUs. They need 9 GiB of memory.
MANY = JobFault(
    "sixty_four",
    "one of 64 ranks sleeps",
    make_late_script("time.sleep(1000)", "rank == 40"),
    "HG-107",
    (40,),
    "time.sleep(1000)",
    each=32,
    at=40,
)

# Jobs for which the only finding must be that every rank continues.
HEALTHY_JOBS: tuple[JobFault, ...] = (
    JobFault("healthy", "two ranks", HEALTHY, "HG-162", (0, 1)),
    JobFault("healthy_four", "four ranks", HEALTHY, "HG-162", (0, 1, 2, 3), each=2),
    make_known_fault("long_step", "steps of 0.4 s", "HG-162", (0, 1)),
    JobFault(
        "healthy_varied",
        "steps that vary on both ranks",
        slow_jobs.JOBS["healthy_varied"].script,
        "HG-162",
        (0, 1),
        settle=8.0,
        options=("--samples", "4"),
    ),
    JobFault(
        "healthy_pipeline",
        "two stages that send to each other",
        slow_jobs.JOBS["healthy_pipeline"].script,
        "HG-162",
        (0, 1),
        settle=8.0,
        options=("--samples", "4"),
    ),
)
