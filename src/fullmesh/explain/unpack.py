"""Unpack gzip, bzip2, xz and zstd as streams, and list the files of a zip archive, in bounded memory and time."""

from __future__ import annotations

import bz2
import importlib
import lzma
import math
import struct
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

CHUNK = 1 << 16
MOST_UNPACKED = 1 << 34  # bytes of one file (the deadline stops most zip bombs earlier)
MOST_MEMORY = 256 << 20  # bytes that an xz file may ask for
MOST_DIRECTORY = 64 << 20  # bytes of a zip archive's list of files
END_RECORD = b"PK\x05\x06"
ZIP = b"PK\x03\x04"
GZIP = b"\x1f\x8b"
# formats that Python cannot unpack -> a command that can
FOREIGN = {
    b"\x04\x22\x4d\x18": ("lz4", "lz4 -d"),
    b"7z\xbc\xaf\x27\x1c": ("7z", "7z x"),
    b"Rar!": ("rar", "unrar x"),
    b"\x1f\x9d": ("compress (.Z)", "uncompress"),
    ZIP: ("zip", "unzip"),
}


class DeadlineError(Exception):
    """The deadline passed while reading. The text that was read still counts."""


class UnreadableLogError(ValueError):
    """A log that cannot be read, with the code to report."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Decompressor(Protocol):
    """The common interface of Python's decompressors."""

    @property
    def eof(self) -> bool:
        """Return whether the stream ended."""

    @property
    def needs_input(self) -> bool:
        """Return whether it needs more input."""

    @property
    def unused_data(self) -> bytes:
        """The data after the stream's end."""

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        """Take input and return at most *max_length* bytes."""


class GzipDecompressor:
    """zlib's decompressor with the interface of the others."""

    def __init__(self) -> None:
        self._engine = zlib.decompressobj(wbits=31)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        """Return whether the member ended."""
        return self._engine.eof

    @property
    def unused_data(self) -> bytes:
        """The data after its end."""
        return self._engine.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        """Take input and return at most *max_length* bytes."""
        out = self._engine.decompress(self._engine.unconsumed_tail + data, max_length)
        self.needs_input = len(out) < max_length and not self._engine.unconsumed_tail
        return out


def _make_zstd_decompressor() -> Decompressor:
    try:
        zstd = importlib.import_module("compression.zstd")  # Python 3.14 and newer
    except ImportError:
        raise UnreadableLogError(
            "CL-122",
            "it is packed with zstd, which Python before 3.14 cannot unpack. Fix: zstd -d FILE.",
        ) from None
    most = {zstd.DecompressionParameter.window_log_max: 27}
    engine: Decompressor = zstd.ZstdDecompressor(options=most)
    return engine


ENGINES: dict[bytes, tuple[str, Callable[[], Decompressor]]] = {
    GZIP: ("gzip", GzipDecompressor),
    b"BZh": ("bzip2", bz2.BZ2Decompressor),
    b"\xfd7zXZ\x00": ("xz", lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MOST_MEMORY)),
    b"\x28\xb5\x2f\xfd": ("zstd", _make_zstd_decompressor),
}
LONGEST_MAGIC = max(map(len, (*ENGINES, *FOREIGN)))


def read_stream_start(chunks: Iterator[bytes], data: bytes = b"") -> bytes:
    """Read the beginning of a stream, long enough to recognize its format."""
    while len(data) < LONGEST_MAGIC:
        chunk = next(chunks, b"")
        if not chunk:
            break
        data += chunk
        if not any(magic.startswith(data[: len(magic)]) for magic in (*ENGINES, *FOREIGN)):
            break
    return data


def unpack_stream(
    chunks: Iterator[bytes], note: Callable[[str], None], deadline: float = math.inf
) -> Iterator[bytes]:
    """Unpack the bytes if they are packed. A damaged or cut archive yields its readable part, and a *note*.

    Raises:
        UnreadableError: it is packed in a form that Python cannot unpack.
        LateError: the deadline passed.
    """
    first = read_stream_start(chunks)
    for magic, (name, command) in FOREIGN.items():
        if first.startswith(magic):
            raise UnreadableLogError(
                "CL-122",
                f"it is packed ({name}). Fix: unpack it ({command} FILE) and name the directory.",
            )
    magic = next((magic for magic in ENGINES if first.startswith(magic)), b"")
    if not magic:
        yield first
        yield from chunks
        return
    yield from _decompress_stream(chunks, first, magic, note, deadline)


def _decompress_stream(
    chunks: Iterator[bytes],
    data: bytes,
    magic: bytes,
    note: Callable[[str], None],
    deadline: float,
) -> Iterator[bytes]:
    name, make = ENGINES[magic]
    engine, total = make(), 0
    while True:
        try:
            out = engine.decompress(data, CHUNK)
        except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError) as exc:
            if "emory" in str(exc):
                reason = f"its {name} data needs more than {MOST_MEMORY >> 20} MiB to unpack"
                raise UnreadableLogError("CL-122", f"{reason}. Fix: unpack it yourself.") from None
            note(f"the {name} file is damaged ({exc})")
            return
        data, total = b"", total + len(out)
        yield out
        if total > MOST_UNPACKED:
            note(f"only its first {MOST_UNPACKED >> 20} MiB were unpacked")
            return
        if time.monotonic() > deadline:
            raise DeadlineError
        if engine.eof:
            # several consecutive streams are one file, and xz pads with zeros
            data = read_stream_start(chunks, engine.unused_data.lstrip(b"\0"))
            if not data.startswith(magic):
                return
            engine = make()
        elif engine.needs_input:
            data = next(chunks, b"")
            if not data:
                note(f"the {name} file is truncated")
                return


@dataclass(frozen=True)
class ZipMember:
    """A file inside a zip archive."""

    archive: zipfile.ZipFile
    info: zipfile.ZipInfo

    def chunks(self, deadline: float) -> Iterator[bytes]:
        """Yield its bytes.

        Raises:
            UnreadableError: it is encrypted, or uses a different packing method than deflate.
            LateError: the deadline passed.
        """
        if self.info.flag_bits & 1:
            raise UnreadableLogError("CL-122", "it is encrypted. Fix: unpack it (unzip ARCHIVE).")
        if self.info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise UnreadableLogError(
                "CL-122", "its packing method is not deflate. Fix: unpack it (unzip ARCHIVE)."
            )
        total = 0
        with self.archive.open(self.info) as opened:
            while chunk := opened.read(CHUNK):
                total += len(chunk)
                if total > MOST_UNPACKED:
                    raise UnreadableLogError(
                        "CL-122",
                        f"only its first {MOST_UNPACKED >> 20} MiB were read. Fix: unzip it.",
                    )
                if time.monotonic() > deadline:
                    raise DeadlineError
                yield chunk


def list_zip_members(path: Path, most: int) -> list[ZipMember]:
    """List the files of a zip archive, *most* at most. None if the file is not a zip archive.

    Raises:
        UnreadableError: it begins as one and has no list of files that can be read.
    """
    with path.open("rb") as opened:
        if opened.read(len(ZIP)) != ZIP:
            return []
        size = opened.seek(0, 2)
        opened.seek(max(0, size - (1 << 16) - 22))
        tail = opened.read()
    at = tail.rfind(END_RECORD)
    if at == -1 or len(tail) < at + 22:
        raise UnreadableLogError("CL-122", "it is a zip archive that is truncated or damaged")
    if struct.unpack_from("<I", tail, at + 12)[0] > MOST_DIRECTORY:
        raise UnreadableLogError("CL-122", "it is a zip archive of too many files. Fix: unzip it.")
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, NotImplementedError, OSError, ValueError) as exc:
        raise UnreadableLogError("CL-122", f"it is a zip archive that is damaged ({exc})") from None
    infos = [info for info in archive.infolist() if not info.is_dir()]
    return [ZipMember(archive, info) for info in infos[:most]]
