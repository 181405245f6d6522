"""Reads pickles of plain data, and nothing else: the dump files that torch's C++ writes.

This does not restrict the module pickle: a pickle can request a class, or a memo of four billion places, and this
reader has no code for either. It may contain only dicts, lists, tuples, texts, numbers, booleans and None.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

MOST_BYTES = 1 << 26  # 2000 entries with their stacks are 4 MiB
MOST_STEPS = 20_000_000
LONGEST_NUMBER = 16  # bytes
START = b"\x80\x02"  # protocol 2, the only one that torch writes

Plain = None | bool | int | float | str | list["Plain"] | tuple["Plain", ...] | dict[str, "Plain"]


class RefusedRecordError(ValueError):
    """The data is not a record.

    Attributes:
        code: ``HG-171``.
    """

    def __init__(self, code: str, text: str) -> None:
        self.code = code
        super().__init__(text)


def make_foreign_pickle_error(what: str, at: int) -> RefusedRecordError:
    """Something that plain data does not need."""
    text = "torch writes only plain data. This file could run foreign code, so it was not unpickled"
    return RefusedRecordError("HG-171", f"{what} at byte {at}, where {text}")


def make_damaged_pickle_error(at: int) -> RefusedRecordError:
    """Return the error for a truncated pickle."""
    return RefusedRecordError("HG-173", f"it is cut off or damaged at byte {at}")


class _PickleReader:
    """An interpreter of pickles that supports only a part of the instructions."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, len(START)
        self.stack: list[Plain] = []
        self.marks: list[int] = []
        self.memo: dict[int, Plain] = {}

    def take(self, count: int) -> bytes:
        piece = self.data[self.at : self.at + count]
        if len(piece) < count:
            raise make_damaged_pickle_error(self.at)
        self.at += count
        return piece

    def number(self, form: str, size: int) -> int:
        return int(struct.unpack(form, self.take(size))[0])

    def text(self) -> None:
        raw = self.take(self.number("<I", 4))
        self.stack.append(raw.decode("utf-8", "replace"))

    def long(self) -> None:
        size = self.number("<B", 1)
        if size > LONGEST_NUMBER:
            raise RefusedRecordError("HG-172", f"byte {self.at}: a number of {size} bytes")
        self.stack.append(int.from_bytes(self.take(size), "little", signed=True))

    def since_mark(self) -> list[Plain]:
        if not self.marks:
            raise make_damaged_pickle_error(self.at)
        start = self.marks.pop()
        found = self.stack[start:]
        del self.stack[start:]
        return found

    def last(self, count: int) -> list[Plain]:
        if len(self.stack) - (self.marks[-1] if self.marks else 0) < count:
            raise make_damaged_pickle_error(self.at)
        found = self.stack[-count:]
        del self.stack[-count:]
        return found

    def append(self, found: list[Plain]) -> None:
        target = self.stack[-1] if self.stack else None
        if not isinstance(target, list):
            raise make_damaged_pickle_error(self.at)
        target.extend(found)

    def put_items(self, found: list[Plain]) -> None:
        target = self.stack[-1] if self.stack else None
        if not isinstance(target, dict) or len(found) % 2:
            raise make_damaged_pickle_error(self.at)
        for key, value in zip(found[::2], found[1::2], strict=True):
            if not isinstance(key, str):
                raise make_foreign_pickle_error(f"a key of kind {type(key).__name__}", self.at)
            target[key] = value

    def keep(self, place: int) -> None:
        if not self.stack:
            raise make_damaged_pickle_error(self.at)
        self.memo[place] = self.stack[-1]

    def fetch(self, place: int) -> None:
        if place not in self.memo:
            raise make_damaged_pickle_error(self.at)
        self.stack.append(self.memo[place])

    def tuple(self, found: list[Plain]) -> None:
        self.stack.append(tuple(found))

    def broken(self) -> None:
        self.stack.append(float(struct.unpack(">d", self.take(8))[0]))


def _build_opcode_table() -> dict[int, Callable[[_PickleReader], None]]:
    table: dict[bytes, Callable[[_PickleReader], None]] = {
        b"h": lambda r: r.fetch(r.number("<B", 1)),
        b"j": lambda r: r.fetch(r.number("<I", 4)),
        b"q": lambda r: r.keep(r.number("<B", 1)),
        b"r": lambda r: r.keep(r.number("<I", 4)),
        b"X": _PickleReader.text,
        b"K": lambda r: r.stack.append(r.number("<B", 1)),
        b"M": lambda r: r.stack.append(r.number("<H", 2)),
        b"J": lambda r: r.stack.append(r.number("<i", 4)),
        b"\x8a": _PickleReader.long,
        b"G": _PickleReader.broken,
        b"N": lambda r: r.stack.append(None),
        b"\x88": lambda r: r.stack.append(True),
        b"\x89": lambda r: r.stack.append(False),
        b"(": lambda r: r.marks.append(len(r.stack)),
        b"]": lambda r: r.stack.append([]),
        b"}": lambda r: r.stack.append({}),
        b")": lambda r: r.stack.append(()),
        b"e": lambda r: r.append(r.since_mark()),
        b"a": lambda r: r.append(r.last(1)),
        b"u": lambda r: r.put_items(r.since_mark()),
        b"s": lambda r: r.put_items(r.last(2)),
        b"t": lambda r: r.tuple(r.since_mark()),
        b"\x85": lambda r: r.tuple(r.last(1)),
        b"\x86": lambda r: r.tuple(r.last(2)),
        b"\x87": lambda r: r.tuple(r.last(3)),
    }
    return {key[0]: step for key, step in table.items()}


STEPS = _build_opcode_table()
STOP = ord(".")


def read_plain_pickle(data: bytes) -> Plain:
    """Return the data of a pickle.

    Raises:
        RefusedError: it has more than plain data, is too large or is truncated.
    """
    if len(data) > MOST_BYTES:
        raise RefusedRecordError("HG-172", f"it has more than {MOST_BYTES >> 20} MiB")
    if not data.startswith(START):
        raise make_foreign_pickle_error("not protocol 2", 0)
    reader = _PickleReader(data)
    for _ in range(MOST_STEPS):
        if reader.at >= len(data):
            raise make_damaged_pickle_error(reader.at)
        opcode = data[reader.at]
        reader.at += 1
        if opcode == STOP:
            if len(reader.stack) != 1 or reader.marks:
                raise make_damaged_pickle_error(reader.at)
            return reader.stack[0]
        step = STEPS.get(opcode)
        if step is None:
            raise make_foreign_pickle_error(f"instruction {bytes([opcode])!r}", reader.at - 1)
        step(reader)
    raise RefusedRecordError("HG-172", f"it has more than {MOST_STEPS} instructions")
