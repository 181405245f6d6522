"""What ranks on lab nodes answered the collector, the kernel's evidence with it (`pytest tests/hang --hang-record`)."""

from __future__ import annotations

import copy
from typing import Any

import hang_records
import pytest
from causes.cases import LAB_JOBS
from record_files import RECORDED, load_record, name_record

from fullmesh.causes.hang.job import HangFinding
from fullmesh.hang.judge import judge_job

LAB = RECORDED / "hang_lab"


def load_samples(name: str) -> Any:
    return load_record(LAB / f"{name}.json")["samples"]


def get_only_finding(samples: Any) -> HangFinding:
    (found,) = judge_job(hang_records.read(samples), 5.0)
    return found


def test_every_record_is_known() -> None:
    assert {name_record(path) for path in LAB.glob("*.gz")} == LAB_JOBS.keys()


@pytest.mark.parametrize("name", LAB_JOBS)
def test_the_kernels_evidence_is_in_the_sentence(name: str) -> None:
    code, ranks, cause, seen = LAB_JOBS[name]
    found = get_only_finding(load_samples(name))
    assert (found.code, found.ranks) == (code, ranks)
    assert cause in found.cause
    assert seen in found.seen


def test_if_the_other_end_is_silent_the_senders_link_is_named() -> None:
    samples = load_samples("one_way")
    for sample in samples:
        sample[1]["connections"] = []
    found = get_only_finding(samples)
    peer = samples[-1][0]["connections"][0]["peer"]
    assert f"no packets from el1 arrive at {peer}" in found.cause


def test_a_peer_that_does_not_read_is_no_broken_link() -> None:
    samples = load_samples("one_way")
    for link in samples[-1][0]["connections"]:
        link.update(zero_window=True, retransmits=0)
    samples[-1][1]["connections"] = []
    found = get_only_finding(samples)
    assert "the network or a GPU does not carry it" in found.cause
    assert "does not read" in found.seen


@pytest.mark.parametrize(
    ("state", "wchan", "what"),
    [
        ("D", "nfs_wait_bit_killable", "an NFS server"),
        ("S", "request_wait_answer", "a file system in user space (FUSE)"),
        ("D", "request_wait_answer", "a file system in user space (FUSE)"),
        ("D", "0", "a disk or file system"),
    ],
)
def test_the_peer_that_a_rank_waits_for_is_named(state: str, wchan: str, what: str) -> None:
    samples = load_samples("disk")
    for sample in samples:
        sample[1]["native"].update(state=state, wchan=wchan, syscall="read", target="/mnt/batch")
    found = get_only_finding(samples)
    assert found.code == "HG-105"
    assert f"waits for {what} that does not answer" in found.cause
    assert "/mnt/batch" in found.seen


def test_a_card_without_a_carrier_is_named() -> None:
    samples = load_samples("one_way")
    assert "carrier" not in get_only_finding(copy.deepcopy(samples)).cause
    for link in samples[-1][1]["connections"]:
        link["dark"] = "eth1"
    found = get_only_finding(samples)
    assert found.cause.endswith("; eth1 of ubuntu1 is down or has no carrier")
    assert found.fix.startswith("on ubuntu1: ip link show eth1,")
    for link in samples[-1][1]["connections"]:
        del link["dark"]
        link["gone"] = ["eth1", "docker0"]
    assert get_only_finding(samples).cause.endswith(
        "; no interface of ubuntu1 has 10.78.2.12 any more (down or without carrier there: eth1, docker0)"
    )
    for link in samples[-1][1]["connections"]:
        link["gone"] = []
    assert get_only_finding(samples).cause.endswith(
        "; no interface of ubuntu1 has 10.78.2.12 any more"
    )


def test_a_lost_gpu_is_reported_beside_the_collective() -> None:
    """The line is NVIDIA's own of its documentation; no GPU here can say it."""
    line = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', GPU has fallen off the bus."
    samples = load_samples("one_way")
    told = {"kind": "xid", "at_ns": 1, "pid": 0, "name": "", "text": line}
    samples[-1][1]["kernel"] = [told, told]
    assert get_only_finding(samples).seen.endswith(f"; ubuntu1: {line}")


def test_kernel_messages_of_a_task_are_shown_with_its_disk() -> None:
    """The kernel's own message (kernel/hung_task.c) after two minutes."""
    line = "INFO: task pt_main_thread:4711 blocked for more than 122 seconds."
    samples = load_samples("disk")
    told = {"kind": "hung", "at_ns": 1, "pid": 4711, "name": "pt_main_thread", "text": line}
    samples[-1][1]["kernel"] = [told]
    assert get_only_finding(samples).seen.endswith(f"; the kernel: {line}")


# --- a rank that sleeps in a system call ------------------------------------------------------------

HELD = "a file lock on /data/cache.lock, held by process 812 (prepare.py, stopped)"


@pytest.mark.parametrize(
    ("seconds", "state", "code", "words"),
    [
        (0.9, "S", "HG-101", "is still busy at"),
        (0.9, "R", "HG-101", "is still busy at"),
        (0.0, "R", "HG-101", "is still busy at"),  # it may run, and other processes have the CPU
        (0.0, "S", "HG-119", "waits for the kernel, in do_wait, and uses no CPU time"),
    ],
)
def test_busy_is_said_if_cpu_time_grows(seconds: float, state: str, code: str, words: str) -> None:
    def change(samples: Any) -> None:
        hang_records.used_cpu(seconds)(samples)
        hang_records.native(1, state=state)(samples)

    (found,) = judge_job(hang_records.change_samples("late_data", change))
    assert found.code == code
    assert words in found.cause
    assert f"used {seconds:.0%} of a CPU between two queries" in found.seen


def test_a_rank_whose_cpu_time_is_not_known_is_not_called_busy() -> None:
    (found,) = judge_job(hang_records.load("late_data"))
    assert "is still in its own code at /home/user/data.py:20" in found.cause


def test_a_rank_that_computes_between_its_system_calls_is_busy() -> None:
    """It was seen in the call by chance twice."""

    def change(samples: Any) -> None:
        hang_records.used_cpu(0.5)(samples)
        hang_records.waits("read", "pipe", "data from a pipe")(samples)

    (found,) = judge_job(hang_records.change_samples("late_data", change))
    assert found.code == "HG-101"


@pytest.mark.parametrize(
    ("call", "kind", "state", "code"),
    [
        ("flock", "lock", "S", "HG-115"),
        ("fcntl", "lock", "D", "HG-115"),  # NFS
        ("wait4", "child", "S", "HG-118"),
        ("ioctl", "device", "D", "HG-119"),
        ("read", "file", "D", "HG-105"),
    ],
)
def test_the_system_call_replaces_a_missing_python_stack(
    call: str, kind: str, state: str, code: str
) -> None:
    def change(samples: Any) -> None:
        hang_records.waits(call, kind, HELD)(samples)
        for sample in samples:
            sample[1]["native"]["state"] = state
            sample[1]["threads"] = []

    (found,) = judge_job(hang_records.change_samples("late_data", change))
    assert found.code == code
    assert HELD in found.cause + found.seen


@pytest.mark.parametrize("kind", ["socket", "poll", "event"])
def test_a_socket_without_a_python_stack_may_be_the_collectives(kind: str) -> None:
    def change(samples: Any) -> None:
        hang_records.waits("poll", kind, "data from 10.0.0.2:29500")(samples)
        for sample in samples:
            sample[1]["threads"] = []

    assert [one.code for one in judge_job(hang_records.change_samples("late_data", change))] == [
        "HG-110"
    ]
