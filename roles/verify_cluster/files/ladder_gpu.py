"""Rung L7: NCCL over all GPUs: who has one, do they connect, are the sums right, how fast by message size."""

from __future__ import annotations

import contextlib
import glob
import os
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from ladder_rank import Place, Rank, WrongValueError, told_by_all

if TYPE_CHECKING:  # the controller's reader of these events; no such module is on a node
    from fullmesh.observed.ranks import (
        GpusStepResult,
        NcclSizeResult,
        NcclSizesStepResult,
        NcclStepResult,
        NcclTestsStepResult,
    )
    from fullmesh.observed.survey import JobVariable

WARM_UP = 2
ROUNDS = 5
SMALLEST = 1024
GROWTH = 16  # 1 KiB, 16 KiB, 256 KiB, 4 MiB, 64 MiB: latency, the bend and the plateau
PATTERN = 16
NCCL_TESTS = (
    "all_reduce_perf",
    "/opt/nccl-tests/build/all_reduce_perf",
    "/usr/local/nccl-tests/build/all_reduce_perf",
)
TESTS_SECONDS = 40.0
WHY = 150  # characters of a reason that the others are told; JSON may need six bytes for one
KEPT = 6000  # bytes of nccl-tests' table
TOOK = "Using network"
NOTED = (
    TOOK,
    "NET/IB",
    "NET/Socket",
    "NET/OFI",
    "NET/Plugin",
    "NET plugin",
    "libibverbs",
    "via NET/",
    "NCCL version",
)
LINES, LONGEST = 40, 300  # of NCCL's words: how many, and how many characters of each
# What NCCL lets others choose of its network and of the way to it (its documentation, "Environment Variables").
CHOICES = (
    *("NCCL_IB_DISABLE", "NCCL_IB_HCA", "NCCL_NET", "NCCL_NET_PLUGIN"),
    *("NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ"),
)
# Read by NCCL itself, after the file of NCCL_CONF_FILE, which it takes in the place of ~/.nccl.conf (param.cc).
CONF = "/etc/nccl.conf"
LISTENING = 0.2  # seconds between two looks at what NCCL says


def settings_in(path: str) -> list[tuple[str, str]]:
    """NCCL's variables in a file of lines NAME=value, in its order."""
    lines = Path(path).read_text(errors="replace").splitlines() if Path(path).is_file() else []
    parts = [line.partition("=") for line in lines]
    return [(name, value) for name, equals, value in parts if equals and name.startswith("NCCL_")]


class EnvironmentFileError(Exception):
    """A line of the file that jobs take their environment from cannot be read."""


def assigned(path: str) -> dict[str, str]:
    """What a shell or systemd takes from a file of variables: of a name that stands twice the last.

    Raises:
        EnvironmentFileError: a value has a quotation mark too few.
    """
    found = {}
    for name, value in settings_in(path):
        try:
            found[name] = unquoted(value)
        except ValueError as exc:
            raise EnvironmentFileError(f"{path}, {name}: {exc}") from exc
    return found


def environment_file(rank: Rank) -> str:
    """Where jobs on this node get their environment from."""
    return str(rank.settings.get("environment_file", ""))


def unquoted(value: str) -> str:
    """A value as a shell reads it."""
    return (shlex.split(value) or [""])[0]


def job_environment(rank: Rank) -> None:
    """Take the NCCL settings that jobs on this node get; what the verification set itself stays."""
    for name, value in assigned(environment_file(rank)).items():
        if name not in os.environ:
            os.environ[name] = value
    os.environ["NCCL_DEBUG"] = (
        "INFO"  # says which network it takes; read once, at the first communicator
    )
    os.environ["NCCL_DEBUG_SUBSYS"] = "INIT,NET"
    os.environ["NCCL_DEBUG_FILE"] = str(nccl_words(rank))


def nccl_words(rank: Rank) -> Path:
    """Where NCCL writes; the folder of the events is not this account's to write in."""
    return Path(tempfile.gettempdir()) / f"fullmesh-rank-{rank.rank}.nccl"


def shut(rank: Rank) -> str:
    """The devices that this node gives to root only; jobs of other accounts cannot use them, nor can the ranks."""
    held = rank.settings.get("shut", [])
    return f"; only root may open {', '.join(held)}, and the ranks are not root" if held else ""


def own_device(rank: Rank) -> tuple[str, str, str]:
    """(device, backend, why there is none); settings say otherwise where a test does."""
    asked = rank.settings.get("gpu", {})
    if asked.get("device", "auto") != "auto":
        return str(asked["device"]), str(asked["backend"]), ""
    torch = rank.torch
    if not torch.cuda.is_available():
        built = torch.version.cuda or torch.version.hip
        return "", "", f"torch sees no GPU{shut(rank)}" if built else "torch is built for CPUs"
    if not rank.dist.is_nccl_available():
        return "", "", "torch is built without NCCL"
    held = torch.cuda.device_count()
    if rank.local_rank >= held:
        return "", "", f"{held} GPU(s) for local rank {rank.local_rank}"
    return f"cuda:{rank.local_rank}", "nccl", ""


def step_gpus(rank: Rank) -> GpusStepResult:
    """Every rank has a GPU of its own, or none has."""
    job_environment(rank)
    device, backend, why = own_device(rank)
    rows = told_by_all(rank, "what is said of the GPU", (device, why[:WHY]))
    lacking = [number for number, row in enumerate(rows) if not row[0]]
    if len(lacking) == rank.world:
        return {"applicable": False, "why": why}
    if lacking:
        what = f"GPU of rank {', '.join(map(str, lacking[:5]))}"
        raise WrongValueError(what, rows[lacking[0]][1], "one for every rank", "gpus", lacking)
    rank.gpu = Place(device, backend, None)
    said: GpusStepResult = {"applicable": True, "device": device, "backend": backend}
    if device.startswith("cuda"):
        rank.torch.cuda.set_device(device)
        said["name"] = rank.torch.cuda.get_device_name(device)
        said["nccl"] = ".".join(map(str, rank.torch.cuda.nccl.version()))
    return said


def finished(rank: Rank) -> None:
    """Wait for the GPU: its calls return before the work is done."""
    if rank.gpu and rank.gpu.device.startswith("cuda"):
        rank.torch.cuda.synchronize()


def sum_of_all(rank: Rank, place: Place, size: int) -> float:
    """One all_reduce of *size* bytes, every element compared; seconds."""
    torch = rank.torch
    base = torch.arange(max(1, size // 4), device=place.device) % PATTERN
    value = (base + rank.rank).to(torch.float32)
    finished(rank)
    begun = time.perf_counter()
    rank.dist.all_reduce(value, group=place.group)
    finished(rank)
    spent = time.perf_counter() - begun
    wanted = (base * rank.world + rank.world * (rank.world - 1) // 2).to(torch.float32)
    if not torch.equal(value, wanted):
        at = int((value != wanted).nonzero()[0])
        what = f"all_reduce of {size} bytes on {place.device}, element {at}"
        raise WrongValueError(what, value[at].item(), wanted[at].item(), "values")
    return spent


def step_nccl(rank: Rank) -> NcclStepResult:
    """Connect all GPUs: NCCL does it at the first collective."""
    if not rank.gpu:
        return {"applicable": False}
    group = rank.dist.new_group(backend=rank.gpu.backend, timeout=timedelta(seconds=rank.left()))
    rank.gpu = Place(rank.gpu.device, rank.gpu.backend, group)
    with told_early(rank):
        spent = sum_of_all(rank, rank.gpu, SMALLEST)
    said = network(rank)
    nccl_words(rank).unlink(missing_ok=True)
    return {**said, "seconds": round(spent, 4)}


@contextlib.contextmanager
def told_early(rank: Rank) -> Iterator[None]:
    """Say which network NCCL took as soon as it has: nodes that took different ones hang, and say nothing more."""
    ended = threading.Event()

    def listen() -> None:
        while not ended.wait(LISTENING):
            if any(TOOK in line for line in nccl_said(rank)):
                rank.say(step="nccl", state="begin", data=network(rank))
                return

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    try:
        yield
    finally:
        ended.set()
        listener.join()  # or its line might be the last


def network(rank: Rank) -> NcclStepResult:
    """Which network NCCL took, and what may have kept it off a better one."""
    verbs = glob.glob("/dev/infiniband/uverbs*")
    return {
        "applicable": True,
        "said": nccl_said(rank),
        "settings": chosen(rank),
        "verbs": len(verbs),
        "shut": [str(one) for one in rank.settings.get("shut", []) if str(one) in verbs],
    }


def chosen(rank: Rank) -> dict[str, JobVariable]:
    """The choices that were taken from NCCL, and the file that did it: an environment before NCCL's own files."""
    found: dict[str, JobVariable] = {}
    # NCCL sets a variable only where there is none yet: the first file, and the first line of a name, hold
    for path in (os.environ.get("NCCL_CONF_FILE", ""), CONF):
        for name, value in settings_in(path):
            found.setdefault(name, {"value": value, "source": path})
    file = environment_file(rank)
    named = assigned(file)
    for name in CHOICES:
        if name in os.environ:
            value = os.environ[name]
            source = file if named.get(name) == value else "the environment"
            found[name] = {"value": value, "source": source}
    return {name: found[name] for name in CHOICES if name in found}


def nccl_said(rank: Rank) -> list[str]:
    """NCCL's own words about networks, each once: channels and threads say the same many times."""
    path = nccl_words(rank)
    lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
    told: dict[str, str] = {}
    for line in lines:
        if any(word in line for word in NOTED):
            told.setdefault(line.rpartition(" via ")[2].rpartition("NCCL INFO ")[2], line)
    return [line[:LONGEST] for line in told.values()][:LINES]


def message_sizes(most: int) -> list[int]:
    """Bytes, from latency to bandwidth."""
    sizes = [SMALLEST]
    while sizes[-1] * GROWTH <= most:
        sizes.append(sizes[-1] * GROWTH)
    return sizes


def step_nccl_sizes(rank: Rank) -> NcclSizesStepResult:
    """all_reduce by message size; algorithm and bus bandwidth as nccl-tests' PERFORMANCE.md defines them."""
    if not rank.gpu:
        return {"applicable": False}
    share = 2 * (rank.world - 1) / rank.world
    rows: list[NcclSizeResult] = []
    for size in message_sizes(int(rank.settings["bandwidth_mib"]) << 20):
        spent = [sum_of_all(rank, rank.gpu, size) for _ in range(WARM_UP + ROUNDS)][WARM_UP:]
        rate = size * 8 / min(spent) / 1e9
        rows.append(
            {
                "bytes": size,
                "us": round(min(spent) * 1e6, 1),
                "alg_gbit_s": round(rate, 3),
                "bus_gbit_s": round(rate * share, 3),
            }
        )
    return {"applicable": True, "backend": rank.gpu.backend, "sizes": rows}


def nccl_tests_command(rank: Rank) -> list[str]:
    """nccl-tests over the GPUs of this node, in one process; empty where it is not installed or says nothing."""
    names = rank.settings.get("nccl_tests") or NCCL_TESTS
    program = next((found for name in names if (found := shutil.which(name))), "")
    count = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if not program or count < 2 or rank.local_rank:  # noqa: PLR2004 (one GPU has no bus)
        return []
    return [program, "-b", "1M", "-e", "64M", "-f", "4", "-g", str(count), "-n", "5", "-w", "2"]


def step_nccl_tests(rank: Rank) -> NcclTestsStepResult:
    """nccl-tests' all_reduce_perf, where it is installed; the others wait at the store, not in a collective."""
    said: NcclTestsStepResult = {"applicable": False}
    command = nccl_tests_command(rank) if rank.gpu else []
    if command:
        own = ("RANK", "WORLD_SIZE", "MASTER_", "LOCAL_", "NCCL_DEBUG")
        env = {k: v for k, v in os.environ.items() if not k.startswith(own)}
        done = subprocess.run(  # noqa: S603 (a program of the node)
            command,
            env=env,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=min(TESTS_SECONDS, rank.left()),
        )
        text = done.stdout.decode("utf-8", "replace")[-KEPT:]
        said = {"applicable": True, "command": command, "code": done.returncode, "text": text}
    rank.store.set(f"nccl_tests/{rank.rank}", "done")
    rank.store.wait(
        [f"nccl_tests/{number}" for number in range(rank.world)], timedelta(seconds=rank.left())
    )
    return said


STEPS: dict[str, Callable[[Rank], Mapping[str, object]]] = {
    "gpus": step_gpus,
    "nccl": step_nccl,
    "nccl_sizes": step_nccl_sizes,
    "nccl_tests": step_nccl_tests,
}
