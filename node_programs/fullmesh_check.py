# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Check in 2 seconds whether this node is fit for a job.

    fullmesh-check [node] [links] [burn] [--hosts FILE] [--with-peers] [--json]

`node` (the default) checks GPUs, driver, interface, limits, clock, disks, mounts and drift. `links` checks the
connections to the other nodes: of --hosts, of the Slurm job, else of the plan. `burn` measures matrix products and
all-reduces for up to 2 minutes, and needs torch. Nothing is changed.

Exit status: 0 fit, 1 not fit, 2 could not be checked.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import glob
import json
import os
import resource
import select
import signal
import sys
import time
import zlib
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

import fullmesh_check_node as check_node
from fullmesh_check_node import HealthFinding, NoCheckError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
    from typing import Any

    HealthCheck = Callable[[], Iterable[HealthFinding]]

FIT, UNFIT, UNCHECKED = 0, 1, 2
SCHEMA = 1
DEADLINE = 1.7  # seconds for all checks, of the 2 that a run may take
LEAST_SECONDS = 0.5  # for the checks, if Python itself started slowly
REPORT_SECONDS = 0.2  # that a check of the links keeps for its result
CPU_SECONDS = 1  # of one check
MOST_ANSWER = 1 << 19  # names of 1,024 peers, of up to 253 characters
LEVELS = ("node", "links")
BURN = "burn"  # on demand only: it uses the devices fully
BURN_SECONDS = 110.0
MOST_FILES = 4096  # of the caller that a check closes
STUCK_SECONDS = 10.0  # longer than any check may run
STAT_WORDS = 20  # of proc_pid_stat(5) that are read
# checks whose program can hang in the kernel instead of the check itself
TOOLS = {"nvidia-smi": "nvidia-smi", "remapping": "nvidia-smi"}


class StuckProcess(NamedTuple):
    """A process of an earlier check, and the seconds since its start."""

    pid: int
    seconds: float


class StartedCheck(NamedTuple):
    """A check that runs in a process of its own."""

    name: str
    pid: int
    pipe: int


def run_check(check: HealthCheck) -> dict[str, Any]:
    """Run one check and return its result."""
    found: list[dict[str, Any]] = []
    state, why = "ok", ""
    figures: dict[str, Any] = {}

    def list_findings() -> Iterator[HealthFinding]:
        # checks are generators, and `burn` returns its figures
        generated = cast("Generator[HealthFinding, None, dict[str, Any] | None]", check())
        figures.update((yield from generated) or {})

    try:
        found.extend(one._asdict() for one in list_findings())
    except NoCheckError as error:
        state, why = "skipped" if error.skipped else "unknown", str(error)
    except Exception as error:  # a node can have anything in its files
        state, why = "unknown", f"{type(error).__name__}: {error}"[:200]
    result = {"state": "failed" if found else state, "why": why, "findings": found}
    return {**result, "figures": figures} if figures else result


def start_check(name: str, check: HealthCheck, end: float) -> StartedCheck:
    """Start a check in a process of its own, since one that hangs in the kernel cannot be stopped."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return StartedCheck(name, pid, reader)
    try:
        os.setsid()
        writer = detach_from_caller(name, writer)
        check_node.limit_programs(end)
        if name != BURN:
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a connection for each peer
        data = json.dumps(run_check(check)).encode()[:MOST_ANSWER]
        os.write(writer, data)
    finally:
        os._exit(0)


def detach_from_caller(name: str, writer: int) -> int:
    """Close the files of the caller, mark this process with its check, and return its pipe.

    A check that hangs in the kernel would keep them open. Slurm, ssh and a pipe wait until all are closed.
    """
    writer = fcntl.fcntl(
        writer, fcntl.F_DUPFD_CLOEXEC, 3
    )  # the caller may have closed the first ones
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    os.closerange(3, writer)
    os.closerange(writer + 1, MOST_FILES)
    with contextlib.suppress(OSError), open("/proc/self/comm", "wb", buffering=0) as stream:
        stream.write(mark_check(name).encode())
    return writer


def mark_check(name: str) -> str:
    """Return the name of a check's process, which the kernel limits to 15 bytes."""
    return f"fm-{zlib.crc32(name.encode('utf-8', 'replace')):08x}"


def find_stuck_checks(names: Iterable[str]) -> dict[str, StuckProcess]:
    """Return the checks of which an earlier process still hangs in the kernel, although it was killed.

    Such a process ends when the kernel answers. A further one would not end either, and each counts as load.
    """
    marks = {mark_check(name): [name] for name in names}
    for name, tool in TOOLS.items():
        marks.setdefault(tool, []).extend([name] if mark_check(name) in marks else [])
    found: dict[str, StuckProcess] = {}
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    for path in glob.glob("/proc/[0-9]*/stat"):
        head, _, rest = check_node.read_bytes(path, 512).rpartition(b")")
        pid, _, comm = head.partition(b" (")
        concerned = marks.get(comm.decode("ascii", "replace"))
        words = rest.split()
        if not concerned or len(words) < STAT_WORDS or words[0] != b"D":
            continue
        seconds = now - int(words[19]) / os.sysconf("SC_CLK_TCK")
        # the leader of its session was the check, which has ended
        alone = words[3] == pid or not os.path.exists(f"/proc/{int(words[3])}")
        if seconds > STUCK_SECONDS and alone:
            found.update(dict.fromkeys(concerned, StuckProcess(int(pid), seconds)))
    return found


def describe_unfinished(name: str, pid: int, seconds: float) -> dict[str, Any]:
    """Return the result of a check that has not ended: the server of a mount hangs, or the time was too short."""
    # only needed here, and slow to import
    import fullmesh_hang_calls as hang_calls  # noqa: PLC0415
    import fullmesh_hang_wait as hang_wait  # noqa: PLC0415

    call = hang_calls.read_thread_call(pid)
    wait = hang_wait.WaitFinder(None).find_wait(pid)
    where = f", in {call.name} ({call.wchan})" if call.name else ""
    stuck = [one for one in (wait["parties"] if wait else []) if one["state"] == "D"]
    found: list[dict[str, Any]] = []
    if name.startswith("mount ") and (call.state == "D" or call.name == "statfs"):
        text = f"{name} does not answer for {seconds:.1f} s{where}"
        fix = f"check the server of this mount: findmnt {name.split()[1]}"
        found.append(HealthFinding("HC-143", text, fix)._asdict())
    elif call.state == "D" or stuck:
        what = f"{name}, {stuck[0]['command']}" if stuck else name
        text = f"the kernel does not answer a program for {seconds:.1f} s ({what}{where})"
        found.append(HealthFinding("HC-107", text, "read dmesg, and restart the node")._asdict())
    why = "" if found else f"no result in {seconds:.1f} s{where}"
    return {"state": "failed" if found else "unknown", "why": why, "findings": found}


def read_result(data: bytes) -> dict[str, Any]:
    """Return the result that a check wrote."""
    try:
        found: dict[str, Any] = json.loads(data)
    except ValueError:
        return {"state": "unknown", "why": "it ended without a result", "findings": []}
    return found


def measure_age() -> float:
    """Return the seconds since the start of this process, with those that Python needed (proc_pid_stat(5))."""
    words = check_node.read_bytes("/proc/self/stat").rpartition(b")")[2].split()
    started = int(words[19]) / os.sysconf("SC_CLK_TCK")
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started)


def run_checks(checks: Mapping[str, HealthCheck], end: float) -> dict[str, dict[str, Any]]:
    """Run all checks at the same time, and return when all have ended or the time is over."""
    begun = time.monotonic()
    results: dict[str, dict[str, Any]] = {
        name: describe_unfinished(name, one.pid, one.seconds)
        for name, one in find_stuck_checks(checks).items()
    }
    started = {
        one.pipe: one
        for one in (start_check(*item, end) for item in checks.items() if item[0] not in results)
    }
    data = dict.fromkeys(started, b"")
    left = dict(started)
    while left and time.monotonic() < end:
        ready, _, _ = select.select(list(left), [], [], max(0.0, end - time.monotonic()))
        for pipe in ready:
            block = os.read(pipe, MOST_ANSWER)
            data[pipe] += block
            if not block:
                results[left.pop(pipe).name] = read_result(data[pipe])
    for one in left.values():
        results[one.name] = describe_unfinished(one.name, one.pid, time.monotonic() - begun)
    for one in started.values():
        for kill in (os.killpg, os.kill):  # with the programs that it started
            with contextlib.suppress(OSError):
                kill(one.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            # one that hangs in the kernel ends later, so nothing waits for it
            os.waitpid(one.pid, os.WNOHANG if one.pipe in left else 0)
        os.close(one.pipe)
    return {name: results[name] for name in checks}


def list_checks(
    levels: Iterable[str],
    hosts: str | list[str],
    end: float,
    *,
    with_peers: bool = False,
    python: str = "",
) -> dict[str, HealthCheck]:
    """Return the checks of the given levels, keyed by name.

    Args:
        levels, hosts, with_peers, python: see `run_levels`.
        end: the time until which answers of peers count.
    """
    found: dict[str, HealthCheck] = {}
    if "node" in levels:
        found = {
            "gpus": check_node.check_gpus,
            "nvidia-smi": check_node.check_smi,
            "remapping": check_node.check_remapping,
            "xids": check_node.check_xids,
            "interface": check_node.check_interfaces,
            "limits": check_node.check_limits,
            "clock": check_node.check_clock,
            "disks": check_node.check_disks,
            "drift": check_node.check_drift,
        }
        for source, folder, kind in check_node.list_network_mounts():
            name = f"mount {folder} ({kind}, {source})"
            found[name] = partial(check_node.check_mount, folder, name)
    if "links" in levels:
        import fullmesh_check_links as check_links  # noqa: PLC0415 (slow to import)

        found["connections"] = partial(check_links.check_connections, hosts, end)
        found["packets"] = partial(check_links.check_packets, hosts, end)
    if BURN in levels:
        import fullmesh_check_burn as check_burn  # noqa: PLC0415 (seldom needed)

        found[BURN] = partial(check_burn.check_burn, hosts, with_peers, end, python)
    return found


def judge_results(results: Mapping[str, Mapping[str, Any]]) -> int:
    """Return the exit status."""
    states = {one["state"] for one in results.values()}
    return UNFIT if "failed" in states else UNCHECKED if "unknown" in states else FIT


def describe_results(node: str, results: Mapping[str, Mapping[str, Any]], status: int) -> str:
    """Return the verdict as one line."""
    found = [one for result in results.values() for one in result["findings"]]
    unknown = [
        f"{name}: {one['why']}" for name, one in results.items() if one["state"] == "unknown"
    ]
    done = [name for name, one in results.items() if one["state"] == "ok"]
    text = {
        FIT: f"{node} is fit for jobs ({', '.join(done) or 'nothing to check'})",
        UNFIT: f"{node} is not fit for jobs: "
        + "; ".join("[{code}] {text}. Fix: {fix}".format(**one) for one in found),
        UNCHECKED: f"{node} could not be checked: {'; '.join(unknown)}",
    }[status]
    return check_node.clean_text(text)


def run_levels(
    levels: Iterable[str],
    hosts: str | list[str] = "",
    seconds: float = 0.0,
    *,
    with_peers: bool = False,
    python: str = "",
) -> dict[str, Any]:
    """Run the checks of some levels within the deadline, and return the document of `--json`.

    Args:
        levels: the levels.
        hosts: a file or list of peers, for links and burn.
        seconds: time for the checks, 0 for the rest of the deadline since the start of this process.
        with_peers: the peers run burn at the same time.
        python: has torch, for burn.
    """
    node = os.uname()[1]
    age = 0.0 if seconds else measure_age()
    begun = time.monotonic()
    deadline = BURN_SECONDS if BURN in levels else DEADLINE
    end = begun + (seconds or max(LEAST_SECONDS, deadline - age))
    checks = list_checks(levels, hosts, end - REPORT_SECONDS, with_peers=with_peers, python=python)
    results = run_checks(checks, end)
    status = judge_results(results)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "schema": SCHEMA,
        "node": node,
        "levels": list(levels),
        "status": status,
        "fit": {FIT: True, UNFIT: False}.get(status),
        "text": describe_results(node, results, status),
        "seconds": round(age + time.monotonic() - begun, 3),
        "cpu_seconds": round(sum(one.ru_utime + one.ru_stime for one in used), 3),
        "checks": results,
    }


def main(argv: list[str]) -> int:
    """Run the checks and print the verdict."""
    parser = argparse.ArgumentParser(
        prog="fullmesh-check",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "levels", nargs="*", metavar="LEVEL", help="node, links, burn (default: node)"
    )
    parser.add_argument(
        "--hosts", default="", help="a file with a host per line, for links and burn"
    )
    parser.add_argument(
        "--with-peers",
        action="store_true",
        help="burn also measures the other nodes, which run it as well",
    )
    parser.add_argument("--python", default="", help=argparse.SUPPRESS)  # with torch, for burn
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    args = parser.parse_args(argv)
    levels = args.levels or ["node"]
    unknown = set(levels) - {*LEVELS, BURN}
    if unknown:
        parser.error(f"unknown level: {', '.join(sorted(unknown))}")
    document = run_levels(levels, args.hosts, with_peers=args.with_peers, python=args.python)
    sys.stdout.write((json.dumps(document) if args.json else document["text"]) + "\n")
    return int(document["status"])


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
    except OSError as error:
        sys.stderr.write(f"fullmesh-check: {error}\n")
        code = UNCHECKED
    sys.stdout.flush()
    os._exit(code)
