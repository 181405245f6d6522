"""Check L7: NCCL over all GPUs. Each rank has a GPU, they connect, sums are right, and rates by message size."""

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

from ladder_rank import Place, Rank, WrongValueError, gather_texts

if TYPE_CHECKING:  # types of these events. Nodes do not have this module
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
GROWTH = 16  # 1 KiB, 16 KiB, 256 KiB, 4 MiB, 64 MiB: from latency to full bandwidth
PATTERN = 16
NCCL_TESTS = (
    "all_reduce_perf",
    "/opt/nccl-tests/build/all_reduce_perf",
    "/usr/local/nccl-tests/build/all_reduce_perf",
)
TESTS_SECONDS = 40.0
WHY = (
    150  # characters of a reason that the other ranks get. JSON may need six bytes for a character
)
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
LINES, LONGEST = 40, 300  # of NCCL's log: their number, and the characters of each
# Variables that choose NCCL's network and the path to it (its documentation, "Environment Variables").
CHOICES = (
    *("NCCL_IB_DISABLE", "NCCL_IB_HCA", "NCCL_NET", "NCCL_NET_PLUGIN"),
    *("NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ"),
)
# NCCL reads this file after that of NCCL_CONF_FILE, which replaces ~/.nccl.conf (param.cc).
CONF = "/etc/nccl.conf"
LISTENING = 0.2  # seconds between two reads of NCCL's log


def read_nccl_settings(path: str) -> list[tuple[str, str]]:
    """Return NCCL's variables in a file of lines NAME=value, in its order."""
    lines = Path(path).read_text(errors="replace").splitlines() if Path(path).is_file() else []
    parts = [line.partition("=") for line in lines]
    return [(name, value) for name, equals, value in parts if equals and name.startswith("NCCL_")]


class EnvironmentFileError(Exception):
    """A line of the environment file of jobs cannot be read."""


def read_environment_file(path: str) -> dict[str, str]:
    """Return NCCL's variables as a shell or systemd reads them from a file. The last line of a name counts.

    Raises:
        EnvironmentFileError: a value lacks a quotation mark.
    """
    found = {}
    for name, value in read_nccl_settings(path):
        try:
            found[name] = unquote_value(value)
        except ValueError as exc:
            raise EnvironmentFileError(f"{path}, {name}: {exc}") from exc
    return found


def get_environment_file(rank: Rank) -> str:
    """Return the path of the environment file of jobs on this node."""
    return str(rank.settings.get("environment_file", ""))


def unquote_value(value: str) -> str:
    """Return a value as a shell reads it."""
    return (shlex.split(value) or [""])[0]


def set_job_environment(rank: Rank) -> None:
    """Set the NCCL variables that jobs on this node get. Those that the verification has set stay."""
    for name, value in read_environment_file(get_environment_file(rank)).items():
        if name not in os.environ:
            os.environ[name] = value
    os.environ["NCCL_DEBUG"] = (
        "INFO"  # shows the network. NCCL reads it once, at the first communicator
    )
    os.environ["NCCL_DEBUG_SUBSYS"] = "INIT,NET"
    os.environ["NCCL_DEBUG_FILE"] = str(get_nccl_log(rank))


def get_nccl_log(rank: Rank) -> Path:
    """Return the file for NCCL's log. This account cannot write to the folder of the events."""
    folder = Path(rank.settings.get("scratch") or tempfile.gettempdir())
    return folder / f"fullmesh-rank-{rank.rank}.nccl"


def describe_closed_devices(rank: Rank) -> str:
    """Describe the devices that only root may open. Jobs of other accounts and the ranks cannot use them."""
    held = rank.settings.get("shut", [])
    return f"; only root may open {', '.join(held)}, and the ranks are not root" if held else ""


def choose_device(rank: Rank) -> tuple[str, str, str]:
    """Return the device, the backend, and the reason if there is none. Tests can set them."""
    asked = rank.settings.get("gpu", {})
    if asked.get("device", "auto") != "auto":
        return str(asked["device"]), str(asked["backend"]), ""
    torch = rank.torch
    if not torch.cuda.is_available():
        built = torch.version.cuda or torch.version.hip
        return (
            "",
            "",
            f"torch sees no GPU{describe_closed_devices(rank)}"
            if built
            else "torch is built for CPUs",
        )
    if not rank.dist.is_nccl_available():
        return "", "", "torch is built without NCCL"
    held = torch.cuda.device_count()
    if rank.local_rank >= held:
        return "", "", f"{held} GPU(s) for local rank {rank.local_rank}"
    return f"cuda:{rank.local_rank}", "nccl", ""


def step_gpus(rank: Rank) -> GpusStepResult:
    """Check that each rank has its own GPU, or that no rank has one."""
    set_job_environment(rank)
    device, backend, why = choose_device(rank)
    rows = gather_texts(rank, "answer about the GPU", (device, why[:WHY]))
    lacking = [number for number, row in enumerate(rows) if not row[0]]
    if len(lacking) == rank.world:
        return {"applicable": False, "why": why}
    if lacking:
        what = f"GPU of rank {', '.join(map(str, lacking[:5]))}"
        raise WrongValueError(what, rows[lacking[0]][1], "one for each rank", "gpus", lacking)
    rank.gpu = Place(device, backend, None)
    said: GpusStepResult = {"applicable": True, "device": device, "backend": backend}
    if device.startswith("cuda"):
        rank.torch.cuda.set_device(device)
        said["name"] = rank.torch.cuda.get_device_name(device)
        said["nccl"] = ".".join(map(str, rank.torch.cuda.nccl.version()))
    return said


def wait_for_gpu(rank: Rank) -> None:
    """Wait for the GPU, because its calls return before the work is done."""
    if rank.gpu and rank.gpu.device.startswith("cuda"):
        rank.torch.cuda.synchronize()


def time_all_reduce(rank: Rank, place: Place, size: int) -> float:
    """Run one all_reduce of *size* bytes, compare every element, and return the seconds."""
    torch = rank.torch
    base = torch.arange(max(1, size // 4), device=place.device) % PATTERN
    value = (base + rank.rank).to(torch.float32)
    wait_for_gpu(rank)
    begun = time.perf_counter()
    rank.dist.all_reduce(value, group=place.group)
    wait_for_gpu(rank)
    spent = time.perf_counter() - begun
    wanted = (base * rank.world + rank.world * (rank.world - 1) // 2).to(torch.float32)
    if not torch.equal(value, wanted):
        at = int((value != wanted).nonzero()[0])
        what = f"all_reduce of {size} bytes on {place.device}, element {at}"
        raise WrongValueError(what, value[at].item(), wanted[at].item(), "values")
    return spent


def step_nccl(rank: Rank) -> NcclStepResult:
    """Connect all GPUs, which NCCL does at the first collective."""
    if not rank.gpu:
        return {"applicable": False}
    group = rank.dist.new_group(backend=rank.gpu.backend, timeout=timedelta(seconds=rank.left()))
    rank.gpu = Place(rank.gpu.device, rank.gpu.backend, group)
    with report_network_early(rank):
        spent = time_all_reduce(rank, rank.gpu, SMALLEST)
    said = describe_network(rank)
    get_nccl_log(rank).unlink(missing_ok=True)
    return {**said, "seconds": round(spent, 4)}


@contextlib.contextmanager
def report_network_early(rank: Rank) -> Iterator[None]:
    """Report NCCL's network as soon as its log names it: nodes with different networks hang without a message."""
    ended = threading.Event()

    def listen() -> None:
        while not ended.wait(LISTENING):
            if any(TOOK in line for line in read_nccl_log(rank)):
                rank.say(step="nccl", state="begin", data=describe_network(rank))
                return

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    try:
        yield
    finally:
        ended.set()
        listener.join()  # otherwise its line might come after the last one


def describe_network(rank: Rank) -> NcclStepResult:
    """Return the network that NCCL uses, and settings that may prevent a better one."""
    verbs = glob.glob("/dev/infiniband/uverbs*")
    return {
        "applicable": True,
        "said": read_nccl_log(rank),
        "settings": find_network_choices(rank),
        "verbs": len(verbs),
        "shut": [str(one) for one in rank.settings.get("shut", []) if str(one) in verbs],
    }


def find_network_choices(rank: Rank) -> dict[str, JobVariable]:
    """Return the variables that choose NCCL's network, and their source. The environment comes before files."""
    found: dict[str, JobVariable] = {}
    # NCCL does not replace a variable that is set: the first file and the first line of a name count
    for path in (os.environ.get("NCCL_CONF_FILE", ""), CONF):
        for name, value in read_nccl_settings(path):
            found.setdefault(name, {"value": value, "source": path})
    file = get_environment_file(rank)
    named = read_environment_file(file)
    for name in CHOICES:
        if name in os.environ:
            value = os.environ[name]
            source = file if named.get(name) == value else "the environment"
            found[name] = {"value": value, "source": source}
    return {name: found[name] for name in CHOICES if name in found}


def read_nccl_log(rank: Rank) -> list[str]:
    """Return the lines about networks in NCCL's log, each once: channels and threads repeat them."""
    path = get_nccl_log(rank)
    lines = path.read_text(errors="replace").splitlines() if path.is_file() else []
    told: dict[str, str] = {}
    for line in lines:
        if any(word in line for word in NOTED):
            told.setdefault(line.rpartition(" via ")[2].rpartition("NCCL INFO ")[2], line)
    return [line[:LONGEST] for line in told.values()][:LINES]


def list_message_sizes(most: int) -> list[int]:
    """Return message sizes in bytes, from latency to bandwidth."""
    sizes = [SMALLEST]
    while sizes[-1] * GROWTH <= most:
        sizes.append(sizes[-1] * GROWTH)
    return sizes


def step_nccl_sizes(rank: Rank) -> NcclSizesStepResult:
    """Time all_reduce by message size. nccl-tests' PERFORMANCE.md defines algorithm and bus bandwidth."""
    if not rank.gpu:
        return {"applicable": False}
    share = 2 * (rank.world - 1) / rank.world
    rows: list[NcclSizeResult] = []
    for size in list_message_sizes(int(rank.settings["bandwidth_mib"]) << 20):
        spent = [time_all_reduce(rank, rank.gpu, size) for _ in range(WARM_UP + ROUNDS)][WARM_UP:]
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


def build_nccl_tests_command(rank: Rank) -> list[str]:
    """Return the command of nccl-tests over this node's GPUs in one process, [] if that is not possible."""
    names = rank.settings.get("nccl_tests") or NCCL_TESTS
    program = next((found for name in names if (found := shutil.which(name))), "")
    count = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if not program or count < 2 or rank.local_rank:  # noqa: PLR2004 (one GPU has no bus)
        return []
    return [program, "-b", "1M", "-e", "64M", "-f", "4", "-g", str(count), "-n", "5", "-w", "2"]


def step_nccl_tests(rank: Rank) -> NcclTestsStepResult:
    """Run nccl-tests' all_reduce_perf if it is installed. The other ranks wait at the store, not in a collective."""
    said: NcclTestsStepResult = {"applicable": False}
    command = build_nccl_tests_command(rank) if rank.gpu else []
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
