"""Reads logs in bounded memory: files, directories, pipes, gzip, UTF-16, colours, lines that do not end."""

from __future__ import annotations

import codecs
import itertools
import os
import re
import select
import stat
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fullmesh.explain.records import Records
from fullmesh.hang import recorder
from fullmesh.hang.plain_pickle import MOST_BYTES

CHUNK = 1 << 16
LONGEST_LINE = 1 << 16  # a longer one is searched in pieces
CONTEXT = 4096  # characters of the text before that a pattern may look back to
AHEAD = 1024  # characters of a cut line that stay visible behind the cut
MOST_FILES = 4096
PEEKED = 256  # bytes; a record has its marks in them
OPENINGS = (b"{", b"\x80")
GZIP = b"\x1f\x8b"
BOMS = ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
# CSI, OSC and two-character escapes; colour codes stand in the middle of messages
ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]{0,256}(?:\x07|\x1b\\)|[@-Z\\-_])")


class Late(Exception):  # noqa: N818 (not an error: what was read counts)
    """The deadline passed while reading."""


@dataclass(frozen=True)
class Block:
    """A piece of a log.

    Attributes:
        text: the piece with some text before and behind it.
        start: where the new text begins.
        stop: where it ends; what is behind comes again in the next block.
        line: number of the line at *start*.
    """

    text: str
    start: int
    stop: int
    line: int


@dataclass
class Log:
    """A log that is being read.

    Attributes:
        name: as the user wrote it.
        size: bytes read so far.
        note: why it was not read to its end.
    """

    name: str
    size: int = 0
    note: str = ""


def expand(names: list[str], base: Path) -> list[tuple[str, Path | None]]:
    """Files by name; a directory (torchrun --log-dir) stands for every file below it, ``-`` for stdin (None)."""
    found: list[tuple[str, Path | None]] = []
    for name in names:
        path = base / name
        if name == "-":
            found.append(("stdin", None))
        elif os.path.isdir(path):  # says no where Path raises
            inside = sorted(p for p in path.rglob("*") if p.is_file())
            found += [(os.path.join(name, p.relative_to(path)), p) for p in inside]
        else:
            found.append((name, path))
    return found[:MOST_FILES]


def raw(log: Log, path: Path | None, deadline: float) -> Iterator[bytes]:
    """The bytes of a file or of stdin, never waiting beyond the deadline."""
    # O_NONBLOCK: opening a fifo that nobody writes to would wait for ever
    opened = None if path is None else os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    source = 0 if opened is None else opened
    try:
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not _ready(source, left):
                raise Late
            try:
                chunk = os.read(source, CHUNK)
            except BlockingIOError:
                continue
            if not chunk:
                return
            log.size += len(chunk)
            yield chunk
    finally:
        if opened is not None:
            os.close(opened)


def _ready(source: int, seconds: float) -> bool:
    if stat.S_ISREG(os.fstat(source).st_mode):
        return True
    return bool(select.select([source], [], [], seconds)[0])


def unpacked(chunks: Iterator[bytes], log: Log) -> Iterator[bytes]:
    """The same bytes, unpacked when they are gzip; a truncated archive gives what it has."""
    first = next(chunks, b"")
    if not first.startswith(GZIP):
        yield first
        yield from chunks
        return
    engine = zlib.decompressobj(wbits=31)
    pending = first
    try:
        while pending:
            data = engine.decompress(pending, CHUNK)
            yield data
            pending = engine.unconsumed_tail
            if engine.eof and engine.unused_data.startswith(GZIP):
                pending, engine = engine.unused_data, zlib.decompressobj(wbits=31)
            elif not pending and not engine.eof:
                pending = next(chunks, b"")
                if not pending:
                    log.note = "the gzip file is truncated"
    except zlib.error as exc:
        log.note = f"the gzip file is damaged ({exc})"


def decoded(chunks: Iterator[bytes]) -> Iterator[str]:
    """Text, whatever the bytes: what is no UTF-8 becomes a replacement character, UTF-16 is known by its mark."""
    first = next(chunks, b"")
    encoding = next((name for bom, name in BOMS if first.startswith(bom)), "utf-8")
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    yield decoder.decode(first)
    for chunk in chunks:
        yield decoder.decode(chunk)
    yield decoder.decode(b"", final=True)


def tidy(text: str) -> str:
    """Without colours and Windows' line ends; a progress bar's carriage return ends a line of its own."""
    if "\x1b" in text:
        text = ANSI.sub("", text)
    return text.replace("\r\n", "\n") if "\r" in text else text


def blocks(texts: Iterator[str]) -> Iterator[Block]:
    """Cut text into blocks of whole lines, or of pieces of a line that does not end."""
    before, pending, line = "", "", 1
    for text in texts:
        pending += text
        cut = pending.rfind("\n") + 1
        if not cut and len(pending) < LONGEST_LINE:
            continue
        stop = cut or len(pending) - AHEAD
        new, ahead = tidy(pending[:stop]), "" if cut else tidy(pending[stop:])
        yield Block(before + new + ahead, len(before), len(before) + len(new), line)
        line += new.count("\n")
        before, pending = (before + new)[-CONTEXT:], pending[stop:]
    if pending:
        new = tidy(pending)
        yield Block(before + new, len(before), len(before) + len(new), line)


def peeked(
    chunks: Iterator[bytes], may_be: Callable[[bytes], bool]
) -> tuple[bool, Iterator[bytes]]:
    """Whether the beginning is of a kind, and everything, the beginning included."""
    first = b""
    for chunk in chunks:
        first += chunk
        if len(first) >= PEEKED or first[:1] not in OPENINGS:  # a line of a log is not waited for
            break
    return may_be(first), itertools.chain([first], chunks)


def whole(chunks: Iterator[bytes], most: int) -> bytes:
    """All bytes, or a few more than *most*."""
    found = bytearray()
    for chunk in chunks:
        found += chunk
        if len(found) > most:
            break
    return bytes(found)


def read(
    log: Log, path: Path | None, deadline: float, records: Records | None = None
) -> Iterator[Block]:
    """The blocks of one log; ends early with a note when the deadline passes. A record goes to *records*.

    Raises:
        OSError: it cannot be opened or read.
        RefusedError: it begins as a rank's record, and is none that may be read.
    """
    try:
        chunks = unpacked(raw(log, path, deadline), log)
        is_record, chunks = peeked(chunks, recorder.looks_like_one)
        if records is not None and is_record:
            log.note = records.take(log.name, whole(chunks, MOST_BYTES))
            return
        yield from blocks(decoded(chunks))
    except Late:
        log.note = "the deadline passed before its end"
    else:
        log.note = log.note or ("" if log.size else "it is empty")
