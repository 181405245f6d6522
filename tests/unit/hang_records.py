"""Recorded answers of ranks of real jobs (tests/support/record_hang.py), and changes of them.

A changed record is read again by its types, so a rule that needs a field without a source cannot
fire here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from record_files import load_record

from fullmesh import contract
from fullmesh.hang import recorder
from fullmesh.observed.hang import Rank

RECORDED = Path(__file__).parent / "recorded/hang"
SLOW = RECORDED.with_name("hang_slow")
Samples = list[list[Rank]]
Change = Callable[[Any], object]
WHY = "the node does not answer"


@cache
def load_raw(name: str) -> Any:
    """Return a job's samples as recorded."""
    return load_record(RECORDED / f"{name}.json")["samples"]


def read(samples: Any) -> Samples:
    """Read samples by their types."""
    return [[contract.convert_value(Rank, one) for one in sample] for sample in samples]


def load(name: str) -> Samples:
    """Return the answers of a job's ranks, in samples."""
    return read(copy.deepcopy(load_raw(name)))


def load_slow(name: str) -> Samples:
    """Return a job that continues (tests/support/record_slow.py), from nodes with equal clocks."""
    samples = load_record(SLOW / f"{name}.json")["samples"]
    for one in (one for sample in samples for one in sample):
        one["clock"] = {"ahead_ns": 0, "doubt_ns": 0}
    return read(samples)


def change_samples(name: str, change: Change) -> Samples:
    """Return the samples with one change."""
    samples = copy.deepcopy(load_raw(name))
    change(samples)
    return read(samples)


def native(rank: int, **fields: Any) -> Change:
    """Change the state of a main thread."""

    def change(samples: Any) -> None:
        for sample in samples:
            sample[rank]["native"].update(fields)

    return change


def waits(call: str, kind: str, text: str, **fields: Any) -> Change:
    """Let rank 1 wait in a system call, in the form of node_programs/fullmesh_hang_wait.py."""
    wait = {"kind": kind, "call": call, "target": "", "text": text, "parties": []}
    return native(1, state="S", wchan="", syscall=call, fd=-1, target="", wait=wait, **fields)


def used_cpu(seconds: float, **fields: Any) -> Change:
    """Let rank 1 use this much CPU time within the second between two samples, in an unknown call."""

    def change(samples: Any) -> None:
        native(1, state="S", wchan="do_wait", syscall="", **fields)(samples)
        for number, sample in enumerate(samples):
            used = 7.0 + seconds * number
            sample[1]["taken_ns"] = samples[0][1]["taken_ns"] + 1_000_000_000 * number
            sample[1]["native"].update(thread_cpu=used, process_cpu=used)

    return change


def remove_rank(rank: int, **fields: Any) -> Change:
    """Remove the answer of a rank, or all of it except its record."""

    def change(samples: Any) -> None:
        for sample in samples:
            sample[rank].update(fields)

    return change


def dtype(samples: Any) -> None:
    for sample in samples:
        sample[1]["entries"][-1]["in_dtypes"] = ["Double"]


def lost_alone(samples: Any) -> None:
    """Remove the end of the other rank."""
    for sample in samples:
        sample[0].update(
            process="unasked", exit_code=None, missing=[{"what": "process", "why": WHY}]
        )


def again(samples: Any) -> None:
    """Let nothing change for ten seconds."""
    samples[:] = [samples[-1], copy.deepcopy(samples[-1])]
    for one in samples[-1]:
        one["taken_ns"] += 10_000_000_000
        for entry in one["entries"]:
            entry["retired"] = True
    for one, other in zip(*samples, strict=True):
        one["entries"] = other["entries"]


def sends(receives: bool) -> Change:
    """Let rank 0 send to rank 1, which receives or does not, in the form of NCCL's recorder."""

    def change(samples: Any) -> None:
        for sample in samples:
            first, second = (one["entries"][-1] for one in sample)
            first.update(p2p=True, kind="nccl:send 0->1", number=1)
            second.update(p2p=receives, kind="nccl:recv 1<-0" if receives else second["kind"])
            second.update(retired=not receives)

    return change


def receives(samples: Any) -> None:
    for sample in samples:
        sample[0]["entries"][-1].update(p2p=True, kind="nccl:recv 0<-1", number=1)
        sample[1]["entries"][-1].update(retired=True)


def asleep(samples: Any) -> None:
    """Let rank 0 send, rank 1 sleep, and a third rank wait for both."""
    for sample in samples:
        third = copy.deepcopy(sample[1])
        third.update(rank=2, host="n3")
        sleeper = copy.deepcopy(load_raw("late_sleep")[0][1])
        sample[1].update({name: sleeper[name] for name in ("threads", "native", "entries")})
        sample.append(third)
        for one in sample:
            one["world"] = 3
            one["groups"][0]["ranks"] = [0, 1, 2]


def both(samples: Any) -> None:
    """Let rank 1 receive with another tag."""
    for sample, other in zip(samples, load_raw("recv"), strict=True):
        sample[1].update({name: copy.deepcopy(other[0][name]) for name in ("threads", "native")})
        sample[1]["entries"][-1]["retired"] = True
        for one in sample:
            one["taken_ns"] += 5_000_000_000


def on_gpus(samples: Any) -> None:
    """Let rank 0's GPU have started and rank 1's not, in the form of NCCL's recorder."""
    for sample in samples:
        for one, state in zip(sample, ("started", "scheduled"), strict=True):
            one["entries"][-1].update(kind="nccl:all_reduce", state=state)


def swapping(samples: Any) -> None:
    """Let rank 1 read its memory from swap between two samples."""
    for number, sample in enumerate(samples):
        sample[1]["paging"] = {"swapped": 6 << 30, "from_disk": 1000 + 20000 * number}
        sample[1]["native"].update(state="D", wchan="folio_wait_bit_common")


def launched(samples: Any) -> None:
    """Add a third rank, which the launcher ended after the others."""
    for sample in samples:
        sample.append({**copy.deepcopy(sample[0]), "rank": 2, "host": "n3", "exit_code": -15})


RAIL_GIDS = {
    "1": "fe80:0000:0000:0000:5054:00ff:fe82:0000",
    "3": "0000:0000:0000:0000:0000:ffff:0a52:000b",
}


def uses_rdma(samples: Any, **rank1: Any) -> None:
    """Let both ranks use one port of a NIC. *rank1*: other values of rank 1's port."""
    state = {"gids": RAIL_GIDS, "errors": {"local_ack_timeout_err": 2, "out_of_sequence": 0}}
    port = {"port": "mlx5_1:1", "interface": "ens2", "state": "ACTIVE"}
    for sample in samples:
        for one in sample:
            states = {"now": copy.deepcopy(state), "start": state}
            one["rdma"] = [{**port, **states, **(rank1 if one["rank"] == 1 else {})}]


def gid_moved(samples: Any) -> None:
    """Let the address on rank 1's port get another entry of the GID table."""
    moved = {"1": RAIL_GIDS["1"], "5": RAIL_GIDS["3"]}
    uses_rdma(samples, now={"gids": moved, "errors": {}})


NO_STACK = {"threads": [], "native": {**recorder.NO_NATIVE}}
UNASKED = {
    "process": "unasked",
    "entries": [],
    **NO_STACK,
    "missing": [{"what": "process", "why": WHY}],
}
NFS = {"state": "D", "wchan": "rpc_wait_bit_killable", "syscall": "read", "target": "/data/set"}
DISK_STATE = {"state": "D", "wchan": "folio_wait_bit_common", "syscall": "fsync"}
TRAIN = "/home/user/train.py"
