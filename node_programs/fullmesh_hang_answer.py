# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Query a rank's state (fullmesh_hook.py), and check each field of its answer, since any process can answer there."""

from __future__ import annotations

import heapq
import os
import shutil
import socket
import time
from typing import TYPE_CHECKING, TypedDict

import fullmesh_hang_border as hang_border
import fullmesh_watch_look as watch_look
from fullmesh_foreign_text import parse_decimal, parse_foreign_json
from fullmesh_hang_border import ForeignProcessError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from fullmesh.observed.hang import (
        Frame,
        GroupArrivals,
        PythonThread,
        RankGroup,
        RdmaPortState,
        RecorderEntry,
        UncaughtException,
    )

NAME = "\0fullmesh-hang-"
ANSWER_SECONDS = 2.0
NEWEST = 8  # entries of a group, next to all that have not ended
MOST = 40  # of those
LONGEST_DURATION = 1e9  # milliseconds
ARRIVALS = 256  # of a group: times at which the rank entered a collective
ARRIVAL_GROUPS = 8  # those that were used last
# One rank gives or takes the data, so the others need not wait for each other.
ROOTED = ("broadcast", "broadcast_oop", "reduce", "reduce_oop", "gather", "scatter", "send", "recv")
MOST_RECORDS = 2  # torch has one for NCCL and one for Gloo
LONGEST = 8 << 20  # bytes of an answer: 2,000 entries are about 1.5 MB
MOST_VALUES = 500_000  # of an answer: 2,000 entries have about 60,000
MOST_FRAMES, MOST_THREADS, MOST_GROUPS = 200, 1024, 1 << 16
MOST_RDMA_VALUES = 256  # ports, GIDs of a port, counters of a port
MOST_SHAPES = 4096  # of a collective: a list of tensors
LONGEST_TEXT = 4096
LARGEST = (1 << 63) - 1


class RankAnswer(TypedDict):
    """The header of an answer.

    Without a process group, ``rank`` is -1, ``world`` is 0 and ``why`` has the reason.
    ``torch`` is its version, "" if unknown. ``full_collections`` counts Python's garbage collections of all objects,
    -1 if unknown. ``rdma``: the state of the RDMA ports when the rank started, {} if unknown.
    """

    rank: int
    world: int
    groups: list[RankGroup]
    threads: list[PythonThread]
    raised: UncaughtException | None
    why: str
    torch: str
    full_collections: int
    rdma: dict[str, RdmaPortState]


NOTHING: RankAnswer = {
    "rank": -1,
    "world": 0,
    "groups": [],
    "threads": [],
    "raised": None,
    "why": "",
    "torch": "",
    "full_collections": -1,
    "rdma": {},
}


def read_inner_pid(pid: int) -> int:
    """Return a process's number in its own namespace, which differs in a container (NSpid, proc_pid_status(5))."""
    for line in watch_look.read_proc_bytes(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"NSpid:"):
            return int(line.split()[-1])
    return pid


def receive_answer(connection: socket.socket, end: float) -> Iterator[bytes]:
    """Receive a complete answer.

    Raises:
        OSError: it has not ended in time, even if bytes keep coming.
    """
    while True:
        left = end - time.monotonic()
        connection.settimeout(max(left, 0.001))
        try:
            part = connection.recv(1 << 16) if left > 0 else None
        except socket.timeout:
            part = None
        if part is None:
            raise OSError("its answer did not end in time")
        if not part:
            return
        yield part


def query_process(
    pid: int, share: hang_border.AnswerBudget | None = None
) -> tuple[RankAnswer, bytes]:
    """Return a process's answer: its header, and torch's record.

    Raises:
        OSError: there is no answer in time, or another process answers.
        ValueError: the answer is damaged, too large, or has another form.
    """
    end = time.monotonic() + ANSWER_SECONDS
    raw = bytearray()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ANSWER_SECONDS)
        connection.connect(NAME + str(read_inner_pid(pid)))
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        if int.from_bytes(credentials[:4], "little" if os.uname()[4] != "s390x" else "big") != pid:
            raise OSError("another process has taken its name")
        for part in receive_answer(connection, end):
            raw += part
            if share is not None:
                share.spend(len(part))
            if len(raw) > LONGEST:
                raise ForeignProcessError(f"its answer has more than {LONGEST >> 20} MiB")
    if not raw:
        raise OSError("it does not answer this account")
    head, _, record = bytes(raw).partition(b"\n")
    return read_header(head), record


# --- its form ---------------------------------------------------------------------------------------


def parse_rank_answer(data: bytes | str) -> Any:
    """Return the plain data of an answer.

    Raises:
        ValueError: it is invalid, or larger or deeper than torch's.
    """
    return parse_foreign_json(data, most_bytes=LONGEST, most_values=MOST_VALUES)


def take_mapping(value: object, what: str) -> dict[str, Any]:
    """Return a mapping of an answer."""
    if not isinstance(value, dict):
        raise ForeignProcessError(f"{what} is not a mapping")
    return value


def take_items(value: object, what: str, most: int) -> list[Any]:
    """Return a list of an answer, which has no more than *most* items."""
    if not isinstance(value, list):
        raise ForeignProcessError(f"{what} is not a list")
    if len(value) > most:
        raise ForeignProcessError(f"{what} has {len(value)} items, more than {most}")
    return value


def take_text(value: object, what: str) -> str:
    """Return a text of an answer, cut to its longest."""
    if not isinstance(value, str):
        raise ForeignProcessError(f"{what} is not text")
    return value[:LONGEST_TEXT]


def take_number(value: object, what: str, least: int = 0, most: int = LARGEST) -> int:
    """Return a whole number of an answer."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ForeignProcessError(f"{what} is not a number")
    if not least <= value <= most:
        raise ForeignProcessError(f"{what} is {value}, not {least} to {most}")
    return value


def read_frames(value: object) -> list[Frame]:
    """Return the calls of a stack."""
    found: list[Frame] = []
    for one in take_items(value, "a stack", MOST_FRAMES):
        raw = take_mapping(one, "a call")
        found.append(
            {
                "file": take_text(raw.get("file"), "the file of a call"),
                "line": take_number(raw.get("line") or 0, "the line of a call", -1),
                "name": take_text(raw.get("name"), "the name of a call"),
            }
        )
    return found


def read_threads(value: object) -> list[PythonThread]:
    """Return the threads of a process."""
    found: list[PythonThread] = []
    for one in take_items(value, "threads", MOST_THREADS):
        raw = take_mapping(one, "a thread")
        name = take_text(raw.get("name"), "the name of a thread")
        found.append({"name": name, "frames": read_frames(raw.get("frames"))})
    return found


def read_groups(value: object) -> list[RankGroup]:
    """Return the process groups of a rank."""
    found: list[RankGroup] = []
    for one in take_items(value, "groups", MOST_GROUPS):
        raw = take_mapping(one, "a group")
        numbers = take_items(raw.get("ranks"), "the ranks of a group", hang_border.MOST_RANKS)
        found.append(
            {
                "name": take_text(raw.get("name"), "the name of a group"),
                "desc": take_text(raw.get("desc"), "the description of a group"),
                "ranks": [
                    take_number(n, "a rank of a group", 0, hang_border.MOST_RANKS) for n in numbers
                ],
            }
        )
    return found


def read_raised(value: object) -> UncaughtException | None:
    """Return the exception that ended a rank's program."""
    if value is None:
        return None
    raw = take_mapping(value, "the exception")
    text = take_text(raw.get("text"), "the text of the exception")
    return {"text": text, "frames": read_frames(raw.get("frames"))}


def take_entries(value: object, what: str) -> dict[str, Any]:
    """Return a mapping of an answer with a limited number of texts as keys."""
    raw = take_mapping(value, what)
    names = take_items(list(raw), what, MOST_RDMA_VALUES)
    return {take_text(name, f"a name of {what}"): raw[name] for name in names}


def read_rdma_start(value: object) -> dict[str, RdmaPortState]:
    """Return the state of the RDMA ports when the rank started."""
    found: dict[str, RdmaPortState] = {}
    for name, one in take_entries(value, "its RDMA ports").items():
        port = take_mapping(one, "an RDMA port")
        gids = take_entries(port.get("gids"), "its GIDs")
        errors = take_entries(port.get("errors"), "its RDMA counters")
        found[name] = {
            "gids": {index: take_text(gid, "a GID") for index, gid in gids.items()},
            "errors": {key: take_number(count, "a counter") for key, count in errors.items()},
        }
    return found


def read_header(data: bytes) -> RankAnswer:
    """Return the header of an answer.

    Raises:
        ValueError: it is cut off or too large, or a field has another form.
    """
    raw = take_mapping(parse_rank_answer(data), "its answer")
    return {
        "rank": take_number(raw.get("rank", -1), "its rank", -1, hang_border.MOST_RANKS),
        "world": take_number(raw.get("world", 0), "its world size", 0, hang_border.MOST_RANKS),
        "groups": read_groups(raw.get("groups", [])),
        "threads": read_threads(raw.get("threads", [])),
        "raised": read_raised(raw.get("raised")),
        "why": take_text(raw.get("why"), "its reason"),
        # a job that was started with an older hook does not have it
        "torch": take_text(raw.get("torch", ""), "torch's version"),
        "full_collections": take_number(
            raw.get("full_collections", -1), "its garbage collections", -1
        ),
        "rdma": read_rdma_start(raw.get("rdma", {})),
    }


# --- torch's record ---------------------------------------------------------------------------------


def read_count(value: object) -> int:
    """Return a whole number of torch's record, in which some are texts and some are missing."""
    if isinstance(value, str):
        return parse_decimal(value, LARGEST, -LARGEST) or 0
    whole = isinstance(value, int) and not isinstance(value, bool)
    return take_number(value, "a number of an entry", -LARGEST) if whole else 0


def read_sizes(value: object) -> list[list[int]]:
    """Return the shapes of an entry's tensors."""
    return [
        [take_number(one, "a size", -LARGEST) for one in take_items(shape, "a shape", MOST_SHAPES)]
        for shape in take_items(value or [], "the sizes", MOST_SHAPES)
    ]


def read_dtypes(value: object) -> list[str]:
    """Return the types of an entry's tensors."""
    return [take_text(one, "a type") for one in take_items(value or [], "the types", MOST_SHAPES)]


def read_entry(value: object) -> RecorderEntry:
    """Return one entry of torch's record."""
    raw = take_mapping(value, "an entry")
    group = raw.get("process_group") or [str(raw.get("pg_id", "")), ""]
    name, desc, *_ = [*take_items(group, "the group of an entry", MOST), "", ""]
    p2p = raw.get("is_p2p") is True
    entry: RecorderEntry = {
        "record": read_count(raw.get("record_id")),
        "group": str(name)[:LONGEST_TEXT],
        "desc": str(desc)[:LONGEST_TEXT],
        "number": read_count(raw.get("p2p_seq_id" if p2p else "collective_seq_id")),
        "p2p": p2p,
        "kind": str(raw.get("profiling_name", ""))[:LONGEST_TEXT],
        "in_sizes": read_sizes(raw.get("input_sizes")),
        "in_dtypes": read_dtypes(raw.get("input_dtypes")),
        "out_sizes": read_sizes(raw.get("output_sizes")),
        "out_dtypes": read_dtypes(raw.get("output_dtypes")),
        "state": str(raw.get("state", ""))[:LONGEST_TEXT],
        "retired": raw.get("retired") is True,
        "created_ns": read_count(raw.get("time_created_ns")),
        "started_ns": read_count(raw.get("time_discovered_started_ns")),
        "completed_ns": read_count(raw.get("time_discovered_completed_ns")),
        "frames": [],
    }
    duration = raw.get("duration_ms")
    if isinstance(duration, (int, float)) and 0 <= duration <= LONGEST_DURATION:
        entry["duration_us"] = int(duration * 1000)
    return entry


def choose_entries(entries: list[RecorderEntry]) -> list[RecorderEntry]:
    """Choose the newest entries of every group and all that have not ended. A rank waits in the first of these."""
    kept: dict[int, RecorderEntry] = {}
    count: dict[tuple[str, str], int] = {}
    for one in sorted(entries, key=lambda one: -one["record"]):
        # each backend of a group has numbers of its own
        key = (one["group"], one["kind"].partition(":")[0])
        count[key] = count.get(key, 0) + 1
        if count[key] <= NEWEST:
            kept[one["record"]] = one
    for one in [one for one in entries if not one["retired"]][:MOST]:
        kept[one["record"]] = one
    return [kept[record] for record in sorted(kept)]


def list_arrivals(entries: list[RecorderEntry]) -> list[GroupArrivals]:
    """Return when the rank entered the newest collectives of its groups, for those in which all ranks wait for all."""
    found: dict[tuple[str, str], list[RecorderEntry]] = {}
    for one in reversed(entries):
        backend, _, kind = one["kind"].rpartition(":")
        if one["p2p"] or kind.lstrip("_").split(" ")[0] in ROOTED:
            continue
        if (one["group"], backend) not in found and len(found) == ARRIVAL_GROUPS:
            continue
        found.setdefault((one["group"], backend), []).append(one)
    return [make_arrivals(group, backend, ones) for (group, backend), ones in found.items()]


def make_arrivals(group: str, backend: str, entries: list[RecorderEntry]) -> GroupArrivals:
    """Return the times of a group's newest entries, in few bytes."""
    newest = entries[:ARRIVALS]
    times = [one["created_ns"] // 1000 for one in newest]
    found: GroupArrivals = {
        "group": group,
        "backend": backend,
        "numbers": [one["number"] for one in newest],
        "created_us": times[0],
        "gaps_us": [later - before for later, before in zip(times, times[1:])],
    }
    if any("duration_us" in one for one in newest):
        found["durations_us"] = [one.get("duration_us", -1) for one in newest]
    return found


def read_entries(raw: bytes) -> list[RecorderEntry]:
    """Return the entries of one record, in the order in which the rank entered them.

    Raises:
        ValueError: it is not a record.
    """
    found = take_mapping(parse_rank_answer(raw), "its record")
    entries = take_items(found.get("entries") or [], "the entries of its record", MOST_VALUES)
    return sorted(map(read_entry, entries), key=lambda one: one["record"])


def read_records(raw: bytes) -> tuple[list[RecorderEntry], list[GroupArrivals]]:
    """Parse torch's records, one per line. Return some entries, and the times of more.

    Their numbers follow the order in which the rank entered them, whatever the backend.

    Raises:
        ValueError: a line is not a record, or there are too many.
    """
    lines = take_items(raw.split(b"\n", MOST_RECORDS), "the list of its records", MOST_RECORDS)
    records = [one for one in map(read_entries, lines) if one]
    entries = list(heapq.merge(*records, key=lambda one: one["created_ns"]))
    # a record that is full has lost its first entries
    lost = sum(one[0]["record"] for one in records)
    take_number(lost, "the number of its first entry", 0, LARGEST - len(entries))
    for number, one in enumerate(entries, lost):
        one["record"] = number
    return choose_entries(entries), list_arrivals(entries)


def dump_stacks(pid: int) -> list[PythonThread]:
    """Return Python's stacks from py-spy, none if it is not installed or fails."""
    path = shutil.which("py-spy")
    text = (
        watch_look.capture_command(path, "dump", "--nonblocking", "--json", "--pid", str(pid))
        if path
        else ""
    )
    try:
        return [
            {
                "name": str(one.get("thread_name") or "")[:LONGEST_TEXT],
                "frames": read_frames(
                    [{**call, "file": call["filename"]} for call in one["frames"][:MOST_FRAMES]]
                ),
            }
            for one in take_items(parse_rank_answer(text or "[]"), "its threads", MOST_THREADS)
        ]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []
