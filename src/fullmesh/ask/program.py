"""Pack the modules that a query needs on a node into a program that is named by its checksum.

A query is a function of module_utils/fullmesh. On nodes, it runs with the standard library only. The program
contains only the modules that the query imports, so changes to other modules do not change its checksum.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import zlib
from collections.abc import Mapping, Sequence
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
# The folder on a node that caches the programs. It belongs to root and is empty after a reboot, so that even a dry run
# may use it.
FOLDER = "/run/fullmesh/ask"
CODES = {
    "AK-101": "A node gave no answer in time",
    "AK-102": "The connection to a node was lost before it answered",
    "AK-103": "A node's answer is unusable: another program ran, or printed text, instead",
    "AK-104": "A program of Fullmesh failed on a node",
    "AK-105": "A node cannot cache the program of a query, so every query sends it again",
    "AK-106": "Some nodes can only be queried one by one",
}


@dataclass(frozen=True)
class QueryKind:
    """A query that Fullmesh can send.

    Attributes:
        name: of the query, and of the module that answers it as well.
        module, function: the function to call on the node.
        reads: whether it only reads, so that it may run again if the connection is lost.
        arguments: the arguments of the module with that name. None: the function checks them itself.
        attached: whether the function gets ``attached`` if the controller stays connected (ask/boot.py).
        stop: arguments with which the module ends another call that still waits.
    """

    name: str
    module: str
    function: str
    reads: bool = True
    arguments: Arguments | None = None
    attached: bool = False
    stop: Mapping[str, str] | None = None


# The names are those of modules, because hosts that need Ansible's own task run the module itself.
KNOWN = {
    ask.name: ask
    for ask in (
        QueryKind("node_facts", "fullmesh.node_facts", "answer_node_facts"),
        # These open and close listeners, start and end ranks.
        QueryKind(
            "ladder_node",
            "fullmesh.probe.first_call",
            "observe_and_listen",
            reads=False,
            arguments=LADDER_NODE,
        ),
        QueryKind(
            "ladder_links",
            "fullmesh.probe.second_call",
            "connect_to_peers",
            reads=False,
            arguments=LADDER_LINKS,
            attached=True,
        ),
        QueryKind(
            "ladder_trace",
            "fullmesh.probe.rule_trace",
            "trace_rules",
            reads=False,
            arguments=LADDER_TRACE,
        ),
        QueryKind(
            "ladder_gloo",
            "fullmesh.probe.job",
            "control_test_job",
            reads=False,
            arguments=LADDER_GLOO,
            attached=True,
            stop={"state": "stopped"},
        ),
    )
}


@dataclass(frozen=True)
class QueryProgram:
    """The packed source of a query's modules, and its checksum."""

    data: bytes
    sha256: str


# By regular expression: parsing the sources of all queries takes 0.2 s longer in every run. A test compares both ways.
TYPES_ONLY = re.compile(r"^if TYPE_CHECKING:\n(?:[ \t]+.*\n|\n)+", re.MULTILINE)
IMPORT = re.compile(r"^[ \t]*from (\.+)([\w.]*) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)
NAME = re.compile(r"(\w+)(?: as \w+)?")


def find_module_path(module: str, root: Path) -> Path | None:
    """Return the file of a module, or None if the name is not a module."""
    base = root.joinpath(*module.split("."))
    if (base / "__init__.py").is_file():
        return base / "__init__.py"
    plain = base.with_suffix(".py")
    return plain if plain.is_file() else None


@cache
def read_module_text(path: Path) -> str:
    """Read the source of a module, which several queries need, once."""
    return path.read_text()


@cache
def list_relative_imports(module: str, path: Path) -> list[str]:
    """List the modules, and the names in modules, that a module imports relatively."""
    found: list[str] = []
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for dots, inner, several, one in IMPORT.findall(TYPES_ONLY.sub("", read_module_text(path))):
        above = package[: len(package) - len(dots) + 1]
        base = ".".join([*above, *([inner] if inner else [])])
        names = re.sub(r"#.*", "", several or one)
        found += [base, *(f"{base}.{name}" for name in NAME.findall(names))]
    return found


def collect_module_sources(module: str, root: Path = UTILS) -> dict[str, tuple[bool, str]]:
    """Return a module and all modules that it needs: name -> (whether it is a package, its text)."""
    found: dict[str, tuple[bool, str]] = {}
    open_ends = [module]
    while open_ends:
        name = open_ends.pop()
        path = find_module_path(name, root)
        if name in found or path is None:
            continue
        found[name] = (path.name == "__init__.py", read_module_text(path))
        # a package's __init__ runs before its modules
        open_ends += [name.rpartition(".")[0]] if "." in name else []
        open_ends += list_relative_imports(name, path)
    return dict(sorted(found.items()))


@cache
def build_query_program(module: str) -> QueryProgram:
    """Build the program of a query's module."""
    data = zlib.compress(json.dumps(collect_module_sources(module)).encode(), 9)
    return QueryProgram(data, hashlib.sha256(data).hexdigest())


@cache
def load_boot_program() -> bytes:
    """Return the code that runs first on the node, prefixed with its length."""
    text = BOOT.read_bytes()
    return f"{len(text)}\n".encode() + text


# Python's -I and -S ignore the user's settings and packages and halve the start time. A Python that is too old only
# reads the version check.
FIRST = (
    "import sys\n"
    "if sys.version_info<(3,9):sys.exit('fullmesh: Python %d.%d.%d'%sys.version_info[:3])\n"
    "exec(compile(sys.stdin.buffer.read(int(sys.stdin.buffer.readline())),'fullmesh-boot','exec'))"
)


def build_query_command(interpreters: Sequence[str]) -> str:
    """Build the shell command that receives the query on a node with the first interpreter that exists."""
    rest = f"-I -S -c {shlex.quote(FIRST)}"
    if len(interpreters) == 1:
        return f"exec {shlex.quote(interpreters[0])} {rest}"
    words = " ".join(shlex.quote(one) for one in interpreters)
    return f'for p in {words}; do command -v "$p" >/dev/null 2>&1 && break; done; exec "$p" {rest}'
