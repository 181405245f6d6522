"""What travels to a node: the modules that a question needs, named by their checksum.

A question is a function of module_utils/fullmesh, which runs on nodes with nothing but the standard library. What it
imports of that package travels with it, and nothing else does: a change elsewhere leaves the checksum as it is.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fullmesh.observed.ladder_arguments import (
    LADDER_GLOO,
    LADDER_LINKS,
    LADDER_NODE,
    LADDER_TRACE,
    Arguments,
)
from fullmesh.settings import ROOT

UTILS = ROOT / "module_utils"
BOOT = UTILS / "fullmesh/ask/boot.py"
# Where a node keeps its programs: root's, and gone after a reboot, so that even a dry run may use it.
FOLDER = "/run/fullmesh/ask"
CODES = {
    "AK-101": "a node gave no answer in time",
    "AK-102": "the connection to a node was lost before it had answered",
    "AK-103": "a node's answer is none: something else runs or speaks in its place",
    "AK-104": "a program of ours failed on a node",
    "AK-105": "a node cannot keep the program of a question, and gets it again each time",
    "AK-106": "nodes that can only be asked one by one",
}


@dataclass(frozen=True)
class QueryKind:
    """A question that can be asked.

    Attributes:
        name: of it, and of the module that answers it as well.
        module, function: what is called on the node.
        reads: whether it only reads, so that it may be asked again when the connection is lost on the way.
        arguments: what the module of that name takes; None where the function says so itself.
        attached: whether the function is given ``attached`` if the controller stays at the other end (ask/boot.py).
        stop: arguments by which the module ends what another call of it waits for.
    """

    name: str
    module: str
    function: str = "answer"
    reads: bool = True
    arguments: Arguments | None = None
    attached: bool = False
    stop: Mapping[str, str] | None = None


# The names of modules, so that what can't be asked this way is asked by the module itself.
KNOWN = {
    ask.name: ask
    for ask in (
        QueryKind("node_facts", "fullmesh.node_facts"),
        # These open and close listeners, start and end ranks.
        QueryKind("ladder_node", "fullmesh.probe.first_call", reads=False, arguments=LADDER_NODE),
        QueryKind(
            "ladder_links",
            "fullmesh.probe.second_call",
            reads=False,
            arguments=LADDER_LINKS,
            attached=True,
        ),
        QueryKind("ladder_trace", "fullmesh.probe.rule_trace", reads=False, arguments=LADDER_TRACE),
        QueryKind(
            "ladder_gloo",
            "fullmesh.probe.job",
            reads=False,
            arguments=LADDER_GLOO,
            attached=True,
            stop={"state": "stopped"},
        ),
    )
}


@dataclass(frozen=True)
class QueryProgram:
    """The source of a question's modules as it travels, and its checksum."""

    data: bytes
    sha256: str


# By its text, as reading it as Python takes fifteen times as long, in every run; a test holds both against each other.
TYPES_ONLY = re.compile(r"^if TYPE_CHECKING:\n(?:[ \t]+.*\n|\n)+", re.MULTILINE)
IMPORT = re.compile(r"^[ \t]*from (\.+)([\w.]*) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)
NAME = re.compile(r"(\w+)(?: as \w+)?")


def find_module_path(module: str, root: Path) -> Path | None:
    """The file of a module; None for what is no module (a name in one)."""
    base = root.joinpath(*module.split("."))
    if (base / "__init__.py").is_file():
        return base / "__init__.py"
    plain = base.with_suffix(".py")
    return plain if plain.is_file() else None


def list_relative_imports(module: str, path: Path) -> Iterator[str]:
    """Modules, or names in them, that a module imports relatively."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for dots, inner, several, one in IMPORT.findall(TYPES_ONLY.sub("", path.read_text())):
        above = package[: len(package) - len(dots) + 1]
        base = ".".join([*above, *([inner] if inner else [])])
        yield base
        names = re.sub(r"#.*", "", several or one)
        yield from (f"{base}.{name}" for name in NAME.findall(names))


def collect_module_sources(module: str, root: Path = UTILS) -> dict[str, tuple[bool, str]]:
    """A module and all that it needs: name -> (whether it is a package, its text)."""
    found: dict[str, tuple[bool, str]] = {}
    open_ends = [module]
    while open_ends:
        name = open_ends.pop()
        path = find_module_path(name, root)
        if name in found or path is None:
            continue
        found[name] = (path.name == "__init__.py", path.read_text())
        # a package's __init__ runs before what is in it
        open_ends += [name.rpartition(".")[0]] if "." in name else []
        open_ends += list_relative_imports(name, path)
    return dict(sorted(found.items()))


@cache
def build_query_program(module: str) -> QueryProgram:
    """The program of a question's module."""
    data = zlib.compress(json.dumps(collect_module_sources(module)).encode(), 9)
    return QueryProgram(data, hashlib.sha256(data).hexdigest())


@cache
def load_boot_program() -> bytes:
    """What runs first on the node, with its length before it."""
    text = BOOT.read_bytes()
    return f"{len(text)}\n".encode() + text


# Python's -I and -S: nobody's settings and packages, and half the time until it runs. An older Python reads as far as
# it has to say so; the rest of the text is not for it.
FIRST = (
    "import sys\n"
    "if sys.version_info<(3,9):sys.exit('fullmesh: Python %d.%d.%d'%sys.version_info[:3])\n"
    "exec(compile(sys.stdin.buffer.read(int(sys.stdin.buffer.readline())),'fullmesh-boot','exec'))"
)


def build_query_command(interpreters: Sequence[str]) -> str:
    """What a shell on the node runs to hear the question: the first interpreter that is there."""
    rest = f"-I -S -c {shlex.quote(FIRST)}"
    if len(interpreters) == 1:
        return f"exec {shlex.quote(interpreters[0])} {rest}"
    words = " ".join(shlex.quote(one) for one in interpreters)
    return f'for p in {words}; do command -v "$p" >/dev/null 2>&1 && break; done; exec "$p" {rest}'
