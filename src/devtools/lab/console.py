"""Progress lines on standard error, at least one every 10 s."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from devtools.lab.errors import StepError

# Seconds between two progress lines at most; the project promises 10.
EVERY = 8.0
TAIL_LINES = 12


def say(text: str) -> None:
    """Write one progress line."""
    sys.stderr.write(f"lab: {text}\n")
    sys.stderr.flush()


def out(text: str) -> None:
    """Write one line of the command's own output."""
    sys.stdout.write(f"{text}\n")


def last_lines(log: Path, count: int = TAIL_LINES) -> list[str]:
    """Return the last lines of a log file that are not empty."""
    text = log.read_bytes()[-8192:].decode(errors="replace") if log.exists() else ""
    return [line.rstrip() for line in text.splitlines() if line.strip()][-count:]


def step(what: str, argv: Sequence[str], log: Path, deadline: float) -> None:
    """Run a long command with its output in *log*; *deadline* in seconds.

    Raises StepError with the last lines and the log's path if it fails or takes too long.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    say(f"{what} ...")
    with log.open("wb") as file:
        process = subprocess.Popen(  # argv is built here, no shell
            argv, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT
        )
        try:
            code = _wait(process, what, log, deadline)
        except BaseException:
            process.kill()
            process.wait()
            raise
    seconds = time.monotonic() - begun
    if code != 0:
        tail = "\n".join(f"    {line}" for line in last_lines(log))
        raise StepError(f"{what} failed (exit {code}) after {seconds:.0f} s\n{tail}\n  log: {log}")
    say(f"{what}: done in {seconds:.0f} s")


def _wait(process: subprocess.Popen[bytes], what: str, log: Path, deadline: float) -> int:
    """Wait for a process, and print the last line of its log every few seconds."""
    begun = time.monotonic()
    while True:
        try:
            return process.wait(timeout=EVERY)
        except subprocess.TimeoutExpired:
            seconds = time.monotonic() - begun
            words = (last_lines(log, 1) or [""])[0][:100]
            if seconds > deadline:
                raise StepError(
                    f"{what} took more than {deadline:.0f} s; last words: {words}\n  log: {log}"
                ) from None
            say(f"{what}: {seconds:.0f} s  {words}")
