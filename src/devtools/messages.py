"""Collect the error messages of released programs: ``python -m devtools.messages [PROGRAM[==VERSION] ...]``.

It downloads the wheels of these versions (without VERSION, the newest one) and adds their messages to the catalogue,
with the first and last version that has them. Then it writes the table in docs/explain-log.md with the number of
messages of each program that have a cause. ``--uncovered PROGRAM`` lists messages without one.
"""

from __future__ import annotations

import argparse
import ast
import lzma
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fullmesh.causes.logs import Pattern
from fullmesh.explain.judge import CAUSES
from fullmesh.model.known_defects import parse_version
from fullmesh.settings import ROOT

CATALOGUE = ROOT / "tests/unit/data/messages.txt.xz"
PAGE = ROOT / "docs/explain-log.md"
TABLE_HEAD = "| program | versions | messages | with a cause |\n|---|---|---|---|\n"
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
ELF = b"\x7fELF"
LOGGED = frozenset(("warning", "warning_once", "error", "exception", "critical", "fatal"))
TOPIC = re.compile(r"^\[[^\]\n]+\]$", re.MULTILINE)  # of a help file of Open MPI


@dataclass(frozen=True)
class MessageSource:
    """A package with a program's messages.

    Attributes:
        files: the pattern of the file names in the wheel.
        marks: words that the messages have.
    """

    package: str
    files: re.Pattern[str]
    marks: re.Pattern[str]


TORCH_WORDS = (
    r"(?i)c10d|tcpstore|\bstore\b|\brank|socket|process ?group|nccl|rendezvous|collective|watchdog"
)
TORCH_FILES = re.compile(
    r"/libtorch_(?:cpu|cuda|python)\.so|^torch/distributed/(?!_tools|tensor|pipelining|fsdp|algo).*\.py$"
)
PROGRAMS = {
    "NCCL": MessageSource("nvidia-nccl-cu12", re.compile("libnccl.so"), re.compile(r"^[A-Z\[%n]")),
    "torch": MessageSource("torch", TORCH_FILES, re.compile(TORCH_WORDS)),
    "UCX": MessageSource(
        "libucx-cu12",
        re.compile(r"\.so"),
        re.compile(r"^(?!Fatal|Assertion|.*(?:profil|Possible values))(?=.*%)"),
    ),
    "Open MPI": MessageSource("openmpi", re.compile(r"/help-[\w-]+\.txt$"), re.compile("")),
    "Ray": MessageSource(
        "ray",
        re.compile(
            r"^ray/(?!rllib|tune|data|serve|llm|air|dag|train/(?:examples|tests|xgb|lightgbm)|tests|third).*\.py$"
        ),
        re.compile(
            r"(?i)\bnodes?\b|gcs|raylet|cluster|address|\bport|connect|placement group|nccl|\brank"
        ),
    ),
    "vLLM": MessageSource(
        "vllm",
        re.compile(
            r"^vllm/(?!model_executor|transformers|benchmarks|entrypoints|lora|multimodal).*\.py$"
        ),
        re.compile(r"(?i)\brank|nccl|\bray\b|\bnodes?\b|\bport\b|connect|engine core|nixl"),
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
    """A format string of a program, with the first and last version that has it."""

    program: str
    first: str
    last: str
    text: str

    @property
    def examples(self) -> list[str]:
        """Return the message with example values: addresses, devices, files or versions, and a reason at the end."""
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


def list_patterns() -> list[Pattern]:
    """List the patterns of all causes that recognize a message, and of the facts that they use."""
    return [
        pattern
        for cause in CAUSES.values()
        if not cause.yields  # a line of any program
        for pattern in (*cause.patterns, *(fact.pattern for fact in cause.facts))
    ]


@cache
def list_needles() -> list[str]:
    """List the needles of these patterns that make a message recognizable."""
    return [pattern.needle for pattern in list_patterns() if len(pattern.needle) >= LEAST]


def is_failure(text: str, marks: re.Pattern[str]) -> bool:
    """Return whether a text of a library reports a failure, or matches a rule."""
    if any(needle in text for needle in list_needles()):
        return True
    return bool(FAILURE.search(text) and marks.search(text) and not INTERNAL.search(text))


def list_binary_texts(data: bytes) -> Iterator[str]:
    """Yield the strings of a shared library."""
    for found in STRING.finditer(data):
        yield found[0].decode("ascii")


def list_help_texts(text: str) -> Iterator[str]:
    """Yield the messages of a help file of Open MPI: the texts of its topics."""
    for topic in TOPIC.split(text)[1:]:
        yield "\n".join(line for line in topic.split("\n") if not line.startswith("#"))[:600]


def format_template(node: ast.expr) -> str:
    """Return a message with its values as {}, or an empty text if it is not written in the source."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(format_template(part) or "{}" for part in node.values)
    if isinstance(node, ast.BinOp):
        return format_template(node.left)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return format_template(node.func.value)
    return ""


def list_python_texts(source: str) -> Iterator[str]:
    """Yield the messages of exceptions and logs in a Python file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            kind = node.exc.func
            name = kind.attr if isinstance(kind, ast.Attribute) else getattr(kind, "id", "")
            yield f"{name}: {format_template(node.exc.args[0])}"
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in LOGGED
            and node.args
        ):
            yield format_template(node.args[0])


def extract_messages(program: str, data: bytes) -> Iterator[str]:
    """Yield the messages of a file that report a failure."""
    marks = PROGRAMS[program].marks
    if data.startswith(ELF):
        texts = list_binary_texts(data)
    elif b"\ndef " in data or b"\nimport " in data or b"\nclass " in data:
        texts = list_python_texts(data.decode())
    else:
        texts = list_help_texts(data.decode("utf-8", "replace"))
    for text in texts:
        short = " ".join(text.split())
        if short.count(" ") > 1 and is_failure(short, marks):
            yield short


def extract_wheel_messages(program: str, path: Path) -> Iterator[str]:
    """Yield the messages of a program in a wheel."""
    with zipfile.ZipFile(path) as wheel:
        for name in wheel.namelist():
            if PROGRAMS[program].files.search(name):
                yield from extract_messages(program, wheel.read(name))


def download_wheel(program: str, version: str, folder: Path) -> Path:
    """Download the wheel of a version, or the newest one."""
    package = PROGRAMS[program].package + (f"=={version}" if version else "")
    download = ("pip", "download", "--no-deps", "--no-cache-dir", "-d", str(folder), package)
    subprocess.run((sys.executable, "-m", *download), check=True)
    return next(folder.glob("*.whl"))


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


def format_table(known: Iterable[LibraryMessage]) -> str:
    """Return the table of the page: each program's versions and messages, and how many of these have a cause."""
    known = list(known)
    missed = find_uncovered(known)
    rows = []
    for program in PROGRAMS:
        own = [one for one in known if one.program == program]
        first = min((one.first for one in own), key=parse_version)
        last = max((one.last for one in own), key=parse_version)
        covered = len(own) - sum(one.program == program for one in missed)
        versions = first if first == last else f"{first} to {last}"
        rows.append(f"| {program} | {versions} | {len(own)} | {covered} |\n")
    return TABLE_HEAD + "".join(rows)


def write_page(known: Iterable[LibraryMessage], path: Path = PAGE) -> None:
    """Write the table of the page again."""
    before, _, rest = path.read_text("utf-8").partition(TABLE_HEAD)
    after = rest.partition("\n\n")[2]
    path.write_text(f"{before}{format_table(known)}\n{after}", "utf-8")


def main() -> None:
    """Add the messages of released programs, or list those without a cause."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM[==VERSION]", default=[*PROGRAMS])
    parser.add_argument("--uncovered", choices=PROGRAMS)
    asked = parser.parse_args()
    known = read_catalogue()
    if asked.uncovered:
        own = [one for one in known if one.program == asked.uncovered]
        sys.stdout.write("".join(f"{one.text}\n" for one in find_uncovered(own)))
        return
    for wanted in asked.programs:
        program, _, version = wanted.partition("==")
        with tempfile.TemporaryDirectory() as folder:
            wheel = download_wheel(program, version, Path(folder))
            texts = extract_wheel_messages(program, wheel)
            known = merge_messages(known, program, wheel.name.split("-")[1], texts)
        write_catalogue(known)
    write_page(known)


if __name__ == "__main__":
    main()
