"""Jobs of two ranks on two nodes, ways to hang them, and the queries that a user would run."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu.network import NodePair
from gpu.paths import ROOT

RANKS = (0, 1)
READY_SECONDS = 60.0
TIMEOUT = 20  # seconds after which NCCL's watchdog, or Gloo, gives up a collective
MOST_DUMP = 1 << 20  # bytes of an unreadable dump
HUNG_SECONDS = 3.0  # seconds until a broken job certainly hangs
AGAIN = 3.0
STALLED = 2.0
# Gloo has no watchdog that dumps, so a thread stands in for it.
PREAMBLE = (
    "import os, time as _t; _s = os.environ['ACCEPTANCE_STATE']; _r = os.environ['RANK']\n"
    "def ready():\n    open(_s + '/new' + _r, 'w').write(str(os.getpid())); "
    "os.rename(_s + '/new' + _r, _s + '/ready' + _r)\n"
    "def go():\n    while not os.path.exists(_s + '/go'): _t.sleep(0.01)\n"
    "def _dump():\n    import torch; raw = torch._C._distributed_c10d._dump_fr_trace(True, False, False); "
    "open(_s + '/dump_' + _r, 'wb').write(raw)\n"
)
START = """\
import datetime, json, os, sys, threading, time
import torch
import torch.distributed as dist

device, backend = os.environ["ACCEPTANCE_DEVICE"], os.environ["ACCEPTANCE_BACKEND"]
limit = float(os.environ["ACCEPTANCE_TIMEOUT"])
if device == "cpu":
    stand_in = threading.Timer(limit - 4, _dump)
    stand_in.daemon = True
    stand_in.start()
dist.init_process_group(backend, timeout=datetime.timedelta(seconds=limit))
rank, world = dist.get_rank(), dist.get_world_size()


def wait(tensor):
    return tensor.flatten()[0].item()


grads = torch.ones(1024, device=device)
for step in range(3):
    dist.all_reduce(grads)
wait(grads)
"""
MAIN = START + "ready()\ngo()\n"
LATE = (
    "\n\ndef between():\n    if rank == 1:\n        BODY\n\n\nbetween()\n"
    "dist.all_reduce(grads)\nwait(grads)\n"
)
LOGGER = "threading.Thread(target=time.sleep, args=(1000,), name='logger').start()\n"
CARRIES = "big = torch.ones(1 << 22, device=device)\nwhile True:\n    dist.all_reduce(big)\n    wait(big)\n"
DIFFERENT = """\
big = torch.ones(1 << 22, device=device)
if rank == 0:
    dist.broadcast(big, src=1)
else:
    dist.barrier()
wait(big)
"""
# a collective on the CPU, which Gloo counts separately from NCCL's in the same group
ON_CPU = "few = torch.ones(4)\nfor step in range(5):\n    dist.all_reduce(few)\n"
# as long as the job: 2^43 cycles are more than an hour
KERNEL = "torch.cuda._sleep(1 << 43)"
SLEEP = "time.sleep(1000)"
BUSY = "while True: sum(range(100000))"


@dataclass(frozen=True)
class GpuHang:
    """A way to make a job hang.

    Attributes:
        script: of both ranks.
        breaks: the harness' action: ``kill`` rank 1, or ``cut`` the link.
        codes: findings of ``hang`` that name it, with the ranks.
        dumped: codes that may come first from the watchdog's dumps, without stacks. Empty if no
            rank writes one.
        line: of the script, which ``hang`` must also name.
        backend: of ``init_process_group``, "" for the device's own.
    """

    script: str
    codes: tuple[str, ...]
    ranks: tuple[int, ...]
    dumped: tuple[str, ...]
    breaks: str = ""
    line: str = ""
    backend: str = ""

    def place(self) -> str:
        """Return ``train.py:88``, the place of *line*, or "" if no line is expected."""
        lines = (PREAMBLE + self.script).splitlines()
        return f"train.py:{lines.index(self.line) + 1}" if self.line else ""


def list_hangs(device: str) -> dict[str, GpuHang]:
    """List the five hangs. On CPUs a loop stands in for the kernel."""
    body, code = (BUSY, "HG-101") if device == "cpu" else (KERNEL, "HG-111")
    late = ("HG-110",) if device == "cpu" else ("HG-111",)
    # of the remaining rank; Gloo ended its collective, so no operation of it hangs
    lost = ("nothing",) if device == "cpu" else ("HG-110", "HG-132", "HG-151", "HG-161")
    # the watchdog of rank 1 waits for the store behind the cut link, so only rank 0 writes a dump
    apart = ("HG-161",) if device == "cpu" else ("HG-151", "HG-161")
    gloo = "gloo" if device == "cpu" else "cpu:gloo,cuda:nccl"
    return {
        "asleep": GpuHang(
            MAIN + LATE.replace("BODY", SLEEP),
            ("HG-107",),
            (1,),
            ("HG-110",),
            line=f"        {SLEEP}",
        ),
        "different": GpuHang(MAIN + DIFFERENT, ("HG-121",), (0, 1), ("HG-121",)),
        "kernel": GpuHang(MAIN + LATE.replace("BODY", body), (code,), (1,), late),
        "killed": GpuHang(START + LOGGER + "ready()\n" + CARRIES, ("HG-132",), (1,), lost, "kill"),
        "link": GpuHang(START + "ready()\n" + CARRIES, ("HG-161",), (0, 1), apart, "cut"),
        "both": GpuHang(
            MAIN + ON_CPU + LATE.replace("BODY", SLEEP).replace("grads", "few"),
            ("HG-107",),
            (1,),
            (),
            line=f"        {SLEEP}",
            backend=gloo,
        ),
    }


def prepend_python_path(folder: Path) -> str:
    """Return PYTHONPATH with a folder in front."""
    return os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))


@dataclass
class GpuJob:
    """A job that runs from ``with`` to its end.

    Attributes:
        command: of a rank. If empty, *script* runs with the preamble.
        more: additional variables. An empty value removes the variable.
    """

    pair: NodePair
    state: Path
    device: str
    script: str = ""
    command: Sequence[str] = ()
    backend: str = ""
    more: Mapping[str, str] = field(default_factory=dict)
    ranks: Sequence[int] = RANKS
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __enter__(self) -> GpuJob:
        """Start the job."""
        (self.state / "hook").mkdir(parents=True)
        shutil.copy(
            ROOT / "node_programs/fullmesh_hook.py", self.state / "hook" / "sitecustomize.py"
        )
        (self.state / "train.py").write_text(PREAMBLE + self.script)
        for rank in self.ranks:
            words = [one.format(rank=rank, state=self.state) for one in self.command]
            with self.log(rank).open("wb") as log:
                self.running.append(
                    subprocess.Popen(
                        [sys.executable, *(words or [str(self.state / "train.py")])],
                        cwd=self.state,
                        env=self.environment(rank),
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        preexec_fn=lambda rank=rank: self.pair.enter(rank),  # type: ignore[misc] # noqa: PLW1509 (no threads here)
                    )
                )
        return self

    def __exit__(self, *_: object) -> None:
        """Kill its ranks."""
        for one in self.running:
            one.send_signal(signal.SIGKILL)
            one.wait()

    def environment(self, rank: int) -> dict[str, str]:
        """Build a rank's environment: as Fullmesh's launchers do, with the settings that let two ranks share a GPU."""
        ours = ("NCCL_", "TORCH_", "GLOO_")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
        many = os.environ.get("ACCEPTANCE_WAY") == "multi-rank"
        way = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"} if many else {"NCCL_HOSTID": f"node{rank + 1}"}
        interface, dumps = self.pair.interface, f"{self.state}/dump_"
        found = {
            **kept,
            **way,
            **{"RANK": str(rank), "WORLD_SIZE": str(len(self.ranks)), "LOCAL_RANK": "0"},
            **{"LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": self.pair.master, "MASTER_PORT": "29500"},
            **{"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": interface},
            **{"NCCL_IB_DISABLE": "1", "NCCL_DEBUG": "WARN", "OMP_NUM_THREADS": "1"},
            **{"TORCH_FR_BUFFER_SIZE": "2000", "TORCH_NCCL_DUMP_ON_TIMEOUT": "1"},
            "TORCH_NCCL_ENABLE_TIMING": "1",  # otherwise no entry shows that a GPU has started it
            "TORCH_FR_DUMP_TEMP_FILE": dumps,
            "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": dumps,  # the same for an older torch
            "PYTHONPATH": prepend_python_path(self.state / "hook"),
            "ACCEPTANCE_STATE": str(self.state),
            "ACCEPTANCE_DEVICE": self.device,
            "ACCEPTANCE_BACKEND": self.backend or ("gloo" if self.device == "cpu" else "nccl"),
            "ACCEPTANCE_TIMEOUT": str(TIMEOUT),
            **self.more,
        }
        return {name: value for name, value in found.items() if value}

    def log(self, rank: int) -> Path:
        """Return the path of a rank's output."""
        return self.state / f"rank-{rank}.log"

    def printed(self, most: int = 1 << 22) -> str:
        """Return the output of all ranks."""
        return "".join(
            f"--- rank {rank}\n{self.log(rank).read_text(errors='replace')[-most:]}\n"
            for rank in self.ranks
        )

    def wait_for(self, name: str, seconds: float = READY_SECONDS) -> list[Path]:
        """Wait for the files that the ranks write with this name. Return those that exist."""
        deadline = time.monotonic() + seconds
        paths = [self.state / f"{name}{rank}" for rank in self.ranks]
        while time.monotonic() < deadline:
            both = zip(paths, self.running, strict=True)
            if all(path.exists() or one.poll() is not None for path, one in both):
                break
            time.sleep(0.1)
        return [path for path in paths if path.exists()]

    def start_fault(self) -> None:
        """Wait until both ranks are ready, then start the fault.

        Raises:
            RuntimeError: a rank does not become ready.
        """
        if len(self.wait_for("ready")) < len(self.ranks):
            raise RuntimeError(f"the ranks are not ready: {self.printed(1500)}")
        (self.state / "go").touch()

    def ended(self, seconds: float) -> list[int | None]:
        """Wait for the ranks to end. Return their exit codes, None for a running one."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and any(one.poll() is None for one in self.running):
            time.sleep(0.1)
        return [one.poll() for one in self.running]

    def on_node(self, node: int, words: Sequence[str]) -> subprocess.Popen[str]:
        """Start a program of Fullmesh on a node."""
        return subprocess.Popen(
            [sys.executable, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: self.pair.enter(node),  # noqa: PLW1509 (no threads here)
        )

    def read_records(self) -> list[str]:
        """Return torch's records of each rank, as its hook returns them."""
        code = (
            "import sys; sys.path.insert(0, sys.argv[1]); import fullmesh_hang_answer as answer; "
            "print(answer.query_process(int(sys.argv[2]))[1].decode())"
        )
        words = ["-c", code, str(ROOT / "node_programs")]
        asked = [self.on_node(at, [*words, str(one.pid)]) for at, one in enumerate(self.running)]
        return [one.communicate(timeout=30)[0] for one in asked]

    def ask_hang(self) -> tuple[list[dict[str, Any]], list[Any], list[str]]:
        """Collect on both nodes and judge here, as ``fullmesh hang`` does. Return findings, samples and errors."""
        from fullmesh.hang import ask  # noqa: PLC0415 (the path is set only at run time)
        from fullmesh.hang.judge import judge_job  # noqa: PLC0415 (as above)

        program = str(ROOT / "node_programs/fullmesh_hang.py")
        names = [f"node{node + 1}" for node in RANKS]
        asked = [
            self.on_node(node, [program, "--packed", "--name", name, "--again", str(AGAIN)])
            for node, name in enumerate(names)
        ]
        answers, failed = [], []
        for node, (name, one) in enumerate(zip(names, asked, strict=True)):
            out, errors = one.communicate()
            lines = [line for line in out.split("\n") if line.startswith(ask.MARK)]
            looks = tuple(ask.parse_node_hang(line, name) for line in lines)
            for look in looks:  # both nodes see the processes of the whole machine
                look["launchers"] = []
                mine = [rank for rank in look["ranks"] if rank["pid"] == self.running[node].pid]
                look["ranks"] = [one for one in mine if one["process"] == "running"]
            answers.append(ask.HangAnswer(name, looks))
            failed += [errors] if errors or not looks else []
        plan: Any = {
            "world_size": len(RANKS),
            "nodes": {name: {"first_rank": at, "local_ranks": 1} for at, name in enumerate(names)},
        }
        samples = ask.collect_samples(plan, answers)
        found = [one.as_dict() for one in judge_job(samples, STALLED)]
        return found, [one.looks for one in answers], failed


def judge_dumps(dumps: Sequence[Path]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Judge the ranks' dumps as explain-log does. Return the findings, and the dumps as plain data."""
    from fullmesh.explain.records import RankRecords  # noqa: PLC0415 (the path is set only at run time)
    from fullmesh.hang import recorder  # noqa: PLC0415 (as above)
    from fullmesh.hang.plain_pickle import RefusedRecordError  # noqa: PLC0415 (as above)

    taken, plain = RankRecords(), {}
    for path in dumps:
        raw = path.read_bytes()
        try:
            taken.take(path.name, raw)
            plain[path.name] = json.loads(json.dumps(recorder.parse_record_data(raw), default=str))
        except (ValueError, RefusedRecordError) as exc:  # keep its bytes, to extend the reader
            encoded = base64.b64encode(raw[:MOST_DUMP]).decode()
            plain[path.name] = {"refused": str(exc), "base64": encoded}
    return [one.as_dict() for one in taken.findings()], plain


def explain_log(paths: Sequence[Path]) -> dict[str, Any]:
    """Run ``fullmesh explain-log --json`` on some logs."""
    words = ["explain-log", "--json", "--", *map(str, paths)]
    code = (
        "import sys; from gpu.paths import find_parts; find_parts(); import argparse; "
        "from fullmesh.verbs import explain; top = argparse.ArgumentParser(); explain.add_verbs(top.add_subparsers()); "
        "args = top.parse_args(sys.argv[1:]); sys.exit(args.func(args))"
    )
    env = {**os.environ, "PYTHONPATH": prepend_python_path(ROOT / "tests")}
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env=env,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        found = {"findings": [], "unread": [done.stderr[-1000:]]}
    return {**found, "code": done.returncode}
