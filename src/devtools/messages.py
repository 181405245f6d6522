"""Keep the error messages of released libraries: ``python -m devtools.messages PROGRAM VERSION FILE``.

FILE is a shared library, or a wheel that has one (``pip download --no-deps nvidia-nccl-cu13``). Its format strings are
added to the catalogue with the first and last version that has them. Without arguments, it prints how many messages of
each program have a cause in explain-log. ``--uncovered PROGRAM`` lists those without one.
"""

from __future__ import annotations

import argparse
import lzma
import mmap
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fullmesh.causes.logs import Pattern
from fullmesh.explain.judge import CAUSES, NEEDLES
from fullmesh.model.known_defects import parse_version
from fullmesh.settings import ROOT

CATALOGUE = ROOT / "tests/unit/data/messages.txt.xz"
STRING = re.compile(rb"[\x20-\x7e\n\t]{12,600}(?=\0)")
FAILURE = re.compile(
    r"(?i)fail|error|could not|can ?not|can't|unable|invalid|mismatch|not found|no .{1,30} (?:found|available)|exceed"
    r"|denied|refused|duplicate|truncated|too (?:many|old|large)|not (?:supported|available|working|allowed)|disabled"
    r"|wrong|closed|exhausted|missing|incompatible|timed out|timeout"
)
# checks of a library's own code, and other libraries inside it
INTERNAL = re.compile(
    r"INTERNAL ASSERT|\bNULL\b|nullptr|internal error\?|doca|DOCA|umem|verbs_|_attr\b|\bPTX\b|__torch__"
    r"|\btensors?\b.*\brank\b|demangl|\(`|cubin|^(?:RAS|MemManager|PARAM)\b|nccl(?:Put|Wait|CommGrow)"
    r"|[Ii]nvalid (?:input|pointer|root|key|context|config)"
)
# program -> (the library in a wheel, words that its messages have)
PROGRAMS = {
    "NCCL": ("libnccl.so", re.compile(r"^[A-Z\[%n]")),
    "torch": (
        "libtorch_c",
        re.compile(
            r"(?i)c10d|gloo|tcpstore|\bstore\b|\brank|socket|process ?group|nccl|rendezvous|collective|watchdog"
        ),
    ),
}
# a placeholder of printf -> an example of its value
VALUES = (
    (re.compile(r"%-?\d*(?:\.\d+)?(?:l|ll|z|h)*[diu]"), "5"),
    (re.compile(r"%(?:l|ll|z)*x"), "1a"),
    (re.compile(r"%-?\d*(?:\.\d+)?[fge]"), "1.5"),
    (re.compile(r"%p"), "0x7f00"),
    (re.compile(r"\(\{\}, \{\}\)"), "(node1, 29500)"),
    (re.compile(r"after \{\}"), "after 600000ms"),
    (re.compile(r"(code|errno): ?\{\}"), r"\1: -98"),
)
LEAST = 8  # characters of a needle that make a message recognizable
TEXT = re.compile(r"%-?[\d.*]*s|\{\}")
TEXTS = ("10.0.0.2<4000>", "mlx5_0", "nccl-x", "2.30.7")
REASONS = (
    "Connection refused",
    "Connection timed out",
    "Connection reset by peer",
    "Cannot allocate memory",
    "Operation not permitted",
    "No space left on device",
    "No such file or directory",
    "out of memory",
)


@dataclass(frozen=True)
class LibraryMessage:
    """A format string of a program, and the first and last version in which it was seen."""

    program: str
    first: str
    last: str
    text: str

    @property
    def examples(self) -> list[str]:
        """The message with values: for its texts an address, a device, a file or a version, and at the end a reason."""
        text = f"NCCL WARN {self.text}" if self.program == "NCCL" else self.text
        for placeholder, value in VALUES:
            text = placeholder.sub(value, text)
        places = [found.span() for found in TEXT.finditer(text)]
        if not places:
            return [text]
        start, stop = places[-1]
        return [
            TEXT.sub(value, text[:start]) + last + text[stop:]
            for value in TEXTS
            for last in (value, *REASONS)
        ]


def read_catalogue(path: Path = CATALOGUE) -> list[LibraryMessage]:
    """Read the catalogue."""
    rows = lzma.decompress(path.read_bytes()).decode().splitlines()
    return [LibraryMessage(*row.split("\t", 3)) for row in rows]


def write_catalogue(messages: Iterable[LibraryMessage], path: Path = CATALOGUE) -> None:
    """Write the catalogue, sorted."""
    rows = sorted("\t".join((one.program, one.first, one.last, one.text)) for one in messages)
    path.write_bytes(lzma.compress(("\n".join(rows) + "\n").encode(), preset=9))


def is_failure(text: str, marks: re.Pattern[str]) -> bool:
    """Return whether a text of a library reports a failure, or is one that a rule searches."""
    if any(needle in text for needle in NEEDLES if len(needle) >= LEAST):
        return True
    return bool(FAILURE.search(text) and marks.search(text) and not INTERNAL.search(text))


def extract_messages(program: str, library: Path) -> Iterator[str]:
    """Yield the format strings of a library that report a failure."""
    marks = PROGRAMS[program][1]
    with (
        library.open("rb") as opened,
        mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        for found in STRING.finditer(data):
            text = " ".join(found[0].decode("ascii").split())
            if text.count(" ") > 1 and is_failure(text, marks):
                yield text


def merge_messages(
    known: Iterable[LibraryMessage], program: str, version: str, texts: Iterable[str]
) -> list[LibraryMessage]:
    """Add the messages of one version to the catalogue."""
    table = {(one.program, one.text): one for one in known}
    for text in texts:
        old = table.get((program, text), LibraryMessage(program, version, version, text))
        table[program, text] = LibraryMessage(
            program,
            min(old.first, version, key=parse_version),
            max(old.last, version, key=parse_version),
            text,
        )
    return list(table.values())


def list_patterns() -> list[Pattern]:
    """List the patterns of all causes and of the facts that they use."""
    return [
        pattern
        for cause in CAUSES.values()
        for pattern in (*cause.patterns, *(fact.pattern for fact in cause.facts))
    ]


def find_uncovered(messages: Iterable[LibraryMessage]) -> list[LibraryMessage]:
    """Return the messages that no pattern of a cause matches."""
    patterns = list_patterns()
    return [
        one
        for one in messages
        if not any(
            pattern.needle in example and pattern.compiled.search(example)
            for example in one.examples
            for pattern in patterns
        )
    ]


def find_library(program: str, path: Path, folder: Path) -> Path:
    """Return a library itself, or unpack it from a wheel."""
    if path.suffix != ".whl":
        return path
    with zipfile.ZipFile(path) as wheel:
        name = next(one for one in wheel.namelist() if PROGRAMS[program][0] in one)
        return Path(wheel.extract(name, folder))


def main() -> None:
    """Add a library, or print figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", nargs="*", metavar="PROGRAM VERSION FILE")
    parser.add_argument("--uncovered", choices=PROGRAMS)
    asked = parser.parse_args()
    known = read_catalogue() if CATALOGUE.exists() else []
    if asked.library:
        program, version, path = asked.library
        with tempfile.TemporaryDirectory() as folder:
            library = find_library(program, Path(path), Path(folder))
            known = merge_messages(known, program, version, extract_messages(program, library))
        write_catalogue(known)
    missed = find_uncovered(known)
    for program in PROGRAMS:
        total = [one for one in known if one.program == program]
        without = [one for one in missed if one.program == program]
        if asked.uncovered == program:
            sys.stdout.write("".join(f"{one.text}\n" for one in without))
        elif total and not asked.uncovered:
            first = min((one.first for one in total), key=parse_version)
            last = max((one.last for one in total), key=parse_version)
            versions = first if first == last else f"{first} to {last}"
            covered = len(total) - len(without)
            sys.stdout.write(
                f"{program} {versions}: {covered} of {len(total)} messages have a cause\n"
            )


if __name__ == "__main__":
    main()
