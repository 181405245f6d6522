# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The first thing that runs on a node that is asked: finds the program, runs it, prints its answer.

Runs on nodes, alone: standard library only, and nothing of this package, which it has yet to receive. The controller
sends it as text (src/fullmesh/ask/program.py) and speaks with it over standard input and output:

    controller: one line, JSON: a ``NodeQuestion``
    node:       MARK + " program\\n", when it does not have the program of that checksum, then waits for
    controller: the program, as many bytes as the question says
    node:       MARK + " answer LENGTH\\n" and as many bytes of JSON, an ``NodeAnswer``

The controller keeps its side open until it has the answer, so the end of standard input says that the controller is
gone: the program ends at once. A newline from the controller says that it is there, and ``stop`` asks the program to
come to an end (SIGUSR1). A question with ``hold`` is not over with its answer: the program goes on for as long as the
controller is heard.

A program is compiled once for each node and Python, and kept in a folder that only root may enter. What is kept begins
with the checksum of the rest, so that half a file is no program; its name has the checksum of the source.
"""

from __future__ import annotations

import _thread
import hashlib
import importlib.machinery
import importlib.util
import json
import marshal
import os
import select
import signal
import stat
import sys
import time
import zlib
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from types import CodeType

    from ..schema.ask import NodeAnswer, NodeQuestion

    # module -> its code, and whether it is a package
    Program = dict[str, tuple[bool, CodeType]]

SHA256_BYTES = 32
FOLDER_MODE, FILE_MODE = 0o700, 0o600
PERMISSIONS = 0o777
POLL_SECONDS = 0.5


class ProgramLoader:
    """Imports the program's modules; a finder and loader as ``sys.meta_path`` wants them."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        """Say whether a module is one of ours."""
        del path, target
        if name not in self.program:
            return None
        package = self.program[name][0]
        return importlib.machinery.ModuleSpec(name, self, is_package=package)  # type: ignore[arg-type]  # its two methods are enough (PEP 451)

    def create_module(self, spec: object) -> None:
        """Leave it to Python."""
        del spec

    def exec_module(self, module: Any) -> None:
        """Run its code."""
        exec(self.program[module.__name__][1], module.__dict__)  # noqa: S102 (this is what a loader does)


def get_bytecode_tag() -> str:
    """Name what can read compiled code: this very Python's minor version and kind."""
    return importlib.util.MAGIC_NUMBER.hex()


def get_cache_path(question: NodeQuestion) -> str:
    """Name the file of the compiled program."""
    return "{}/{}-{}.{}".format(
        question["folder"], question["name"], question["program"], get_bytecode_tag()
    )


def is_private_folder(folder: str) -> bool:
    """Say whether a folder is root's alone, and no link."""
    found = os.lstat(folder)
    return (
        stat.S_ISDIR(found.st_mode)
        and found.st_uid == 0
        and not found.st_mode & (PERMISSIONS & ~FOLDER_MODE)
    )


def load_cached_program(question: NodeQuestion) -> bytes:
    """Return the compiled program that is kept; empty when there is none or it is not whole."""
    try:
        if not question["folder"] or not is_private_folder(question["folder"]):
            return b""
        with open(get_cache_path(question), "rb") as stream:
            data = stream.read()
    except OSError:
        return b""
    whole = hashlib.sha256(data[SHA256_BYTES:]).digest() == data[:SHA256_BYTES]
    return data[SHA256_BYTES:] if whole else b""


def cache_program(question: NodeQuestion, code: bytes) -> str:
    """Keep a compiled program in place of the one before; say why not, where it can't be kept."""
    folder = question["folder"]
    if not folder:
        return ""
    part = f"{get_cache_path(question)}.{os.getpid()}"
    try:
        os.makedirs(folder, FOLDER_MODE, exist_ok=True)
        if not is_private_folder(folder):
            return f"{folder} is not root's alone"
        try:
            with open(
                os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "wb"
            ) as stream:
                stream.write(hashlib.sha256(code).digest() + code)
            os.rename(part, get_cache_path(question))
        except OSError:
            if os.path.lexists(part):
                os.unlink(part)
            raise
        for name in os.listdir(folder):
            owner, _, rest = name.partition("-")
            if owner == question["name"] and not rest.startswith(question["program"]):
                os.unlink(f"{folder}/{name}")
    except OSError as error:
        return f"{folder}: {error.strerror}"
    return ""


def compile_program(data: bytes) -> bytes:
    """Compile a program's source: zlib of JSON, module -> [whether it is a package, text]."""
    program = {
        name: (package, compile(text, f"fullmesh:{name}", "exec", dont_inherit=True))
        for name, (package, text) in json.loads(zlib.decompress(data)).items()
    }
    return marshal.dumps(program)


def receive_program(question: NodeQuestion, given: BinaryIO, told: BinaryIO) -> bytes:
    """Ask for the program's source.

    Raises:
        ValueError: what came is something else.
    """
    told.write(f"{question['mark']} program\n".encode())
    told.flush()
    first = given.read(1)
    while first == b"\n":  # the controller only says that it is there
        first = given.read(1)
    data = first + given.read(question["size"] - len(first))
    if hashlib.sha256(data).hexdigest() != question["program"]:
        raise ValueError(f"{len(data)} bytes came that are not the program of the checksum")
    return data


def watch_controller(question: NodeQuestion, answered: list[float]) -> None:
    """End this process once the controller is gone; runs in a thread of its own.

    Args:
        question: its ``hold`` says after how many silent seconds the controller counts as gone once it has the answer.
        answered: has the moment of the answer once that is given.
    """
    hold, gone = question["hold"], False
    heard = time.monotonic()
    while not gone:
        ready, _, _ = select.select([0], [], [], POLL_SECONDS if hold else None)
        now = time.monotonic()
        words = os.read(0, 4096) if ready else b""
        if b"stop" in words:
            os.kill(os.getpid(), signal.SIGUSR1)
        heard = now if words else heard
        silent = bool(answered) and hold > 0 and now > max(heard, answered[0]) + hold
        gone = silent or (bool(ready) and not words)
    if hold and question["module"] in sys.modules:
        sys.modules[question["module"]].forget(**question["given"])
    if hold or not answered:
        # with all that it has started, if that is its own process group
        (os.killpg if os.getpgrp() == os.getpid() else os.kill)(os.getpid(), signal.SIGKILL)


def answer_question(
    question: NodeQuestion, given: BinaryIO, told: BinaryIO, answered: list[float]
) -> NodeAnswer:
    """Find the program, call its function."""
    said: NodeAnswer = {"python": sys.executable}
    try:
        code = load_cached_program(question)
        if not code:
            code = compile_program(receive_program(question, given, told))
            unkept = cache_program(question, code)
            if unkept:
                said["unkept"] = unkept
        _thread.start_new_thread(watch_controller, (question, answered))
        sys.meta_path.insert(0, ProgramLoader(marshal.loads(code)))  # noqa: S302 (of a checked file in root's folder)
        module = __import__(question["module"], fromlist=["*"])
        said["result"] = getattr(module, question["function"])(**question["given"])
    except Exception:
        import traceback  # noqa: PLC0415 (a node that is well has no use for it, and it takes its time)

        said["failed"] = traceback.format_exc()
    return said


def main() -> None:
    """Read the question, print the answer."""
    given, told = sys.stdin.buffer, sys.stdout.buffer
    question: NodeQuestion = json.loads(given.readline())
    signal.alarm(question["seconds"])
    # what the program prints by itself is nobody's answer
    sys.stdout = sys.stderr
    answered: list[float] = []
    said = answer_question(question, given, told, answered)
    data = json.dumps(said).encode()
    answered.append(time.monotonic())
    told.write("{} answer {}\n".format(question["mark"], len(data)).encode() + data)
    told.flush()
    if question["hold"] and "result" in said:
        signal.alarm(0)
        sys.modules[question["module"]].hold(**question["given"])


if __name__ == "__main__":
    main()
