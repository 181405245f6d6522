"""The table of what makes a job stand: what is done, and what has to be said of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hang_jobs import DATA, JOBS, MAIN, late

from fullmesh.settings import ROOT

from .bench import STATE

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
class Fault:
    """One thing that makes a job stand.

    Attributes:
        name: of the test and of the row.
        what: what was done, for the table.
        script: train.py; files: beside it.
        code, ranks: of the first finding.
        line: a text in the line to be named, ``N|text`` for the Nth line (from 0) with it; "" where none can be.
        file: where that line is.
        each: ranks of a node; there are two nodes.
        breaks: what is done as root on the node of rank ``at`` when all are ready, with PID; mends: puts it back.
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
    mends: str = ""
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


def known(
    name: str, what: str, code: str, ranks: tuple[int, ...], line: str = "", **more: object
) -> Fault:
    """A job that the rules were made with."""
    job = JOBS[name]
    script = job.script.replace("/home/user/work", STATE)
    fixed = {"files": job.files, "each": job.world // 2, **more}
    return Fault(name, what, script, code, ranks, line, **fixed)  # type: ignore[arg-type]


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
FAULTS: tuple[Fault, ...] = (
    # --- a rank has not come ---
    known("late_sleep", "one rank sleeps", "HG-107", (1,), "time.sleep(1000)"),
    known("late_input", "input() on one rank", "HG-102", (1,), "input("),
    known("late_pdb", "breakpoint() on one rank", "HG-102", (1,), "breakpoint()"),
    known("late_save", "a checkpoint whose disk takes nothing more", "HG-103", (0,), "torch.save("),
    known("late_loader", "a worker of the DataLoader stands", "HG-104", (1,), "for batch in"),
    known(
        "late_data",
        "the data set computes for ever",
        "HG-101",
        (1,),
        "hashlib.sha256",
        file="data.py",
        files={"data.py": ONE_LINE},
    ),
    known(
        "late_lock", "two threads take two locks in opposite order", "HG-108", (1,), "1|with files"
    ),
    known("late_event", "a thread that never says that it is done", "HG-108", (1,), "done.wait()"),
    known(
        "late_lock_file",
        "a lock file of a compilation that nobody takes away",
        "HG-113",
        (1,),
        "baton.wait()",
    ),
    known("late_four", "one of four ranks sleeps", "HG-107", (2,), "time.sleep(1000)"),
    known(
        "late_chain",
        "one rank sleeps, the others wait in two groups",
        "HG-107",
        (3,),
        "time.sleep(1000)",
    ),
    known(
        "late_two_causes",
        "one rank sleeps, another reads its terminal",
        "HG-102",
        (3,),
        "input()",
        also=("HG-107",),
    ),
    Fault("stopped", "SIGSTOP for one rank", HEALTHY, "HG-106", (1,), breaks="kill -STOP $PID"),
    Fault("fsdp", "FSDP2: one rank's input never ends", FSDP, "HG-101", (1,), "sum(range(100000))"),
    Fault(
        "disk",
        "a file system that takes no writes (frozen)",
        MAIN
        + f"go()\nif rank == 1:\n    log = open('{DISK}/log', 'wb', buffering=0)\n    log.write(b'step')\n"
        + "dist.all_reduce(grads)\n",
        "HG-105",
        (1,),
        "log",
        prepares=MAKE_DISK,
        breaks=f"fsfreeze -f {DISK}",
        mends=NO_DISK,
        record=True,
    ),
    Fault(
        "stalled_files",
        "a file system in user space whose daemon is stopped",
        MAIN
        + f"stream = open('{FILES}/batch', 'rb', buffering=0) if rank else None\ngo()\n"
        + "if stream:\n    stream.read(4096)\ndist.all_reduce(grads)\n",
        "HG-105",
        (1,),
        "stream.read",
        prepares=MOUNT_FILES,
        breaks=f"pkill -STOP -f '[/]{SERVER[1:]}'",
        mends=f"pkill -KILL -f '[/]{SERVER[1:]}'; umount -l {FILES}",
        says=("a file system in user space (FUSE)", f"{FILES}/batch"),
    ),
    Fault(
        "throttled",
        "a control group that gives one rank a tenth of a processor",
        MAIN
        + "go()\n\n\ndef augment():\n    sum(number * number for number in range(1_000_000_000))\n\n\n"
        + "if rank == 1:\n    augment()\ndist.all_reduce(grads)\n",
        "HG-112",
        (1,),
        "number * number",
        prepares=GROUPS,
        breaks=f"cd {CPU}/fullmesh-hang; echo 200000 > cpu.cfs_period_us; echo 20000 > cpu.cfs_quota_us; "
        "echo $PID > cgroup.procs",
        mends=NO_GROUPS,
        says=("0.1 processors", "held back"),
        record=True,
    ),
    # --- they differ ---
    known(
        "kinds",
        "one rank broadcasts, the other is at a barrier",
        "HG-121",
        (0, 1),
        "dist.broadcast",
    ),
    known(
        "kinds_four",
        "one of four ranks gathers before all others reduce",
        "HG-121",
        (3,),
        "all_gather",
    ),
    known("sizes", "tensors of 8 and 6 numbers", "HG-122", (0, 1), "8 if rank"),
    known("groups_crossed", "two groups in opposite order", "HG-124", (0, 1), "1|group=rows"),
    # --- it ended ---
    Fault(
        "exited",
        "uneven data: one rank is done early and exits, a thread keeps the other",
        MAIN
        + f"if rank == 0:\n    {LOGGER}"
        + "for step in range(9 if rank == 0 else 7):\n    dist.all_reduce(grads)\n"
        # without it torch itself may abort at its end (`terminate called without an active exception`)
        + "dist.destroy_process_group()\n",
        "HG-131",
        (1,),
        record=True,
    ),
    known("finished", "uneven data: one rank is done early, a thread keeps it", "HG-131", (1,)),
    known(
        "raised", "an exception on one rank, a thread keeps it", "HG-133", (1,), "raise ValueError"
    ),
    Fault(
        "oom",
        "a control group whose memory one rank fills: the kernel kills it",
        MAIN.replace('"gloo"', '"gloo", timeout=datetime.timedelta(seconds=100)')
        + LOGGER
        + "go()\nif rank == 1:\n    kept = [bytearray(1 << 20) for _ in range(4000)]\ndist.all_reduce(grads)\n",
        "HG-132",
        (1,),
        prepares=GROUPS,
        breaks=f"cd {MEMORY}/fullmesh-hang; echo $PID > cgroup.procs; echo 300M > memory.limit_in_bytes",
        mends=NO_GROUPS,
        says=("no memory left", "Killed process"),
        record=True,
    ),
    # --- two of them ---
    known("send", "a send without a receive", "HG-141", (0,), "dist.send"),
    known("recv", "a receive without a send", "HG-142", (0,), "dist.recv"),
    known(
        "not_in_group",
        "a broadcast from a rank outside of its group",
        "HG-143",
        (1, 2),
        "dist.broadcast",
    ),
    known("new_group", "new_group on one rank alone", "HG-144", (1,), "1|dist.all_reduce"),
    # --- the network ---
    Fault(
        "cable",
        "the cluster's cable is pulled in the middle of an all_reduce",
        CARRIES,
        "HG-161",
        (0, 1),
        "dist.all_reduce(big)",
        pulls=True,
        record=True,
        says=(
            "nothing gets",
            "carrier",
            "eth1",
        ),  # either way, unless one side had sent all of its own just then
    ),
    Fault(
        "one_way",
        "nft drops what comes from one peer, in the middle of an all_reduce",
        CARRIES,
        "HG-161",
        (0, 1),
        "dist.all_reduce(big)",
        breaks="nft add table inet hangs; nft 'add chain inet hangs i {type filter hook input priority -300;}'; "
        "nft add rule inet hangs i iifname eth1 drop",
        mends="nft delete table inet hangs",
        says=("nothing gets from el1 to ubuntu1", "el1 -> ubuntu1"),
        record=True,
    ),
    # --- nothing stands ---
    known(
        "slow",
        "one rank is always the last",
        "HG-163",
        (1,),
        "time.sleep(0.3",
        words=("--looks", "8"),
    ),
)
# Four times as many as two nodes of eight cards have; they take 9 GiB of memory together.
MANY = Fault(
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
HEALTHY_JOBS: tuple[Fault, ...] = (
    Fault("healthy", "two ranks", HEALTHY, "HG-162", (0, 1)),
    Fault("healthy_four", "four ranks", HEALTHY, "HG-162", (0, 1, 2, 3), each=2),
    known("long_step", "steps of 0.4 s", "HG-162", (0, 1)),
)
