# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
r"""Start on a node that is queried: find the program, run it, print its answer.

Runs alone on nodes: standard library only, and nothing of this package, which it has yet to receive. The controller
sends this file as text (src/fullmesh/ask/program.py) and talks to it over standard input and output:

    controller: one line, JSON: a ``NodeQuestion``
    node: MARK + " program\n", if it lacks the program of that checksum, then waits for
    controller: the program, as many bytes as the question says
    node: MARK + " answer LENGTH\n" and as many bytes of JSON, an ``NodeAnswer``

The controller keeps its end open until it has the answer. If standard input ends, the controller is gone and the
program ends at once. A newline from the controller is a sign of life, and ``stop`` ends the program with SIGUSR1. After
the answer to a question with ``hold``, the program runs on while the controller gives signs of life.

A program is compiled once for each node and Python, and kept in a folder that only root may enter. The file is named
after the source's checksum and starts with a checksum of its content, so that a partial file is detected.
"""

from __future__ import annotations

import _thread
import hashlib
import importlib.machinery
import importlib.util
import io
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

    # module -> whether it is a package, and its source or its code
    Program = dict[str, tuple[bool, str | CodeType]]

SHA256_BYTES = 32
FOLDER_MODE, FILE_MODE = 0o700, 0o600
PERMISSIONS = 0o777
POLL_SECONDS = 0.5
START_SECONDS = 2.0  # until a stop ends a program that has no handler for it


class ProgramLoader:
    """Import the program's modules, as a finder and loader in ``sys.meta_path``."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        """Return the spec of a module of this program, or None."""
        del path, target
        if name not in self.program:
            return None
        package = self.program[name][0]
        return importlib.machinery.ModuleSpec(name, self, is_package=package)  # type: ignore[arg-type]  # its two methods are enough (PEP 451)

    def create_module(self, spec: object) -> None:
        """Use Python's default."""
        del spec

    def exec_module(self, module: Any) -> None:
        """Run the module's code. Compile it if that was not done."""
        code = compile_module(module.__name__, self.program[module.__name__][1])
        exec(code, module.__dict__)  # noqa: S102 (a loader executes code)


def get_bytecode_tag() -> str:
    """Return a tag for the bytecode's format: this Python's minor version and implementation."""
    return importlib.util.MAGIC_NUMBER.hex()


def get_cache_path(question: NodeQuestion) -> str:
    """Return the path of the compiled program."""
    return "{}/{}-{}.{}".format(
        question["folder"], question["name"], question["program"], get_bytecode_tag()
    )


def is_private_folder(folder: str) -> bool:
    """Return whether a folder belongs to root alone and is not a link."""
    found = os.lstat(folder)
    return (
        stat.S_ISDIR(found.st_mode)
        and found.st_uid == 0
        and not found.st_mode & (PERMISSIONS & ~FOLDER_MODE)
    )


def load_cached_program(question: NodeQuestion) -> bytes:
    """Return the cached compiled program, or b"" if it is missing or incomplete."""
    try:
        if not question["folder"] or not is_private_folder(question["folder"]):
            return b""
        with open(get_cache_path(question), "rb") as stream:
            data = stream.read()
    except OSError:
        return b""
    whole = hashlib.sha256(data[SHA256_BYTES:]).digest() == data[:SHA256_BYTES]
    return data[SHA256_BYTES:] if whole else b""


def cache_program(question: NodeQuestion, program: Program) -> str:
    """Replace the cached program by this one, compiled. Return the reason if that fails."""
    folder = question["folder"]
    if not folder:
        return ""
    part = f"{get_cache_path(question)}.{os.getpid()}"
    try:
        os.makedirs(folder, FOLDER_MODE, exist_ok=True)
        if not is_private_folder(folder):
            return f"{folder} can be changed by others than root"
        try:
            with open(
                os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "wb"
            ) as stream:
                code = compile_program(program)
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


def compile_module(name: str, code: str | CodeType) -> CodeType:
    """Return the code of a module, given it or its source."""
    if isinstance(code, str):
        return compile(code, f"fullmesh:{name}", "exec", dont_inherit=True)
    return code


def compile_program(source: Program) -> bytes:
    """Compile all modules of a program, to keep them."""
    return marshal.dumps(
        {name: (package, compile_module(name, code)) for name, (package, code) in source.items()}
    )


def receive_program(
    question: NodeQuestion, given: BinaryIO, output: BinaryIO
) -> tuple[Program, bytes]:
    """Request the program's source: zlib of JSON, module -> [whether it is a package, text].

    Returns:
        It, and what the controller sent before it: signs of life, and ``stop`` if another node has failed already.

    Raises:
        ValueError: other data came.
    """
    output.write(f"{question['mark']} program\n".encode())
    output.flush()
    early = b""
    first = given.read(1)
    while first in (b"\n", b"s"):  # zlib's data begins with x
        early += first if first == b"\n" else first + given.readline()
        first = given.read(1)
    data = first + given.read(question["size"] - len(first))
    if hashlib.sha256(data).hexdigest() != question["program"]:
        raise ValueError(f"{len(data)} received bytes do not match the program's checksum")
    program: Program = json.loads(zlib.decompress(data))
    return program, early


def read_buffered(given: BinaryIO) -> bytes:
    """Return what was read together with the question or the program, which `watch_controller` would not see."""
    os.set_blocking(0, False)
    try:
        return given.peek() if isinstance(given, io.BufferedReader) else b""
    finally:
        os.set_blocking(0, True)


def watch_controller(question: NodeQuestion, answered: list[float], early: bytes) -> None:
    """End this process once the controller is gone.

    Runs in a thread of its own.

    Args:
        question: ``hold``: after the answer, end this process if the controller is silent for this many seconds.
        answered: the time of the answer, empty until it is sent.
        early: what the controller has sent after its question.
    """
    hold, gone = question["hold"], False
    heard = time.monotonic()
    # a program that still starts has no handler yet, and would end without an answer
    stop_at = heard + START_SECONDS if b"stop" in early else 0.0
    while not gone:
        ready, _, _ = select.select([0], [], [], POLL_SECONDS if hold or stop_at else None)
        now = time.monotonic()
        words = os.read(0, 4096) if ready else b""
        if b"stop" in words:
            stop_at = now + START_SECONDS
        if stop_at and (now > stop_at or signal.getsignal(signal.SIGUSR1) != signal.SIG_DFL):
            stop_at = 0.0
            os.kill(os.getpid(), signal.SIGUSR1)
        heard = now if words else heard
        silent = bool(answered) and hold > 0 and now > max(heard, answered[0]) + hold
        gone = silent or (bool(ready) and not words)
    if hold and question["module"] in sys.modules:
        sys.modules[question["module"]].remove_run_files(**question["given"])
    if hold or not answered:
        # with all that it has started, if that is its own process group
        (os.killpg if os.getpgrp() == os.getpid() else os.kill)(os.getpid(), signal.SIGKILL)


def answer_question(
    question: NodeQuestion, given: BinaryIO, output: BinaryIO, answered: list[float]
) -> NodeAnswer:
    """Find the program, call its function."""
    said: NodeAnswer = {"python": sys.executable}
    try:
        code = load_cached_program(question)
        early = b""
        if code:
            program: Program = marshal.loads(code)  # noqa: S302 (of a checked file in root's folder)
        else:
            program, early = receive_program(question, given, output)
            # a program that is not kept compiles only the modules that it imports
            unkept = cache_program(question, program)
            if unkept:
                said["unkept"] = unkept
        early += read_buffered(given)
        _thread.start_new_thread(watch_controller, (question, answered, early))
        sys.meta_path.insert(0, ProgramLoader(program))
        module = __import__(question["module"], fromlist=["*"])
        said["result"] = getattr(module, question["function"])(**question["given"])
    except Exception:
        import traceback  # noqa: PLC0415 (only needed after an error, and slow to import)

        said["failed"] = traceback.format_exc()
    return said


def main() -> None:
    """Read the question, print the answer."""
    given, output = sys.stdin.buffer, sys.stdout.buffer
    question: NodeQuestion = json.loads(given.readline())
    signal.alarm(question["seconds"])
    # the program's own output is not part of the answer
    sys.stdout = sys.stderr
    answered: list[float] = []
    said = answer_question(question, given, output, answered)
    data = json.dumps(said).encode()
    answered.append(time.monotonic())
    output.write("{} answer {}\n".format(question["mark"], len(data)).encode() + data)
    output.flush()
    if question["hold"] and "result" in said:
        signal.alarm(0)
        sys.modules[question["module"]].hold_lease(**question["given"])


if __name__ == "__main__":
    main()
