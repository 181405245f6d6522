"""Faults of a job's start, one for each seed: environment, files, accounts, limits, units, mounts, ports, packages.

The oracle is a real job of both nodes, through the entry that the fault concerns: a command or a login shell over
ssh, or the unit fullmesh-job@. With --slurm, the faults are those of a node with a real Slurm, and srun starts the job.

``PYTHONPATH=src:tests:tests/support:tests/unit python -m surprises.starts --lab NAME --seeds 91000-91059``
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import starmap
from typing import Any

from faults.bench import KERNEL_RANGE, Bench, start_bench
from lab_nodes import run_fullmesh
from slurm_site import SERVICES, install_slurm, write_slurm_conf

from .generate import Surprise
from .ground import Ground
from .run import WORK, parse_seeds, print_line
from .score import drop_boot_findings, join_finding_text

ACCOUNT = "trainer"
JOB = "/srv/jobs/start.py"
UNIT = "fullmesh-job@surprise"
DROP_IN = "/etc/systemd/system/fullmesh-job@.service.d/surprise.conf"
ENTRIES = SSH, LOGIN, BY_UNIT = "ssh", "login", "unit"
BY_SRUN = "srun"
TASK_PROLOG = "/etc/slurm/task-prolog"
SLURMD_DROP_IN = "/etc/systemd/system/slurmd.service.d/surprise.conf"
# Slurmd gives its tasks its own limits, and runs a program before each.
SLURM_CONF = f"PropagateResourceLimits=NONE\nTaskProlog={TASK_PROLOG}"
SRUN_PORTS = (50000, 54094)  # of the plan, without its last port
JOB_SECONDS = 180
CANCEL = f"! command -v scancel >/dev/null || scancel -u {ACCOUNT} 2>/dev/null || true"
PROVED_EVERY = 15  # states
VENV = "/opt/fullmesh/venv"
SITE = f"{VENV}/lib/python3.*/site-packages"
SCRIPT = """
import os, tempfile, torch, torch.distributed as dist
from datetime import timedelta
dist.init_process_group("gloo", timeout=timedelta(seconds=120))
ones = torch.ones(100000).share_memory_()
dist.all_reduce(ones)
torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))(torch.ones(1, 2)).sum().backward()
torch.nn.Conv2d(1, 1, 2)(torch.ones(1, 1, 4, 4))  # generates code
assert ones[0] == dist.get_world_size()
tempfile.NamedTemporaryFile().write(b"x" * 4096)
print("JOB FINE", flush=True)
os._exit(0)
"""

# Lines that a login or a unit gets. The second half does no harm.
VARIABLES = (
    *("MASTER_ADDR=192.0.2.9", "MASTER_PORT=29777", "NNODES=3", "NODE_RANK=7", "NPROC_PER_NODE=2"),
    *("GLOO_SOCKET_IFNAME=eth7", "GLOO_SOCKET_IFNAME=eth0", "GLOO_SOCKET_IFNAME=lo", "TMPDIR=/nosuch"),
    *("PYTHONHOME=/nosuch", "PYTHONHASHSEED=abc", "PYTHONUTF8=7", "PYTHONMALLOC=none"),
    *("PYTHONPATH=/srv/jobs/shadow", "TORCH_LOGS=+nosuch", "TORCH_DISTRIBUTED_DEBUG=LOUD"),
    *("GLOO_DEVICE_TRANSPORT=NOSUCH", "GLOO_DEVICE_TRANSPORT=TCP_TLS", "FULLMESH_ENV=/etc/nosuch"),
    *("FULLMESH_RENDEZVOUS_MODE=etcd4", "FULLMESH_WATCH=soon", "PET_NNODES=5", "PET_RUN_PATH=1"),
    *("LD_LIBRARY_PATH=/srv/jobs/libs", "PATH=/nosuch", "FULLMESH_ADDRESS=192.0.2.5"),
    *("TORCHELASTIC_ERROR_FILE=/nosuch/e.json", "PET_MASTER_PORT=1", "PET_STANDALONE=1"),
    *("PYTHONSAFEPATH=1", "PYTHONOPTIMIZE=2", "LD_PRELOAD=/opt/nosuch.so", "NCCL_DEBUG=INFO", "A='b c'"),
    *("OMP_NUM_THREADS=4", "HF_HOME=/nosuch", "PYTHONWARNINGS=default", "CUDA_VISIBLE_DEVICES="),
    *("LC_ALL=xx_YY", "TZ=Nowhere/At-all", "PYTHONSTARTUP=/nosuch", "NCCL_SOCKET_IFNAME=eth1", "LANG=C"),
    *("TMPDIR=/var/tmp", "OMP_NUM_THREADS=0", "MALLOC_ARENA_MAX=1", "KMP_AFFINITY=none", "PYTHONUNBUFFERED=1"),
)  # fmt: skip
SHELL_LINES = (
    *("exit 1", "exit 0", "exec /bin/false", "sleep 90", "ulimit -n 12", "ulimit -u 1", "ulimit -v 300000"),
    *("ulimit -f 0", "ulimit -t 1", "cd /nosuch", "umask 0777", "set -u; : $NOSUCH", "alias python=false"),
    *("echo welcome", "stty sane", "unset PATH", "if true; then", "ulimit -s 64", "trap 'echo bye' EXIT"),
    *("export PS1=x", "ulimit -c 0", "module load cuda", "set -e; false", "ulimit -l 64", "return 0"),
)  # fmt: skip
# Not here: TasksMax=3, MemoryMax=30M, SocketBindDeny= and RestrictNetworkInterfaces=, which a lab does not enforce.
UNIT_LINES = (
    *("User=nosuch", "WorkingDirectory=/nosuch", "PrivateNetwork=yes", "RestrictAddressFamilies=AF_UNIX"),
    *("ProtectSystem=strict", "InaccessiblePaths=/opt/fullmesh", "InaccessiblePaths=/dev/shm", "ReadOnlyPaths=/tmp"),
    *("InaccessiblePaths=/srv", "NoExecPaths=/opt", "TemporaryFileSystem=/opt", "EnvironmentFile=/etc/nosuch"),
    *("ExecStartPre=/bin/false", "ExecStartPre=/nosuch", "ExecCondition=/bin/false", "LimitNOFILE=12", "LimitNPROC=1"),
    *("LimitAS=300M", "LimitFSIZE=0", "LimitCPU=1", "RuntimeMaxSec=2"),
    *("SystemCallFilter=~@network-io", "SystemCallFilter=~clone clone3 fork", "SystemCallFilter=@basic-io"),
    *("IPAddressDeny=any", "UnsetEnvironment=MASTER_ADDR"),
    *("Environment=PYTHONHOME=/nosuch", "Environment=TMPDIR=/nosuch", "RootDirectory=/srv", "LimitSTACK=16K"),
    *("UMask=0777", "PrivateTmp=yes", "PrivateDevices=yes", "ProtectHome=yes", "Nice=5", "LimitCORE=0"),
    *("PrivateUsers=yes", "MemoryDenyWriteExecute=yes", "Environment=NCCL_DEBUG=INFO", "TasksMax=4096"),
    *("IPAddressAllow=any", "ReadOnlyPaths=/usr", "Environment=GLOO_SOCKET_IFNAME=eth0", "CPUWeight=50"),
    *("ExecStartPre=/bin/sleep 1", "ExecStartPre=/usr/bin/test -d /nosuch", "ExecCondition=/usr/bin/test -e /nosuch"),
    *("ExecStartPre=-/bin/false", "ExecCondition=/bin/true", "NUMAPolicy=bind", "CPUAffinity=63", "CPUAffinity=0"),
    *("LoadCredential=x:/nosuch", "StandardOutput=file:/nosuch/x", "SupplementaryGroups=nosuch", "Group=nosuch"),
    *("BindPaths=/nosuch:/mnt", "BindPaths=-/nosuch:/mnt", "ReadWritePaths=/nosuch", "DevicePolicy=strict"),
    *("SystemCallFilter=~mprotect", "SystemCallFilter=~futex", "SystemCallFilter=~epoll_create1 epoll_wait"),
    *("SystemCallFilter=~getrandom", "SystemCallFilter=~eventfd2", "SystemCallFilter=~@timer", "TimeoutStartSec=1ms"),
    *("ProcSubset=pid", "PrivateIPC=yes", "LimitSIGPENDING=0", "LimitMSGQUEUE=0", "RestrictNamespaces=yes"),
    *("Environment=LD_PRELOAD=/opt/nosuch.so", "Environment=PATH=/nosuch", "Environment=GLOO_SOCKET_IFNAME=eth7"),
    *("MemoryMax=8G", "LimitNOFILE=65536", "OOMScoreAdjust=500", "Environment=NNODES=3", "KeyringMode=shared"),
)  # fmt: skip
LIMITS = (
    *("nofile 12", "nproc 1", "as 300000", "fsize 0", "cpu 1", "stack 64", "data 20000", "nofile 4096"),
    *("memlock 64", "core 0", "maxlogins 0", "nproc 4096"),
)  # fmt: skip
MODES = (
    *("700 /opt/fullmesh", f"700 {VENV}/", f"600 {VENV}/bin/torchrun", "644 /opt/fullmesh/bin/fullmesh-torchrun"),
    *("700 /opt/fullmesh/hook", "700 /opt/fullmesh/lib", "600 /opt/fullmesh/lib/fullmesh_watch.py"),
    *("600 /opt/fullmesh/hook/sitecustomize.py", "700 /opt/fullmesh/bin", f"600 {VENV}/pyvenv.cfg"),
    *(f"700 {SITE}/torch", f"700 {SITE}/torch/distributed", f"600 {SITE}/torch/distributed/run.py"),
    *(f"600 {SITE}/torch/lib/libtorch_cpu.so", f"700 {SITE}/sympy", f"600 {SITE}/torch/lib/libc10.so"),
    *("600 /etc/fullmesh/env", "600 /etc/fullmesh/nodes.json", "700 /etc/fullmesh", "600 /etc/hosts"),
    *("600 /etc/passwd", "600 /etc/nsswitch.conf", "755 /tmp", "755 /dev/shm", "600 /dev/null"),
    *("600 /dev/urandom", "000 /home/trainer", "600 /etc/ld.so.cache", "700 /etc/fullmesh/jobs"),
    *("711 /opt", "600 /etc/resolv.conf", "600 /etc/environment", "700 /etc/profile.d", "711 /home"),
    *(f"600 {SITE}/torch/version.py", "600 /usr/bin/env", "700 /usr/bin/id", "600 /etc/localtime"),
)  # fmt: skip
GONE = (
    *(f"{VENV}/bin/torchrun", f"{VENV}/bin/python", "/opt/fullmesh/lib/fullmesh_watch.py", f"{VENV}/pyvenv.cfg"),
    *("/opt/fullmesh/lib/fullmesh_sockets.py", "/opt/fullmesh/bin/fullmesh-watch", "/etc/fullmesh/env"),
    *("/etc/fullmesh/nodes.json", "/opt/fullmesh/hook/sitecustomize.py", "/home/trainer", "/etc/nsswitch.conf"),
    *(f"{SITE}/torch/distributed/run.py", f"{SITE}/torch/lib/libc10.so", f"{SITE}/typing_extensions.py"),
    *(f"{SITE}/sympy", f"{SITE}/torch/version.py", f"{SITE}/torch/_C*.so", f"{SITE}/networkx", "/etc/localtime"),
    *(f"{SITE}/torch/lib/libtorch_cpu.so", "/etc/fullmesh/hostfile", f"{SITE}/numpy", f"{SITE}/torchgen"),
)  # fmt: skip
# A Python package that is there in part: an interrupted copy, a full disk, a file of another version.
DAMAGED = (
    *(f"{SITE}/torch/__init__.py", f"{SITE}/torch/lib/libtorch_cpu.so", f"{SITE}/torch/lib/libtorch_python.so"),
    *(f"{SITE}/torch/distributed/run.py", f"{SITE}/torch/distributed/elastic/agent/server/api.py"),
    *(f"{SITE}/torch/_C*.so", f"{SITE}/torch/version.py", f"{SITE}/typing_extensions.py", f"{SITE}/sympy/__init__.py"),
    *(f"{VENV}/bin/torchrun", f"{VENV}/pyvenv.cfg", "/opt/fullmesh/hook/sitecustomize.py", "/etc/hosts"),
    *("/opt/fullmesh/lib/fullmesh_watch.py", "/opt/fullmesh/bin/fullmesh-torchrun", "/etc/fullmesh/nodes.json"),
    *(f"{SITE}/torch/lib/libc10.so", f"{SITE}/filelock/__init__.py", f"{SITE}/jinja2/__init__.py", "/etc/fullmesh/env"),
)  # fmt: skip
MOUNTS = (
    *("tmpfs /tmp size=4k,mode=1777", "tmpfs /dev/shm size=4k,mode=1777", "tmpfs /tmp ro", "tmpfs /dev/shm ro"),
    *("tmpfs /opt/fullmesh mode=755", "tmpfs /etc/fullmesh mode=755", "tmpfs /dev/shm size=64k,mode=1777"),
    *("bind /opt/fullmesh noexec", "bind /home/trainer ro", "tmpfs /home/trainer mode=700", "bind /tmp noexec"),
    *("bind /opt/fullmesh ro", "tmpfs /var/tmp ro", "tmpfs /tmp nr_inodes=1,mode=1777", "tmpfs /dev/shm mode=755"),
)  # fmt: skip
ACCOUNTS = (
    ("usermod -s /sbin/nologin trainer", "usermod -s /bin/bash trainer"),
    ("usermod -s /bin/nosuch trainer", "usermod -s /bin/bash trainer"),
    ("usermod -s /bin/false trainer", "usermod -s /bin/bash trainer"),
    ("chage -E 1 trainer", "chage -E -1 trainer"),
    ("chage -d 0 trainer", "chage -d 20000 trainer"),
    (
        "id -u trainer > /run/surprise.uid; usermod -u 1699 trainer",
        "usermod -u $(cat /run/surprise.uid) trainer",
    ),
    ("usermod -l trainer9 trainer", "usermod -l trainer trainer9"),
    ("touch /etc/nologin", "rm -f /etc/nologin"),
    ("usermod -d /nosuch trainer", "usermod -d /home/trainer trainer"),
    ("usermod -L trainer", "usermod -U trainer || true"),
    ("usermod -s /bin/sh trainer", "usermod -s /bin/bash trainer"),
    ("chown root: /home/trainer", "chown trainer: /home/trainer"),
)
EDITS = (
    *(r"s/$/\r/", "/MASTER_PORT/d", "/^MASTER_ADDR/d", "/FULLMESH_ADDRESS/d", "/NNODES/d", "/GLOO_SOCKET/d"),
    *("s/^NNODES=.*/NNODES=1/", "s/^NODE_RANK=.*/NODE_RANK=5/", "s/^MASTER_PORT=.*/MASTER_PORT=29501/"),
    *("s/eth1/eth0/", r"1s/^/\xef\xbb\xbf/", "s/^NNODES=/NNODES = /", "s/=/='/", "1i export", "s/^/  /"),
    *("s/^/export /", "$a # a comment", "s/^NPROC_PER_NODE=.*/NPROC_PER_NODE=/", "$a exit 3", "$a NCCL_DEBUG=INFO"),
    *(r"s/^GLOO_SOCKET_IFNAME=.*/GLOO_SOCKET_IFNAME=eth1 /", "s/^FULLMESH_ADDRESS=.*/FULLMESH_ADDRESS=$PEER/"),
)  # fmt: skip


@dataclass(frozen=True)
class StartFault:
    """A fault of a job's start, and the entry of jobs that it concerns."""

    fault: Surprise
    entry: str


def keep_file(path: str, do: str) -> tuple[str, str]:
    """Return the shell texts that change a file and that restore it."""
    kept = "/run/surprise.kept"
    save = f"if [ -e {path} ]; then cp -p {path} {kept}; else rm -f {kept}; fi"
    back = f"if [ -e {kept} ]; then cat {kept} > {path}; else rm -f {path}; fi"
    return f"mkdir -p $(dirname {path})\n{save}\n{do}", back


def make_variable(dice: random.Random) -> StartFault:
    """A variable in one of the places that set it."""
    line, name = dice.choice(VARIABLES), ""
    name = line.partition("=")[0]
    path, form, entry = dice.choice(
        [
            ("/etc/environment", "{line}", dice.choice([SSH, LOGIN])),
            ("/etc/profile.d/surprise.sh", "export {line}", LOGIN),
            ("/home/trainer/.bashrc", "export {line}", SSH),
            ("/home/trainer/.profile", "export {line}", LOGIN),
            ("/home/trainer/.bash_profile", "export {line}", LOGIN),
            ("/etc/security/pam_env.conf", "{name} DEFAULT={value}", SSH),
            (DROP_IN, "[Service]\nEnvironment={line}", BY_UNIT),
        ]
    )
    text = form.format(line=line, name=name, value=line.partition("=")[2])
    # Debian's .bashrc ends at once in a non-interactive shell
    do, undo = keep_file(
        path, f"cat > /run/surprise.new <<'LINES'\n{text}\nLINES\n"
        f"[ ! -e {path} ] || cat {path} >> /run/surprise.new\ncat /run/surprise.new > {path}"
    )  # fmt: skip
    if path == DROP_IN:
        do, undo = do + "\nsystemctl daemon-reload", undo + "\nsystemctl daemon-reload"
    return StartFault(Surprise("variable", do, undo, (name, path)), entry)


def make_shell_line(dice: random.Random) -> StartFault:
    """A line in a file that a shell reads at its start."""
    path, entry = dice.choice(
        [
            ("/home/trainer/.bashrc", SSH),
            ("/home/trainer/.bash_profile", LOGIN),
            ("/etc/profile.d/surprise.sh", LOGIN),
        ]
    )
    line = dice.choice(SHELL_LINES)
    do, undo = keep_file(
        path, f"echo '{line.replace(chr(39), chr(34))}' > /run/surprise.new\n"
        f"[ ! -e {path} ] || cat {path} >> /run/surprise.new\ncat /run/surprise.new > {path}"
    )  # fmt: skip
    return StartFault(Surprise("shell file", do, undo, (path, "login", "limit")), entry)


def make_unit_line(dice: random.Random) -> StartFault:
    """A drop-in of the unit of jobs."""
    line = dice.choice(UNIT_LINES)
    do, undo = keep_file(DROP_IN, f"printf '[Service]\\n%s\\n' '{line}' > {DROP_IN}")
    reload = "\nsystemctl daemon-reload"
    words = (line.partition("=")[0], DROP_IN)
    return StartFault(Surprise("unit", do + reload, undo + reload, words), BY_UNIT)


def make_limit(dice: random.Random) -> StartFault:
    """A limit that PAM sets."""
    line, path = dice.choice(LIMITS), "/etc/security/limits.d/90-surprise.conf"
    do, undo = keep_file(path, f"echo '{dice.choice(['trainer', '*'])} hard {line}' > {path}")
    return StartFault(Surprise("limit", do, undo, (line.split()[0], "limit")), SSH)


def choose_entry(dice: random.Random) -> str:
    """Return an entry for a fault that concerns all of them."""
    return dice.choice([SSH, SSH, LOGIN, BY_UNIT])


def make_mode(dice: random.Random) -> StartFault:
    """A file or folder that is closed to the account."""
    mode, path = dice.choice(MODES).split()
    do = f"stat -Lc %a {path} > /run/surprise.mode\nchmod {mode} {path}"
    undo = f"chmod $(cat /run/surprise.mode) {path}"
    return StartFault(Surprise("mode", do, undo, (path.rpartition("*")[2],)), choose_entry(dice))


def make_gone(dice: random.Random) -> StartFault:
    """A file or folder that is gone."""
    path = dice.choice(GONE)
    do = f"readlink -f $(dirname {path}) > /run/surprise.in; mv -T {path} /opt/.surprise"
    undo = f"mv -T /opt/.surprise $(cat /run/surprise.in)/$(basename {path})"
    if "*" in path.rpartition("/")[2]:
        do = f"ls -d {path} > /run/surprise.in; mv -T $(cat /run/surprise.in) /opt/.surprise"
        undo = "mv -T /opt/.surprise $(cat /run/surprise.in)"
    return StartFault(
        Surprise("gone", do, undo, (path.rpartition("/")[2].split("*")[0],)), choose_entry(dice)
    )


def make_damage(dice: random.Random) -> StartFault:
    """A file that is empty, cut short, or of something else."""
    path = dice.choice(DAMAGED)
    edit = dice.choice([": >", "head -c 100 /run/surprise.kept >", "echo '<<<<<<< HEAD' >"])
    do = f"f=$(ls -d {path}); cp -p $f /run/surprise.kept; {edit} $f"
    words = (path.rpartition("/")[2].split("*")[0], path.rpartition("/")[0].rpartition("/")[2])
    undo = f"cat /run/surprise.kept > $(ls -d {path})"
    return StartFault(Surprise("damage", do, undo, words), choose_entry(dice))


def make_mount(dice: random.Random) -> StartFault:
    """A mount that hides a folder, or is full or read-only."""
    kind, path, options = dice.choice(MOUNTS).split()
    do = f"mount -t tmpfs -o {options} surprise {path}"
    if kind == "bind":
        do = f"mount --bind {path} {path}\nmount -o remount,bind,{options} {path}"
    return StartFault(Surprise("mount", do, f"umount {path}", (path,)), choose_entry(dice))


def make_account(dice: random.Random) -> StartFault:
    """A change of the account."""
    do, undo = dice.choice(ACCOUNTS)
    return StartFault(Surprise("account", do, undo, ("trainer", "login")), choose_entry(dice))


def make_edit(dice: random.Random) -> StartFault:
    """A change in the environment file of jobs."""
    path, edit = "/etc/fullmesh/env", dice.choice(EDITS)
    quoted = f'"{edit}"' if "PEER" in edit else f"'{edit}'"
    do, undo = keep_file(path, f"sed -i {quoted} {path}")
    return StartFault(Surprise("file", do, undo, (path, "/etc/fullmesh/env")), choose_entry(dice))


def make_listener(dice: random.Random) -> StartFault:
    """A program on a port of the job."""
    port, where = dice.choice([29500, 29500, 29400, 29600]), dice.choice(["0.0.0.0", "$OWN"])  # noqa: S104
    code = f"import socket,time;s=socket.create_server(('{where}',{port}));time.sleep(600)"
    do = f'setsid python3 -c "{code}" >/dev/null 2>&1 & echo $! > /run/surprise.pid\nsleep 1'
    undo = "kill -9 $(cat /run/surprise.pid)"
    return StartFault(Surprise("listener", do, undo, (str(port),)), choose_entry(dice))


MAKERS: tuple[tuple[Callable[[random.Random], StartFault], int], ...] = (
    (make_variable, 6),
    (make_shell_line, 3),
    (make_unit_line, 5),
    (make_limit, 2),
    (make_mode, 4),
    (make_gone, 3),
    (make_damage, 3),
    (make_mount, 2),
    (make_account, 2),
    (make_edit, 3),
    (make_listener, 1),
)


PROLOGS = (
    *("exit 1", "exec /bin/false", "echo export", "echo print welcome", "echo export A=1", "cd /nosuch", "sleep 1"),
    *("echo unset MASTER_ADDR", "echo unset PATH", "echo unset HOME", "ulimit -n 12", "umask 0777", "if true; then"),
)  # fmt: skip
SLURMD_LINES = (
    *("LimitNOFILE=12", "LimitNPROC=1", "LimitAS=300M", "LimitFSIZE=0", "LimitCPU=1", "LimitSTACK=16K", "UMask=0777"),
    *("InaccessiblePaths=/opt/fullmesh", "InaccessiblePaths=/dev/shm", "ReadOnlyPaths=/tmp", "PrivateTmp=yes"),
    *("PrivateDevices=yes", "ProtectSystem=strict", "NoExecPaths=/opt", "LimitCORE=0", "LimitMEMLOCK=64K", "Nice=5"),
    *("Environment=LD_PRELOAD=/opt/nosuch.so", "LimitNOFILE=65536", "SystemCallFilter=~epoll_create1 epoll_wait"),
)  # fmt: skip


def make_prolog_line(dice: random.Random) -> StartFault:
    """A line in the program that Slurm runs before each task: often one that sets a variable."""
    line = dice.choice([dice.choice(PROLOGS), *[f"echo 'export {dice.choice(VARIABLES)}'"] * 3])
    name = line.partition("export ")[2].partition("=")[0]
    text = f"#!/bin/sh\n{line}\n"
    do, undo = keep_file(TASK_PROLOG, f"cat > {TASK_PROLOG} <<'LINES'\n{text}LINES")
    words = (TASK_PROLOG, "TaskProlog", *([name] if name else []))
    return StartFault(Surprise("prolog", do, undo, words), BY_SRUN)


def make_slurmd_line(dice: random.Random) -> StartFault:
    """A drop-in of slurmd's unit."""
    line = dice.choice(SLURMD_LINES)
    again = "\nsystemctl daemon-reload\nsystemctl restart slurmd\nsleep 2"
    write = f"mkdir -p $(dirname {SLURMD_DROP_IN})\nprintf '[Service]\\n%s\\n' '{line}' > {SLURMD_DROP_IN}"
    words = ("slurmd", line.partition("=")[0].replace("Limit", ""))
    return StartFault(
        Surprise("slurmd", write + again, f"rm {SLURMD_DROP_IN}{again}", words), BY_SRUN
    )


def make_login_variable(dice: random.Random) -> StartFault:
    """A variable of the login, which srun passes on."""
    line, path = dice.choice(VARIABLES), "/etc/environment"
    do, undo = keep_file(path, f"echo '{line}' >> {path}")
    return StartFault(Surprise("variable", do, undo, (line.partition("=")[0], path)), BY_SRUN)


def make_slurm_fault(seed: int) -> StartFault:
    """Return the fault of a seed on a node with Slurm."""
    dice = random.Random(seed)  # noqa: S311 (no secret)
    made = dice.choice([make_prolog_line, make_prolog_line, make_slurmd_line, make_login_variable])(
        dice
    )
    return StartFault(Surprise(**{**asdict(made.fault), "victim": dice.randint(0, 1)}), made.entry)


def make_start_fault(seed: int) -> StartFault:
    """Return the fault of a seed."""
    dice = random.Random(seed)  # noqa: S311 (no secret)
    maker = dice.choices([m for m, _ in MAKERS], [weight for _, weight in MAKERS])[0]
    made = maker(dice)
    victim = dice.randint(0, 1)
    return StartFault(Surprise(**{**asdict(made.fault), "victim": victim}), made.entry)


@dataclass(frozen=True)
class StartScore:
    """A fault, judged: ``hit``: the job failed. ``found``: a finding names the node. ``named``: it has the place."""

    seed: int
    kind: str
    entry: str
    victim: str
    script: str
    hit: bool
    why: str
    codes: tuple[str, ...]
    found: bool
    named: bool
    false: bool
    told: str
    seconds: float

    @property
    def fine(self) -> bool:
        """Return whether the diagnosis is right."""
        return not self.false and (not self.hit or (self.found and self.named))


class StartGround(Ground):
    """Two configured nodes, on which jobs start."""

    def ssh(self, name: str) -> list[str]:
        """Return the command that logs in as the account of jobs."""
        folder = self.bench.inventory.parent
        words = (
            f"ssh -F /dev/null -i {folder}/id_ed25519 -o UserKnownHostsFile={folder}/known_hosts"
        )
        words += " -o BatchMode=yes -o IdentitiesOnly=yes -o ConnectTimeout=10 -o LogLevel=ERROR"
        return [*words.split(), f"{ACCOUNT}@{self.node(name).management}"]

    def prepare_account(self) -> None:
        """Create the account of jobs, with root's key."""
        for name in self.names:
            self.bench.on(
                name,
                f"id {ACCOUNT} 2>/dev/null || useradd --create-home --shell /bin/bash {ACCOUNT}\n"
                f"install -d -m 700 -o {ACCOUNT} ~{ACCOUNT}/.ssh\n"
                f"install -m 600 -o {ACCOUNT} /root/.ssh/authorized_keys ~{ACCOUNT}/.ssh/authorized_keys",
            )

    def configure_cluster(self) -> None:
        """Configure the nodes, unless an earlier run has."""
        manifest = "test ! -e /var/lib/fullmesh/manifest.json || echo done"
        if not all(self.bench.on(name, manifest) for name in self.names):
            options = ["-e", json.dumps(self.variables)]
            done = run_fullmesh("apply", "-i", str(self.bench.inventory), *options)
            assert done.returncode == 0, done.stdout[-3000:]

    def prepare_jobs(self) -> None:
        """Copy the script of the job to the nodes, and settings for its unit."""
        for name in self.names:
            self.bench.on(
                name,
                f"mkdir -p /srv/jobs/shadow/torch /srv/jobs/libs /etc/fullmesh/jobs\n"
                f"cat > {JOB} <<'CODE'\n{SCRIPT}CODE\n"
                "echo 'raise ImportError(1)' > /srv/jobs/shadow/torch/__init__.py\n"
                "echo junk > /srv/jobs/libs/libc10.so; echo junk > /srv/jobs/libs/libz.so.1\n"
                f"printf 'FULLMESH_OPTIONS=--static\\nFULLMESH_SCRIPT={JOB}\\n' > /etc/fullmesh/jobs/surprise.env",
            )

    def start(self, entry: str, mode: str) -> list[subprocess.Popen[bytes]]:
        """Start a job on both nodes."""
        line = f"/opt/fullmesh/bin/fullmesh-torchrun {mode} {JOB}"
        for name in self.names:
            self.bench.on(
                name,
                # a job after a boot finds no folder of an earlier one
                "rm -rf /tmp/torchinductor_*\n"
                f"printf 'FULLMESH_OPTIONS={mode}\nFULLMESH_SCRIPT={JOB}\n' > /etc/fullmesh/jobs/surprise.env",
                check=False,
            )
        made = []
        for name in self.names:
            words = [*self.ssh(name), line]
            given = b""
            if entry == LOGIN:
                words, given = self.ssh(name)[:], f"exec {line}\n".encode()
                words.insert(1, "-T")
            elif entry == BY_SRUN:
                words = [*self.ssh(name), f"srun --quiet -N1 -n1 -w {name} {line}"]
            elif entry == BY_UNIT:
                words = [*self.enter(name), "sh", "-c", self.unit_script()]
            made.append(
                subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            )  # fmt: skip
            stdin = made[-1].stdin
            assert stdin
            with suppress(OSError):
                stdin.write(given)
                stdin.close()
        return made

    @staticmethod
    def unit_script() -> str:
        """Return the shell text that starts the unit, waits for its end, and prints its words."""
        return (
            f"since=$(date +%s); systemctl reset-failed {UNIT} 2>/dev/null; systemctl start {UNIT}\n"
            f"while systemctl is-active -q {UNIT}; do sleep 0.3; done\n"
            f"journalctl --sync; journalctl -q -o cat -u {UNIT} --since @$since | tail -n 60\n"
            f"[ $(systemctl show -P Result {UNIT}) = success ]"
        )

    def job(self, entry: str, mode: str = "--static") -> str:
        """Run a job on both nodes. Return why it failed, or ""."""
        running, ends = self.start(entry, mode), time.monotonic() + JOB_SECONDS
        why = ""
        while not why and time.monotonic() < ends:
            codes = [one.poll() for one in running]
            if any(codes):
                time.sleep(1)
                why = "failed"
            if all(code is not None for code in codes):
                break
            time.sleep(0.2)
        else:
            why = why or "no end in time"
        outputs = []
        for name, one in zip(self.names, running, strict=True):
            if one.poll() is None:
                one.kill()
            if why:
                # a login that is slower than the failure of the other node starts its job only now
                end = (
                    f"for one in $(seq 12); do systemctl kill -s KILL {UNIT} 2>/dev/null || true\n"
                    f"{CANCEL}; pkill -KILL -f '[s]tart\\.py' || true; sleep 0.25; done; true"
                )
                self.bench.on(name, end, check=False)
            assert one.stdout
            outputs.append(one.stdout.read().decode("utf-8", "replace"))
            one.wait()
        if not why and not all("JOB FINE" in text for text in outputs):
            why = "no result"
        last = [" / ".join(text.strip().splitlines()[-2:])[-160:] for text in outputs]
        return f"{why}: {last}" if why else ""

    def undo_fault(self, fault: Surprise, victim: str) -> None:
        """Undo a fault with its script unchanged."""
        self.bench.on(victim, self.settings(victim) + fault.undo, check=False)


def judge_start(
    about: Mapping[str, Any], words: Sequence[str], why: str, findings: Sequence[Mapping[str, Any]]
) -> StartScore:
    """Score one diagnosis.

    Args:
        about: seed, kind, entry, victim, script, seconds.
        words: some of them must be in a finding.
        why: the job failed, "" if it did not.
        findings: the primary ones.
    """
    victim = about["victim"]
    of_node = [one for one in findings if victim in (one.get("node"), one.get("peer"))]
    errors = [one for one in findings if one.get("severity") == "error"]
    return StartScore(
        **about,
        hit=bool(why),
        why=why[:300],
        codes=tuple(f"{one['code']}{'' if one in errors else '?'}" for one in findings),
        found=bool(why) and bool(of_node),
        named=bool(why)
        and any(word in join_finding_text(one) for one in of_node for word in words),
        false=not why and bool(errors),
        told=str(of_node[0]["cause"] if of_node else findings[0]["cause"] if findings else ""),
    )


def try_fault(
    ground: StartGround, seed: int, made: StartFault, usual: Sequence[str]
) -> StartScore | None:
    """Make the fault of a seed, start a job, and diagnose. None if the fault cannot be made."""
    entries = (BY_SRUN,) if made.entry == BY_SRUN else ENTRIES
    try:
        with ground.broken(made.fault) as victim:
            begun = time.monotonic()
            findings = [
                one
                for one in drop_boot_findings(ground.diagnose()["findings"])
                if one["code"] not in usual
            ]
            took = round(time.monotonic() - begun, 1)
            why = ground.job(made.entry)
            has_error = any(one["severity"] == "error" for one in findings)
            if why and not has_error:
                why = ground.job(made.entry)  # a fault makes every job fail; chance does not
            if not why and has_error:
                # what one rendezvous or entry does not use, another does; c10d is the default
                tries = [(made.entry, ""), *((one, "--static") for one in entries)]
                why = next(filter(None, starmap(ground.job, tries)), "")
    except (AssertionError, RuntimeError) as refused:
        print_line(f"{seed:5} not made: {str(refused)[-150:].strip()}")
        return None
    about = {"seed": seed, "kind": made.fault.kind, "entry": made.entry, "victim": victim}
    about |= {"script": made.fault.script, "seconds": took}
    return judge_start(about, made.fault.words, why, findings)


def describe_row(row: StartScore) -> str:
    """Return a row as text."""
    verdict = "ok" if row.fine else "FALSE" if row.false else "MISS"
    marks = "".join(
        one if is_met else "-"
        for one, is_met in zip("hfn", (row.hit, row.found, row.named), strict=True)
    )
    script = " / ".join(row.script.splitlines())[-150:]
    return (
        f"{row.seed:5} {verdict:5} {marks} {row.kind} by {row.entry} [{row.victim}] {','.join(row.codes)} "
        f"({row.seconds} s)\n      {script}\n      job: {row.why[:220]}\n      said: {row.told[:200]}"
    )


def prepare_ground(made: Bench, with_slurm: bool = False) -> StartGround:
    """Return the configured nodes, with a job that works."""
    ground = StartGround(made, tuple(made.nodes)[:2])
    ground.variables = {"launchers_job_user": ACCOUNT}
    if with_slurm:
        ground.variables |= json.loads(SERVICES)
    ground.prepare_account()
    ground.configure_cluster()
    if with_slurm:
        nodes = [ground.node(name) for name in ground.names]
        install_slurm(nodes, SRUN_PORTS)
        for node in nodes:
            node.on(f"printf '#!/bin/sh\\ntrue\\n' > {TASK_PROLOG}; chmod 755 {TASK_PROLOG}")
        write_slurm_conf(nodes, SRUN_PORTS, SLURM_CONF)
    ground.prepare()
    ground.prepare_jobs()
    return ground


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lab", default="starts")
    parser.add_argument("--seeds", default="91000-91009")
    parser.add_argument("--slurm", action="store_true", help="in a lab of its own")
    want = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    ground = prepare_ground(start_bench(want.lab, 2, KERNEL_RANGE), want.slurm)
    proof = BY_SRUN if want.slurm else SSH
    usual = [one["code"] for one in ground.diagnose()["findings"]]
    print_line(f"healthy: {usual}")
    for entry in (BY_SRUN,) if want.slurm else ENTRIES:
        assert not (why := ground.job(entry)), f"a job by {entry} fails on healthy nodes: {why}"
    for count, seed in enumerate(parse_seeds(want.seeds), 1):
        made = make_slurm_fault(seed) if want.slurm else make_start_fault(seed)
        if row := try_fault(ground, seed, made, usual):
            with (WORK / "starts.jsonl").open("a") as stream:
                stream.write(json.dumps(asdict(row)) + "\n")
            print_line(describe_row(row))
        if count % PROVED_EVERY == 0:  # the last faults have left nothing
            assert not (why := ground.job(proof)), f"{seed}: a job fails after the undo: {why}"
            left = {one["code"] for one in ground.diagnose()["findings"]} - set(usual)
            assert not left, f"{seed}: findings after the undo: {left}"


if __name__ == "__main__":
    main()
