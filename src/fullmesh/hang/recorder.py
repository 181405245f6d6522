"""Read a rank's Flight Recorder record: torch's JSON, torch's dump files, and a collector's answer about a rank."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from fullmesh import contract
from fullmesh.foreign_text import (
    LARGEST_NUMBER,
    ForeignLimitError,
    ForeignTextError,
    parse_decimal,
    parse_foreign_json,
)
from fullmesh.hang import plain_pickle
from fullmesh.hang.plain_pickle import MOST_BYTES, RefusedRecordError
from fullmesh.observed.hang import (
    Frame,
    MainThreadState,
    MissingPart,
    Rank,
    RankGroup,
    RecorderEntry,
)

FORM = "2."  # of records that torch 2.3 to 2.13 write
LONGEST_TEXT = 4096
MOST_VALUES = (
    10_000_000  # values to read from a record, since a pickle may show one list in many places
)
# keys of every entry in all versions of the recorder
NEEDED = ("profiling_name", "state", "input_sizes")
# in the first part of torch's JSON, with entries and without, and of a collector's
MARKS = (b'"collective_seq_id"', b'"pg_config"', b'"taken_ns"')
# torchcomms writes torch's form, but numbers these together with the collectives, and as none that are peer to peer
# (comms/torchcomms/hooks/fr). The numbers of ranks that send then differ from those of the others.
SENDS = re.compile(r"(?:.*:)?(?:send|recv|batch_op_issue)")
NO_NATIVE: MainThreadState = {
    "state": "",
    "wchan": "",
    "syscall": "",
    "fd": -1,
    "target": "",
    "forever": False,
    "functions": [],
}
MOST_RANKS = 1 << 22  # also the largest process id
MOST_GROUPS, MOST_ARRIVALS = 64, 1024  # of those with arrivals
HOST = re.compile(r"[A-Za-z0-9._:-]{1,253}")
LAST_NUMBER = re.compile(r"(\d{1,7})\D*$")


def is_record_start(head: bytes) -> bool:
    """Return whether a file with this start should be a record. `read` checks whether it is valid."""
    if head.startswith(b"{"):
        return any(mark in head for mark in MARKS)
    return head.startswith(plain_pickle.START)


class _ValueReader:
    """Takes typed values out of plain data, up to a limit."""

    def __init__(self) -> None:
        self.left = MOST_VALUES

    def spend(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise RefusedRecordError("HG-172", f"it has more than {MOST_VALUES} values")

    def items(self, value: object, what: str) -> Sequence[Any]:
        if not isinstance(value, list | tuple):
            raise RefusedRecordError("HG-174", f"{what} is not a list")
        self.spend(1 + len(value))
        return value

    def whole(self, value: object, what: str) -> int:
        """Return a whole number. None is 0, and JSON has some numbers as text."""
        if value is None or isinstance(value, str):
            return parse_decimal(value, least=-LARGEST_NUMBER) or 0
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise RefusedRecordError("HG-174", f"{what} is not a number")
        if not abs(value) <= LARGEST_NUMBER:  # NaN and the infinities, too
            raise RefusedRecordError("HG-172", f"{what} has more than 64 bits")
        return int(value)

    def text(self, value: object) -> str:
        return str(value)[:LONGEST_TEXT] if isinstance(value, str | int) else ""

    def sizes(self, value: object) -> list[list[int]]:
        return [
            [self.whole(one, "a size") for one in self.items(shape, "a shape")]
            for shape in self.items(value, "sizes")
        ]

    def texts(self, value: object) -> list[str]:
        return [self.text(one) for one in self.items(value or [], "dtypes")]

    def frames(self, value: object) -> list[Frame]:
        found: list[Frame] = []
        for one in self.items(value or [], "frames"):
            if not isinstance(one, Mapping):
                raise RefusedRecordError("HG-174", "a frame is not a mapping")
            found.append(
                {
                    "file": self.text(one.get("filename")),
                    "line": self.whole(one.get("line"), "line"),
                    "name": self.text(one.get("name")),
                }
            )
        return found

    def entry(self, raw: object) -> RecorderEntry:
        if not isinstance(raw, Mapping) or any(name not in raw for name in NEEDED):
            raise RefusedRecordError("HG-174", f"an entry lacks {' or '.join(NEEDED)}")
        name = [self.text(one) for one in self.items(raw.get("process_group") or [], "the group")]
        p2p = raw.get("is_p2p") is True
        if not p2p and SENDS.fullmatch(self.text(raw["profiling_name"])):
            raise RefusedRecordError(
                "HG-174", "torchcomms counts sends as collectives, so ranks cannot be compared"
            )
        number = raw.get("p2p_seq_id") if p2p else raw.get("collective_seq_id")
        return {
            "record": self.whole(raw.get("record_id"), "record_id"),
            "group": name[0] if name else self.text(raw.get("pg_id")),
            "desc": name[1] if len(name) > 1 else "",
            "number": self.whole(number, "number"),
            "p2p": p2p,
            "kind": self.text(raw["profiling_name"]),
            "in_sizes": self.sizes(raw["input_sizes"]),
            "in_dtypes": self.texts(raw.get("input_dtypes")),
            "out_sizes": self.sizes(raw.get("output_sizes") or []),
            "out_dtypes": self.texts(raw.get("output_dtypes")),
            "state": self.text(raw["state"]),
            "retired": raw.get("retired") is True,
            "created_ns": self.whole(raw.get("time_created_ns"), "time_created_ns"),
            "started_ns": self.whole(raw.get("time_discovered_started_ns"), "started"),
            "completed_ns": self.whole(raw.get("time_discovered_completed_ns"), "completed"),
            "frames": self.frames(raw.get("frames")),
        }

    def group(self, raw: object) -> RankGroup | None:
        """Return a process group. Gloo's record has one without a name and ranks."""
        if not isinstance(raw, Mapping) or not raw.get("name"):
            return None
        ranks = self.text(raw.get("ranks"))
        return {
            "name": self.text(raw["name"]),
            "desc": self.text(raw.get("desc")),
            "ranks": [int(one) for one in re.findall(r"\d+", ranks)],
        }


def parse_record(data: object) -> tuple[list[RecorderEntry], list[RankGroup]]:
    """Return the entries of a parsed record in the order of entering, and its groups.

    Raises:
        RefusedError: torch does not write such a record.
    """
    if not isinstance(data, Mapping) or "version" not in data:
        raise RefusedRecordError("HG-174", "it has no version")
    if not str(data["version"]).startswith(FORM):
        raise RefusedRecordError(
            "HG-174", f"its form is {str(data['version'])[:20]!r}, known are {FORM}x"
        )
    taker = _ValueReader()
    entries = [taker.entry(one) for one in taker.items(data.get("entries") or [], "entries")]
    config = data.get("pg_config")
    groups = [taker.group(one) for one in config.values()] if isinstance(config, Mapping) else []
    return sorted(entries, key=lambda one: one["record"]), [one for one in groups if one]


def parse_record_data(data: bytes) -> object:
    """Return the plain data of a file.

    Raises:
        RefusedError: too large, cut off, or more than plain data.
    """
    if len(data) > MOST_BYTES:
        raise RefusedRecordError("HG-172", f"it has more than {MOST_BYTES >> 20} MiB")
    if data.startswith(b"\x80"):
        return plain_pickle.read_plain_pickle(data)
    try:
        return parse_foreign_json(data, most_bytes=MOST_BYTES, most_values=MOST_VALUES)
    except ForeignLimitError as error:
        raise RefusedRecordError("HG-172", str(error)) from None
    except ForeignTextError as error:
        raise RefusedRecordError("HG-173", str(error)) from None


def parse_file_rank(name: str) -> int | None:
    """Return the rank at the end of a file's name, as in torch's dumps: ``nccl_trace_rank_3``, ``rank3.json``."""
    found = LAST_NUMBER.search(PurePath(name).stem)
    return int(found[1]) if found else None


def make_recorded_rank(number: int, entries: list[RecorderEntry], groups: list[RankGroup]) -> Rank:
    """Make a rank from its record alone."""
    why = "there is its record alone"
    world = next((len(one["ranks"]) for one in groups if one["desc"] == "default_pg"), 0)
    missing: list[MissingPart] = [{"what": "stacks", "why": why}, {"what": "native", "why": why}]
    return {
        "rank": number,
        "world": world,
        "host": "",
        "pid": 0,
        "taken_ns": 0,
        "process": "running",
        "exit_code": None,
        "groups": groups,
        "entries": entries,
        "threads": [],
        "native": {**NO_NATIVE},
        "raised": None,
        "missing": missing,
    }


def validate_rank(one: Rank) -> Rank:
    """Validate a rank's answer, so that its numbers are bounded and its host can be part of a command.

    Raises:
        RefusedError: they may not.
    """
    numbers = [one["rank"], one["world"], one["pid"]]
    numbers += [rank for group in one["groups"] for rank in group["ranks"]]
    arrivals = one.get("arrivals", [])
    counts = [
        len(values)
        for part in arrivals
        for values in (part["numbers"], part["gaps_us"], part.get("durations_us", []))
    ]
    if len(arrivals) > MOST_GROUPS or max(counts, default=0) > MOST_ARRIVALS:
        raise RefusedRecordError("HG-172", f"a group has more than {MOST_ARRIVALS} arrivals")
    if not all(0 <= number < MOST_RANKS for number in numbers):
        raise RefusedRecordError("HG-172", f"there are ranks below 0 or above {MOST_RANKS}")
    if one["host"] and not HOST.fullmatch(one["host"]):
        raise RefusedRecordError("HG-174", "its host is not a host name")
    return one


def read_rank_file(data: bytes, number: int) -> Rank:
    """Read the file of one rank. *number*: its rank, if the file does not have it.

    Raises:
        RefusedError: neither torch nor Fullmesh's collector wrote it.
    """
    found = parse_record_data(data)
    if isinstance(found, Mapping) and "threads" in found:
        try:
            return validate_rank(contract.convert_value(Rank, found))
        except contract.ContractError as error:
            raise RefusedRecordError("HG-174", str(error)) from None
    return validate_rank(make_recorded_rank(number, *parse_record(found)))
