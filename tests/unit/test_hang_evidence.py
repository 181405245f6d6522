"""Data from the kernel of a rank's node: connections, control groups, its log, launchers."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fullmesh_hang_evidence as hang_evidence
import fullmesh_hang_look as hang_look
import pytest
from ladder_samples import plan

from fullmesh.hang import ask
from fullmesh.hang.judge import judge_job
from fullmesh.observed.hang import KernelLine, Launcher, NodeHang, Rank

# A line of this kernel's log from a control group without memory, after a record's head (dev-kmsg).
KILLED = (
    "Memory cgroup out of memory: Killed process 12284 (python) total-vm:1313752kB, anon-rss:452560kB, "
    "file-rss:79256kB, shmem-rss:0kB, UID:1001 pgtables:1344kB oom_score_adj:0"
)
# the messages of kernel/hung_task.c, and NVIDIA's (Xid Errors in its documentation)
HUNG = "INFO: task python3:4711 blocked for more than 122 seconds."
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
OTHER = "systemd-journald[20]: Received client request to flush runtime journal."


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Make a connection of this process."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        here = socket.create_connection(listener.getsockname())
        there, _ = listener.accept()
    with here, there:
        yield here, there


def test_a_connection_is_reported_from_both_ends(pair: tuple[socket.socket, socket.socket]) -> None:
    here, there = pair
    here.sendall(b"x" * 1000)
    deadline, seen = time.monotonic() + 10, {}
    while time.monotonic() < deadline:
        seen = dict(
            hang_evidence.parse_connection(socket.AF_INET, raw)
            for raw in hang_evidence.dump_connections(socket.AF_INET)
        )
        if seen[str(os.fstat(there.fileno()).st_ino)]["unread"] == 1000:
            break
    sent = seen[str(os.fstat(here.fileno()).st_ino)]
    got = seen[str(os.fstat(there.fileno()).st_ino)]
    assert (sent["here"], sent["port"]) == here.getsockname()
    assert (sent["peer"], sent["peer_port"]) == here.getpeername()
    assert (got["port"], got["peer_port"]) == (sent["peer_port"], sent["port"])
    assert got["unread"] == 1000
    assert (sent["retransmits"], sent["zero_window"], sent["unread"]) == (0, False, 0)
    assert sent["segments_out"] >= got["segments_in"] - 1 >= 1


def test_a_process_that_does_not_read_closes_the_window(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    here, _ = pair
    here.setblocking(False)
    deadline, shut = time.monotonic() + 20, False
    while not shut and time.monotonic() < deadline:
        try:
            here.send(b"x" * 65536)
        except BlockingIOError:
            time.sleep(0.05)
        inode = str(os.fstat(here.fileno()).st_ino)
        seen = dict(
            hang_evidence.parse_connection(socket.AF_INET, raw)
            for raw in hang_evidence.dump_connections(socket.AF_INET)
        )
        shut = seen[inode]["zero_window"]
    assert shut
    assert seen[inode]["unacked"] > 0


def test_connections_within_a_node_are_omitted(pair: tuple[socket.socket, socket.socket]) -> None:
    found = hang_evidence.read_connections()
    assert str(os.fstat(pair[0].fileno()).st_ino) not in found
    assert hang_evidence.select_connections(os.getpid(), found) == []
    assert not hang_evidence.is_in_other_network(os.getpid())


# `ip -j address show`, iproute2 6.1: a veth pair before and after its other end was up, with the
# parsed result.
INTERFACES = [
    {
        "ifname": "v0",
        "flags": ["NO-CARRIER", "BROADCAST", "MULTICAST", "UP", "M-DOWN"],
        "operstate": "LOWERLAYERDOWN",
        "addr_info": [{"family": "inet", "local": "10.9.9.1", "prefixlen": 24}],
    },
    {
        "ifname": "v2",
        "flags": ["BROADCAST", "MULTICAST", "UP", "LOWER_UP"],
        "operstate": "UP",
        "addr_info": [{"family": "inet", "local": "10.9.9.2", "prefixlen": 24}],
    },
    {
        "ifname": "v3",
        "flags": ["BROADCAST", "MULTICAST"],
        "operstate": "DOWN",
        "addr_info": [{"family": "inet6", "local": "fd00::3", "prefixlen": 64}, {}],
    },
]


@pytest.mark.parametrize(
    ("interfaces", "dark"),
    [
        (INTERFACES, {"10.9.9.1": "v0", "fd00::3": "v3"}),
        # the owner of the address is unknown, so no interface is blamed
        (
            [INTERFACES[1], {**INTERFACES[0], "addr_info": []}, INTERFACES[2]],
            {"10.9.9.1": ["v0", "v3"], "fd00::3": "v3"},
        ),
        ([INTERFACES[1]], {"10.9.9.1": [], "fd00::3": []}),
        ([], {}),
    ],
)
def test_a_connection_reports_an_interface_without_carrier(
    interfaces: list[dict[str, Any]],
    dark: dict[str, str | list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """networkd removes the address when the carrier is lost, as seen on a lab node."""
    found = {here: {"here": here} for here in ("10.9.9.1", "10.9.9.2", "fd00::3")}
    monkeypatch.setattr(hang_evidence, "read_interfaces", lambda: interfaces)
    hang_evidence.mark_dark_connections(found.values())
    seen = {here: one.get("dark", one.get("gone")) for here, one in found.items()}
    assert {here: said for here, said in seen.items() if said is not None} == dark


@pytest.mark.parametrize(
    ("said", "count"),
    [(json.dumps(INTERFACES), 3), ("[]", 0), ('Object "-j" is unknown', 0), ("{}", 0), (None, 0)],
)
def test_nics_are_reported_if_iproute_lists_them(
    said: str | None, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ran(*_: Any, **__: Any) -> Any:
        if said is None:
            raise FileNotFoundError
        return subprocess.CompletedProcess([], 0, said.encode())

    monkeypatch.setattr(hang_evidence.subprocess, "run", ran)
    assert len(hang_evidence.read_interfaces()) == count


def test_the_tightest_control_group_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "user.slice/job.scope"
    own.mkdir(parents=True)
    (own / "cpu.max").write_text("max 100000\n")
    (own / "memory.max").write_text("629145600\n")
    (own / "memory.current").write_text("628924416\n")
    (own / "memory.events").write_text(
        "low 0\nhigh 0\nmax 5151\noom 1\noom_kill 1\noom_group_kill 0\n"
    )
    (own.parent / "cpu.max").write_text("20000 200000\n")
    (own.parent / "cpu.stat").write_text(
        "usage_usec 9\nnr_periods 30\nnr_throttled 24\nthrottled_usec 4251337\n"
    )
    seen = {
        "/proc/7/cgroup": b"0::/user.slice/job.scope\n",
        "/proc/mounts": f"cgroup2 {tmp_path} cgroup2 rw 0 0\n".encode(),
    }
    read = hang_evidence.watch_look.read_proc_bytes
    monkeypatch.setattr(
        hang_evidence.watch_look, "read_proc_bytes", lambda path, *_: seen.get(path) or read(path)
    )
    assert hang_evidence.read_cgroup_limits(7) == {
        "cpus": 0.1,
        "periods": 30,
        "throttled": 24,
        "memory": 628924416,
        "memory_max": 629145600,
        "oom_kills": 1,
    }
    monkeypatch.setattr(hang_evidence.watch_look, "read_proc_bytes", lambda _: b"")
    assert hang_evidence.read_cgroup_limits(7)["cpus"] == 0.0


def test_control_groups_of_version_1_limit_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Next to version 2 without these controllers, as on a hybrid system."""
    own, cpu = tmp_path / "memory/docker/a", tmp_path / "cpu/docker/a"
    own.mkdir(parents=True)
    cpu.mkdir(parents=True)
    (own / "memory.limit_in_bytes").write_text("629145600\n")
    (own / "memory.usage_in_bytes").write_text("4096\n")
    (own / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    (own.parent / "memory.limit_in_bytes").write_text("9223372036854771712\n")
    (cpu / "cpu.cfs_quota_us").write_text("-1\n")
    (cpu.parent / "cpu.cfs_quota_us").write_text("150000\n")
    (cpu.parent / "cpu.cfs_period_us").write_text("100000\n")
    (cpu.parent / "cpu.stat").write_text("nr_periods 9\nnr_throttled 1\nthrottled_time 7000000\n")
    mounts = f"cgroup2 {tmp_path}/unified cgroup2 rw 0 0\n" + "".join(
        f"cgroup {tmp_path}/{one} cgroup rw,relatime,{one} 0 0\n" for one in ("cpu", "memory")
    )
    seen = {
        "/proc/7/cgroup": b"4:memory:/docker/a\n1:cpu:/docker/a\n0::/docker/a\n",
        "/proc/mounts": mounts.encode(),
    }
    read = hang_evidence.watch_look.read_proc_bytes
    monkeypatch.setattr(
        hang_evidence.watch_look, "read_proc_bytes", lambda path, *_: seen.get(path) or read(path)
    )
    assert hang_evidence.read_cgroup_limits(7) == {
        "cpus": 1.5,
        "periods": 9,
        "throttled": 1,
        "memory": 4096,
        "memory_max": 629145600,
        "oom_kills": 2,
    }


def test_swapped_memory_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {
        "/proc/7/status": b"Name:\tpython (a) b\nVmRSS:\t  900 kB\nVmSwap:\t    2048 kB\nThreads:\t3\n",
        "/proc/7/stat": b"7 (python (a) b) D 1 7 7 0 -1 4194304 5120 0 4711 0 12 3 0 0 20 0 3 0 99 1 2\n",
    }
    real = hang_evidence.watch_look.read_proc_bytes
    monkeypatch.setattr(
        hang_evidence.watch_look, "read_proc_bytes", lambda path: seen.get(path, b"")
    )
    assert hang_evidence.read_paging(7) == {"swapped": 2 << 20, "from_disk": 4711}
    assert hang_evidence.read_paging(8) == {"swapped": 0, "from_disk": 0}
    monkeypatch.setattr(hang_evidence.watch_look, "read_proc_bytes", real)
    mine = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
    assert mine <= hang_evidence.read_paging(os.getpid())["from_disk"] <= mine + 100


# a FAKE of nvidia-smi, with its output format (nvidia-smi --help-query-gpu,
# --help-query-compute-apps)
SMI = """#!/bin/sh
case $1 in
    *gpu=*clocks*) SPEEDS ;;
    *gpu=*) printf '0, GPU-aa, 100, 92.31\\n1, GPU-bb, [N/A], [N/A]\\n' ;;
    *) printf '4711, GPU-aa, 70000\\n4711, GPU-bb, [N/A]\\n4712, GPU-gone, 5\\n4800, GPU-aa, 5\\n' ;;
esac
"""
OLD_DRIVER = "echo 'Field \"clocks.sm\" is not a valid field to query.'; exit 2"
SPEEDS = (
    "printf '0, GPU-aa, 100, 92.31, 1095, 1980, 0x0000000000000040, 8, 16\\n"
    "1, GPU-bb, [N/A], [N/A], [N/A], [N/A], [N/A], [N/A], [N/A]\\n'"
)


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path / "nvidia-smi"


def test_gpus_are_reported_by_process(smi: Path) -> None:
    assert hang_evidence.read_process_gpus() is None
    smi.write_text(SMI.replace("SPEEDS", OLD_DRIVER))
    smi.chmod(0o755)
    first = {"index": 0, "uuid": "GPU-aa", "busy": 100, "watts": 92, "memory": 70000 << 20}
    second = {"index": 1, "uuid": "GPU-bb", "busy": -1, "watts": -1, "memory": 0}
    found = hang_evidence.read_process_gpus()
    assert found is not None
    assert found[4711] == [{**first, "others": [4800]}, {**second, "others": []}]
    smi.write_text(SMI.replace("SPEEDS", SPEEDS))
    found = hang_evidence.read_process_gpus()
    assert found is not None
    assert [
        (one["clock"], one["clock_most"], one["slowed_by"], one["lanes"], one["lanes_most"])
        for one in found[4711]
    ] == [(1095, 1980, 0x40, 8, 16), (-1, -1, 0, -1, -1)]


def test_the_times_of_a_node_and_a_thread_are_read() -> None:
    cpu = hang_evidence.read_node_cpu()
    assert 0 <= cpu["stolen"] < cpu["ticks"]
    assert hang_look.hang_calls.read_queued_seconds(os.getpid()) >= 0
    assert hang_look.hang_calls.read_queued_seconds(1 << 22) == -1


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 'Unable to determine the device handle'; exit 9", "Unable to determine"),
        ("exit 3", "no words"),
        ("exec sleep 60", "does not answer"),
    ],
)
def test_a_driver_without_answer_is_reported(
    smi: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    monkeypatch.setattr(hang_evidence, "SMI_SECONDS", 0.3)
    smi.write_text(f"#!/bin/sh\n{script}\n")
    smi.chmod(0o755)
    with pytest.raises(OSError, match=why):
        hang_evidence.read_process_gpus()
    around = hang_look.NodeEvidence()
    around.thorough = False
    rank = hang_look.read_rank_state(os.getpid(), {"RANK": "0", "WORLD_SIZE": "2"}, "n1", around)
    assert any(one["what"] == "gpus" and why in one["why"] for one in rank["missing"])
    assert "gpus" not in rank
    assert not hang_look.NodeEvidence(thorough=False).no_gpus


def test_lines_of_the_kernel_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.clock_gettime(time.CLOCK_MONOTONIC)
    seen = [(now - 2 * hang_evidence.OLDEST, KILLED), (now - 50, OTHER), (now - 40, HUNG)]
    monkeypatch.setattr(
        hang_evidence, "read_kernel_log", lambda: [*seen, (now - 30, XID), (now - 5, KILLED)]
    )
    found = hang_evidence.find_kernel_events()
    assert [(one["kind"], one["pid"], one["name"]) for one in found] == [
        ("hung", 4711, "python3"),
        ("xid", 0, ""),
        ("oom", 12284, "python"),
    ]
    assert (
        abs(time.time_ns() - found[-1]["at_ns"] - 5 * hang_evidence.SECOND) < hang_evidence.SECOND
    )


def test_the_kernels_log_is_read_to_its_end() -> None:
    """Root reads a real log. Without rights there is none, and the reader still works."""
    found = list(hang_evidence.read_kernel_log())
    assert found == sorted(found, key=lambda one: one[0]) or not found
    assert all(text for _, text in found[:20])


def test_a_torchrun_reports_its_ranks() -> None:
    words = [
        "--nproc-per-node=1",
        "--node-rank=1",
        "--master-addr=10.78.0.11",
        "--master-port=29500",
    ]
    sleeps = ["-c", "import sys; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(
        ["/opt/venv/bin/torchrun", *sleeps, *words, "--nproc-per-node=4", "train.py"],
        executable=sys.executable,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert hang_evidence.read_launcher(os.getpid()) is None
        assert hang_evidence.read_launcher(process.pid) == {
            "pid": process.pid,
            "job": "",
            "master": "10.78.0.11:29500",
            "first": 4,
            "count": 4,
        }
        process.kill()


# --- ranks without any remaining process
# -----------------------------------------------------------


def running(rank: int, world: int = 2) -> Rank:
    found = ask.make_absent_rank(rank, world, "el1", "", gone=False)
    return {**found, "process": "running", "missing": []}


def make_node_answer(
    host: str, *ranks: Rank, line: KernelLine | None = None, **launcher: int
) -> NodeHang:
    starts: list[Launcher] = (
        [{"pid": 9, "job": "", "master": "", "first": launcher["first"], "count": 2}]
        if launcher
        else []
    )
    lines = [line] if line else []
    return {"host": host, "jobs": ["a"], "ranks": list(ranks), "kernel": lines, "launchers": starts}


def last(*looks: NodeHang) -> dict[int, Rank]:
    answers = [ask.HangAnswer(one["host"], (one,)) for one in looks]
    return {one["rank"]: one for one in ask.collect_samples(plan(2), answers)[-1]}


def test_a_missing_rank_of_a_running_torchrun_ended_well() -> None:
    found = last(make_node_answer("el1", running(0)), make_node_answer("ubuntu1", first=-1))
    assert (found[1]["process"], found[1]["exit_code"]) == ("gone", 0)
    assert "is still running" in found[1]["missing"][0]["why"]
    assert (
        last(make_node_answer("el1", running(0)), make_node_answer("ubuntu1"))[1]["exit_code"]
        is None
    )


def test_a_launcher_names_ranks_of_unplanned_jobs() -> None:
    found = last(
        make_node_answer("el1", running(0, 4), running(1, 4)),
        make_node_answer("ubuntu1", running(2, 4), first=2),
    )
    assert (found[3]["host"], found[3]["exit_code"]) == ("ubuntu1", 0)


def test_a_rank_killed_by_the_kernel_is_reported() -> None:
    line: KernelLine = {
        "kind": "oom",
        "at_ns": 10,
        "pid": 12284,
        "name": "python",
        "text": KILLED,
    }
    well = running(0)
    found = last(make_node_answer("el1", well), make_node_answer("ubuntu1", line=line, first=-1))
    assert found[1]["exit_code"] == -9
    well["raised"] = {"text": "RuntimeError: Connection closed by peer", "frames": []}
    (cause,) = judge_job(
        [list(last(make_node_answer("el1", well), make_node_answer("ubuntu1", line=line)).values())]
    )
    assert (cause.code, cause.ranks) == ("HG-132", (1,))
    assert "memory ran out" in cause.cause
    assert "Killed process 12284" in cause.seen
    other: KernelLine = {**line, "name": "postgres"}
    assert (
        last(make_node_answer("el1", well), make_node_answer("ubuntu1", line=other))[1]["exit_code"]
        is None
    )
