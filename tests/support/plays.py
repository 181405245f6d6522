"""Helpers for tests that run Fullmesh's own commands: start them, read their output and Ansible's recap."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

from fullmesh.settings import ROOT

RECAP = re.compile(r"^(\S+)\s+: ((?:\w+=\d+\s*)+)$", re.MULTILINE)
LOG = re.compile(r"^log: (.+)$", re.MULTILINE)
# In the checkout, without a keyboard, with both streams in one text.
CAPTURED: dict[str, Any] = {
    "cwd": ROOT,
    "stdin": subprocess.DEVNULL,
    "stdout": subprocess.PIPE,
    "stderr": subprocess.STDOUT,
    "text": True,
}


@dataclass
class Done:
    """A finished command."""

    code: int
    output: str
    seconds: float

    def whole(self) -> str:
        """Return the output and the log that it names."""
        named = LOG.search(self.output)
        return self.output + (ROOT.joinpath(named[1]).read_text() if named else "")

    def recap(self) -> dict[str, dict[str, int]]:
        """Return Ansible's PLAY RECAP: host -> counter -> number."""
        return {
            host: {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", counters)}
            for host, counters in RECAP.findall(self.whole())
        }

    def says(self, sentence: str) -> bool:
        """Return whether the output has *sentence*, regardless of YAML's line breaks."""
        return " ".join(sentence.split()) in " ".join(self.output.split())

    def changed(self) -> dict[str, int]:
        """Return host -> number of changes, without localhost."""
        return {host: c["changed"] for host, c in self.recap().items() if host != "localhost"}


def run(*command: str, seconds: float = 900, env: dict[str, str] | None = None) -> Done:
    """Run a command in the checkout, and print its output into the test's log."""
    started = time.monotonic()
    done = subprocess.run(command, **CAPTURED, timeout=seconds, check=False, env=env)
    took = time.monotonic() - started
    sys.stdout.write(
        f"\n$ {' '.join(command)}\n{done.stdout[-30000:]}\nexit {done.returncode} in {took:.1f} s\n"
    )
    return Done(done.returncode, done.stdout, took)


def read_output(*command: str, seconds: float = 120) -> str:
    """Return a command's standard output, the one for programs. Progress is in the other stream."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        timeout=seconds,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    words = f"{done.stdout[-30000:]}\n{done.stderr[-30000:]}"
    sys.stdout.write(f"\n$ {' '.join(command)}\n{words}\nexit {done.returncode}\n")
    assert done.returncode == 0
    return done.stdout
