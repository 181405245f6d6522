"""Read logs in bounded memory: files, directories, pipes, archives, UTF-16, colours, lines that do not end."""

from __future__ import annotations

import codecs
import itertools
import json
import math
import os
import re
import select
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fullmesh.explain.unpack import (
    DeadlineError,
    UnreadableLogError,
    ZipMember,
    list_zip_members,
    unpack_stream,
)
from fullmesh.hang.plain_pickle import MOST_BYTES

CHUNK = 1 << 16
LONGEST_LINE = 1 << 16  # a longer one is searched in pieces
CONTEXT = 4096  # earlier characters that a pattern may match
AHEAD = 1024  # characters of a cut line that stay visible after the cut
MOST_FILES = 4096
BUNDLE_CONTENTS = "contents.json"  # of a support bundle, whose other members are no logs
WINDOW = 3000  # characters of a line on either side of a needle that a regex sees
PEEKED = 256  # bytes; a record has its marks in them
OPENINGS = (b"{", b"\x80")
BOMS = ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
# CSI, OSC and two-character escapes (colour codes can be inside messages)
ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]{0,256}(?:\x07|\x1b\\)|[@-Z\\-_])")


# journalctl -o json writes a message with colours as an array of bytes
BYTE_ARRAY = re.compile(r'"MESSAGE"\s*:\s*\[([\d,\s]{0,400000})\]')
# a container runtime (CRI) splits long lines: P marks a piece that continues on the next line, F the last one
CRI_PIECE = re.compile(r"\S{20,40} (stdout|stderr) ([PF])(?::\S*)? ")
CRI_MARKS = (" stdout P", " stderr P")
MOST_JOINED = 1 << 18  # characters of a joined line
# control characters that text may have. NUL is not counted, because logs have holes
NOT_TEXT = bytes({*range(1, 32), 127} - set(b"\t\n\r\x07\x08\x0b\x0c\x1b"))
WEIGHED = 1 << 20  # bytes of a log that show whether it is text
MOST_CONTROLS = 0.03  # share of a text's bytes (random bytes have 0.09)
SAMPLE, LEAST_SAMPLE = 4096, 8  # bytes that show UTF-16 without a mark

Source = Path | ZipMember | UnreadableLogError | None


@dataclass(frozen=True)
class Block:
    """A piece of a log.

    Attributes:
        text: the piece with some text before and behind it.
        start: the position at which the new text begins.
        stop: the position at which it ends. The next block repeats the text after it.
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
        note: a remark, mostly the reason why it was not read to its end.
        is_complete: whether it was read to its end.
        controls, weighed: control characters among the bytes at its beginning, and the number of those.
    """

    name: str
    size: int = 0
    note: str = ""
    is_complete: bool = True
    controls: int = 0
    weighed: int = 0

    def cut_short(self, note: str) -> None:
        """Note the reason why it was not read to its end."""
        self.note, self.is_complete = note, False

    def weigh(self, chunk: bytes) -> None:
        """Count characters that do not occur in text."""
        letters = len(chunk) - chunk.count(0)
        self.weighed += letters
        self.controls += len(chunk) - len(chunk.translate(None, NOT_TEXT))

    @property
    def is_text(self) -> bool:
        """Return whether its beginning looks like text."""
        return not self.size or bool(self.weighed and self.controls <= MOST_CONTROLS * self.weighed)


def list_log_sources(names: list[str], base: Path) -> list[tuple[str, Source]]:
    """List files by name. A directory (torchrun --log-dir) or zip archive means its files, ``-`` stdin (None)."""
    found: list[tuple[str, Source]] = []
    for name in names:
        path = base / name
        if name == "-":
            found.append(("stdin", None))
        elif os.path.isdir(path):  # returns False if Path raises
            inside = sorted(p for p in path.rglob("*") if p.is_file())
            for file in inside[:MOST_FILES]:
                found += _list_log_members(os.path.join(name, file.relative_to(path)), file)
            if not inside:
                found.append((name, UnreadableLogError("CL-110", "the directory has no files")))
        else:
            found += _list_log_members(name, path)
    return found[:MOST_FILES]


def _list_log_members(name: str, path: Path) -> list[tuple[str, Source]]:
    """Return a file, or the files of a zip archive."""
    try:
        inside = list_zip_members(path, MOST_FILES) if path.is_file() else []
    except UnreadableLogError as exc:
        return [(name, exc)]
    except (OSError, ValueError):
        inside = []  # opening it again reports the reason
    if any(one.info.filename == BUNDLE_CONTENTS for one in inside):  # a support bundle
        inside = [one for one in inside if one.info.filename.endswith(".log")]
    return [(f"{name}/{one.info.filename}", one) for one in inside] or [(name, path)]


def read_raw_bytes(log: Log, path: Path | None, deadline: float) -> Iterator[bytes]:
    """Yield the bytes of a file or of stdin, and never wait beyond the deadline."""
    # O_NONBLOCK: opening a fifo without a writer would wait forever
    opened = None if path is None else os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    source = 0 if opened is None else opened
    try:
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not _wait_for_input(source, left):
                raise DeadlineError
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


def _wait_for_input(source: int, seconds: float) -> bool:
    if stat.S_ISREG(os.fstat(source).st_mode):
        return True
    return bool(select.select([source], [], [], seconds)[0])


def read_log_bytes(log: Log, source: Source, deadline: float) -> Iterator[bytes]:
    """Yield the unpacked bytes of a log."""
    if isinstance(source, UnreadableLogError):
        raise source
    if isinstance(source, ZipMember):
        return unpack_log(_count_bytes(source.chunks(deadline), log), log, deadline)
    return unpack_log(read_raw_bytes(log, source, deadline), log, deadline)


def _count_bytes(chunks: Iterator[bytes], log: Log) -> Iterator[bytes]:
    for chunk in chunks:
        log.size += len(chunk)
        yield chunk


def unpack_log(chunks: Iterator[bytes], log: Log, deadline: float = math.inf) -> Iterator[bytes]:
    """Unpack the bytes if they are packed. Errors of an archive become notes of the log."""
    return unpack_stream(chunks, log.cut_short, deadline)


def detect_encoding(first: bytes) -> str:
    """Detect UTF-16 by its byte order mark or by zeros in every second byte, else assume UTF-8."""
    named = next((name for bom, name in BOMS if first.startswith(bom)), "")
    sample = first[:SAMPLE]
    if named or len(sample) < LEAST_SAMPLE:
        return named or "utf-8"
    even, odd = (sample[start::2].count(0) / len(sample[start::2]) for start in (0, 1))
    if max(even, odd) > 0.4 and min(even, odd) < 0.05:  # noqa: PLR2004 (a text that is mostly Latin against none)
        return "utf-16-le" if odd > even else "utf-16-be"
    return "utf-8"


def decode_log(chunks: Iterator[bytes], log: Log | None = None) -> Iterator[str]:
    """Decode to text. Invalid UTF-8 becomes a replacement character. The log counts how much is text."""
    first = next(chunks, b"")
    encoding = detect_encoding(first)
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    for chunk in itertools.chain([first], chunks):
        text = decoder.decode(chunk)
        if log is not None and log.weighed < WEIGHED:
            log.weigh(chunk if encoding == "utf-8" else text.encode("utf-8", "replace"))
        yield text
    yield decoder.decode(b"", final=True)


def normalize_log_text(text: str) -> str:
    """Colours, Windows' line endings and the wrapping of journald and container runtimes are removed.

    A progress bar's carriage return ends a line, too.
    """
    if '"MESSAGE"' in text:
        text = BYTE_ARRAY.sub(_decode_journal_message, text)
    if any(mark in text for mark in CRI_MARKS):
        text = _join_cri_lines(text)
    if "\x1b" in text:
        text = ANSI.sub("", text)
    return text.replace("\r\n", "\n") if "\r" in text else text


def _decode_journal_message(found: re.Match[str]) -> str:
    """Convert a journald message from an array of bytes to a string, with the same number of lines."""
    numbers = [int(number) for number in re.findall(r"\d{1,3}", found[1])]
    text = bytes(number & 255 for number in numbers).decode("utf-8", "replace")
    return f'"MESSAGE" : {json.dumps(ANSI.sub("", text), ensure_ascii=False)}' + "\n" * found[
        0
    ].count("\n")


def _join_cri_lines(text: str) -> str:
    """Join the pieces of cut lines. The number of lines stays the same."""
    lines: list[str] = []
    is_open, size, missing = "", 0, 0
    for line in text.split("\n"):
        piece = CRI_PIECE.match(line)
        if piece and piece[1] == is_open and size < MOST_JOINED:
            lines[-1] += line[piece.end() :]
            size, missing = size + len(line), missing + 1
        else:
            lines += [""] * missing
            lines.append(line)
            size, missing = len(line), 0
        is_open = piece[1] if piece and piece[2] == "P" else ""
    return "\n".join([*lines[:-1], *[""] * missing, *lines[-1:]] if missing else lines)


def find_complete_length(text: str) -> int:
    """Return the length of a text without an incomplete last line and without pieces that continue after it."""
    cut = text.rfind("\n") + 1
    while cut and len(text) < MOST_JOINED:
        start = text.rfind("\n", 0, cut - 1) + 1
        piece = (
            CRI_PIECE.match(text, start)
            if text.startswith(CRI_MARKS, text.find(" ", start))
            else None
        )
        if piece is None or piece[2] != "P":
            break
        cut = start
    return cut


def split_blocks(texts: Iterator[str]) -> Iterator[Block]:
    """Cut text into blocks of whole lines, or of pieces of a line that does not end."""
    before, pending, line = "", "", 1
    late: list[DeadlineError] = []
    for text in _read_until_deadline(texts, late):
        pending += text
        cut = find_complete_length(pending)
        if not cut and len(pending) < LONGEST_LINE:
            continue
        stop = cut or len(pending) - AHEAD
        new, ahead = (
            normalize_log_text(pending[:stop]),
            "" if cut else normalize_log_text(pending[stop:]),
        )
        yield Block(before + new + ahead, len(before), len(before) + len(new), line)
        line += new.count("\n")
        before, pending = (before + new)[-CONTEXT:], pending[stop:]
    if pending:
        new = normalize_log_text(pending)
        yield Block(before + new, len(before), len(before) + len(new), line)
    if late:
        raise late[0]


def _read_until_deadline(texts: Iterator[str], late: list[DeadlineError]) -> Iterator[str]:
    """Yield the texts until the deadline passes. Earlier texts still count."""
    try:
        yield from texts
    except DeadlineError as exc:
        late.append(exc)


def find_line_bounds(text: str, at: int, before: int) -> tuple[int, int]:
    """Return the bounds of the line at a position, with whole lines before it, at most WINDOW on each side."""
    low, high = max(0, at - WINDOW), min(len(text), at + WINDOW)
    start = max(text.rfind("\n", low, at), text.rfind("\r", low, at)) + 1 or low
    for _ in range(before):
        start = (text.rfind("\n", low, start - 1) + 1 or low) if start > low else low
    ends = [end for end in (text.find("\n", at, high), text.find("\r", at, high)) if end != -1]
    return start, min(ends, default=high)


def is_record_start(first: bytes) -> bool:
    """Return whether a log begins as a rank's record."""
    if first[:1] not in OPENINGS:
        return False
    from fullmesh.hang import recorder  # noqa: PLC0415 (slow to import, and rarely needed)

    return recorder.is_record_start(first)


def peek_log_start(chunks: Iterator[bytes]) -> tuple[bool, Iterator[bytes]]:
    """Return whether a log begins as a rank's record, and all its bytes, including the beginning."""
    first = b""
    for chunk in chunks:
        first += chunk
        if len(first) >= PEEKED or first[:1] not in OPENINGS:  # do not wait for a line of a log
            break
    return is_record_start(first), itertools.chain([first], chunks)


def read_bounded_bytes(chunks: Iterator[bytes], most: int) -> bytes:
    """Return all bytes, or a few more than *most*."""
    found = bytearray()
    for chunk in chunks:
        found += chunk
        if len(found) > most:
            break
    return bytes(found)


def read_log_blocks(
    log: Log,
    source: Source,
    deadline: float,
    take_record: Callable[[str, bytes], str] | None = None,
) -> Iterator[Block]:
    """Yield the blocks of one log. After the deadline, stop with a note. Pass records to *take_record*.

    Raises:
        OSError: it cannot be opened or read.
        UnreadableError: it is packed in a form that cannot be unpacked, or it is not text.
        RefusedError: it begins as a rank's record, and is none that may be read.
    """
    try:
        is_record, chunks = peek_log_start(read_log_bytes(log, source, deadline))
        if take_record is not None and is_record:
            log.note = take_record(log.name, read_bounded_bytes(chunks, MOST_BYTES))
            return
        yield from split_blocks(decode_log(chunks, log))
    except DeadlineError:
        log.cut_short("the deadline passed before its end")
    else:
        log.note = log.note or ("" if log.size else "it is empty")
        if log.is_complete and not log.is_text:
            raise UnreadableLogError("CL-123", "it is not text")
