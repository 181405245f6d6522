"""What ranks of real jobs said (tests/support/record_hang.py), and what becomes of it when one thing is changed.

A change is made in what was recorded and read again by the types, so a rule that needs a field that no rank says cannot
be made to fire here.
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
Samples = list[list[Rank]]
Change = Callable[[Any], object]
WHY = "the node does not answer"


@cache
def raw(name: str) -> Any:
    """A job's samples as they were recorded."""
    return load_record(RECORDED / f"{name}.json")["samples"]


def read(samples: Any) -> Samples:
    """By the types."""
    return [[contract.convert_value(Rank, one) for one in sample] for sample in samples]


def load(name: str) -> Samples:
    """What the ranks of a job said, sample for sample."""
    return read(copy.deepcopy(raw(name)))


def changed(name: str, change: Change) -> Samples:
    """The same with one thing changed."""
    samples = copy.deepcopy(raw(name))
    change(samples)
    return read(samples)


def native(rank: int, **told: Any) -> Change:
    """Another state of a main thread."""

    def change(samples: Any) -> None:
        for sample in samples:
            sample[rank]["native"].update(told)

    return change


def without(rank: int, **told: Any) -> Change:
    """A rank that is not asked, or of which only the record is there."""

    def change(samples: Any) -> None:
        for sample in samples:
            sample[rank].update(told)

    return change


def dtype(samples: Any) -> None:
    for sample in samples:
        sample[1]["entries"][-1]["in_dtypes"] = ["Double"]


def lost_alone(samples: Any) -> None:
    """Nobody knows how the other rank ended."""
    for sample in samples:
        sample[0].update(
            process="unasked", exit_code=None, missing=[{"what": "process", "why": WHY}]
        )


def again(samples: Any) -> None:
    """Nothing moved for ten seconds."""
    samples[:] = [samples[-1], copy.deepcopy(samples[-1])]
    for one in samples[-1]:
        one["taken_ns"] += 10_000_000_000
        for entry in one["entries"]:
            entry["retired"] = True
    for one, other in zip(*samples, strict=True):
        one["entries"] = other["entries"]


def sends(receives: bool) -> Change:
    """As NCCL's recorder has it: rank 0 sends to rank 1, which receives or does not."""

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
    """Rank 0 sends, 1 sleeps, and a third waits for both."""
    for sample in samples:
        third = copy.deepcopy(sample[1])
        third.update(rank=2, host="n3")
        sleeper = copy.deepcopy(raw("late_sleep")[0][1])
        sample[1].update({name: sleeper[name] for name in ("threads", "native", "entries")})
        sample.append(third)
        for one in sample:
            one["world"] = 3
            one["groups"][0]["ranks"] = [0, 1, 2]


def both(samples: Any) -> None:
    """Rank 1 receives, with another tag."""
    for sample, other in zip(samples, raw("recv"), strict=True):
        sample[1].update({name: copy.deepcopy(other[0][name]) for name in ("threads", "native")})
        sample[1]["entries"][-1]["retired"] = True
        for one in sample:
            one["taken_ns"] += 5_000_000_000


def on_gpus(samples: Any) -> None:
    """As NCCL's recorder has it: rank 0's GPU has begun, rank 1's has not."""
    for sample in samples:
        for one, state in zip(sample, ("started", "scheduled"), strict=True):
            one["entries"][-1].update(kind="nccl:all_reduce", state=state)


def swapping(samples: Any) -> None:
    """Rank 1 reads its memory back, from one look to the next."""
    for number, sample in enumerate(samples):
        sample[1]["paging"] = {"swapped": 6 << 30, "from_disk": 1000 + 20000 * number}
        sample[1]["native"].update(state="D", wchan="folio_wait_bit_common")


def launched(samples: Any) -> None:
    """A third rank, which the launcher ended after the others."""
    for sample in samples:
        sample.append({**copy.deepcopy(sample[0]), "rank": 2, "host": "n3", "exit_code": -15})


NO_STACK = {"threads": [], "native": {**recorder.NO_NATIVE}}
UNASKED = {
    "process": "unasked",
    "entries": [],
    **NO_STACK,
    "missing": [{"what": "process", "why": WHY}],
}
NFS = {"state": "D", "wchan": "rpc_wait_bit_killable", "syscall": "read", "target": "/data/set"}
DISK = {"state": "D", "wchan": "folio_wait_bit_common", "syscall": "fsync"}
TRAIN = "/home/user/train.py"
# job -> the findings at the top: code, ranks, place. What is there beside them is folded under them.
REAL: dict[str, list[tuple[str, tuple[int, ...], str]]] = {
    "healthy": [("HG-162", (0, 1), "")],
    "healthy_4": [("HG-162", (0, 1, 2, 3), "")],
    "long_step": [("HG-162", (0, 1), "")],
    "late_sleep": [("HG-107", (1,), f"{TRAIN}:15")],
    "late_input": [("HG-102", (1,), f"{TRAIN}:15")],
    "late_pdb": [("HG-102", (1,), f"{TRAIN}:15")],
    "late_save": [("HG-103", (0,), f"{TRAIN}:15")],
    "late_loader": [("HG-104", (1,), f"{TRAIN}:13")],
    "late_data": [("HG-101", (1,), "/home/user/data.py:20")],
    "late_lock": [("HG-108", (1,), f"{TRAIN}:25")],
    "late_event": [("HG-108", (1,), f"{TRAIN}:17")],
    "late_lock_file": [("HG-113", (1,), f"{TRAIN}:18")],
    "late_stopped": [("HG-106", (1,), "")],
    "late_four": [("HG-107", (2,), f"{TRAIN}:15")],
    "late_two_causes": [("HG-102", (3,), f"{TRAIN}:18"), ("HG-107", (1,), f"{TRAIN}:16")],
    "late_chain": [("HG-107", (3,), f"{TRAIN}:15")],
    "kinds": [("HG-121", (0, 1), f"{TRAIN}:12")],
    "kinds_four": [("HG-121", (3,), f"{TRAIN}:12")],
    "sizes": [("HG-122", (0, 1), f"{TRAIN}:11")],
    "groups_crossed": [("HG-124", (0, 1), f"{TRAIN}:16")],
    "exited": [("HG-131", (1,), "")],
    "finished": [("HG-131", (1,), "")],
    "killed": [("HG-132", (1,), "")],
    "aborted": [("HG-132", (0,), "")],
    "raised": [("HG-133", (1,), f"{TRAIN}:16")],
    "send": [("HG-141", (0,), f"{TRAIN}:12")],
    "recv": [("HG-142", (0,), f"{TRAIN}:12")],
    "not_in_group": [("HG-143", (1, 2), f"{TRAIN}:14")],
    "new_group": [("HG-144", (1,), f"{TRAIN}:13")],
    "network": [("HG-161", (0, 1), f"{TRAIN}:13")],
}
# name -> the codes at the top, the job, what is changed in it
CHANGES: dict[str, tuple[list[str], str, Change]] = {
    "NFS does not answer": (["HG-105"], "late_sleep", native(1, **NFS)),
    "a disk does not answer": (["HG-105"], "late_save", native(0, **DISK)),
    "garbage is collected": (["HG-109"], "late_data", native(1, functions=["gc_collect_main"])),
    "nothing but records": (["HG-110"], "late_four", without(2, **NO_STACK)),
    "other types": (["HG-123"], "network", dtype),
    "a connection lost, nobody knows why": (["HG-134", "HG-151"], "aborted", lost_alone),
    "a rank that is not asked": (["HG-151"], "late_four", without(2, **UNASKED)),
    "one that is not asked and one that sleeps": (
        ["HG-102", "HG-151"],
        "late_two_causes",
        without(1, **UNASKED),
    ),
    "all sleep": (["HG-164"], "long_step", again),
    "the receiver sleeps": (["HG-107"], "send", asleep),
    "a send and a receive that do not fit": (["HG-164"], "send", both),
    "NCCL: a GPU has not begun": (["HG-111"], "network", on_gpus),
    "NCCL: a send without a receive": (["HG-141"], "network", sends(False)),
    "NCCL: a receive without a send": (["HG-142"], "network", receives),
    "NCCL: a send that does not arrive": (["HG-161"], "network", sends(True)),
    "a rank's memory is in swap": (["HG-114"], "late_data", swapping),
    "a rank is traced": (["HG-106"], "late_data", native(1, state="t")),
    "SIGTERM alone": (["HG-135"], "killed", without(1, exit_code=-15)),
    "a launcher ends the others": (["HG-132"], "aborted", launched),
    "a rank has gone, nobody knows how": (["HG-132"], "killed", without(1, exit_code=None)),
}


# What ranks on lab nodes answered the collector: name -> code, ranks, words of the sentence and of what is seen
LAB_KNOWN: dict[str, tuple[str, tuple[int, ...], str, str]] = {
    "cable": (
        "HG-161",
        (0, 1),
        "nothing gets through between el1 and ubuntu1, either way",
        "el1 -> ubuntu1 (10.78.",
    ),
    "one_way": (
        "HG-161",
        (0, 1),
        "none comes out: nothing gets from el1 to ubuntu1",
        "bytes unacknowledged, sent again",
    ),
    "exited": ("HG-131", (1,), "has come to the end of the program", "torchrun"),
    "throttled": (
        "HG-112",
        (1,),
        "gets no more than 0.1 processors from its control group at /srv/jobs/train.py:",
        "of the periods between two looks",
    ),
    "oom": (
        "HG-132",
        (1,),
        "been killed by the kernel, which had no memory left for it",
        "Killed process",
    ),
    "disk": ("HG-105", (1,), "waits for a disk or file system that does not answer", "state D"),
}
