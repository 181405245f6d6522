"""A sign of life from long tasks, and how long each phase took."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# a collection may have its plugins one folder deeper
for one in Path(__file__).resolve().parents[1:3]:
    if (one / "src").is_dir():
        sys.path.insert(0, str(one / "src"))

from ansible.plugins.callback import CallbackBase

from fullmesh.ansible_private import get_result_host
from fullmesh.printed import clean_text

DOCUMENTATION = """
name: fullmesh_progress
type: aggregate
short_description: A sign of life from long tasks, and how long each phase took
description:
  - While a task runs for long, says every ten seconds which one, for how long, and whose answer is missing.
  - At the end lists the plays with their seconds.
requirements:
  - enabled in ansible.cfg
"""

EVERY_SECONDS = 10.0
ASKS_ALL = "ask_nodes"


def write_stderr_unlocked(text: str) -> None:
    """Write to standard error without any lock of Python's.

    Ansible forks its workers from this process: a lock that the heartbeat's thread holds at that moment would stay
    locked in the worker for ever.
    """
    os.write(2, clean_text(text).encode("utf-8", "replace"))


class Heartbeat:
    """Calls *say* every *every* seconds while something runs."""

    def __init__(self, say: Callable[[str], None], every: float = EVERY_SECONDS) -> None:
        self.say, self.every = say, every
        self.name = ""
        self.begun = 0.0
        self.waiting: set[str] = set()
        self.stopped = threading.Event()
        self.thread: threading.Thread | None = None

    def start(self, name: str) -> None:
        """A task begins; the one before it is over."""
        self.stop()
        self.name, self.begun, self.waiting = name, time.monotonic(), set()
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._beat, args=(self.stopped,), daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """The task is over."""
        self.stopped.set()
        if self.thread is not None:
            self.thread.join(timeout=1)
        self.thread = None

    def _beat(self, stopped: threading.Event) -> None:
        while not stopped.wait(self.every):
            hosts = sorted(self.waiting)
            shown = ", ".join(hosts[:5]) + (f" and {len(hosts) - 5} more" if hosts[5:] else "")
            whose = f", waiting for {shown}" if shown else ""
            self.say(f"  … {self.name}: {time.monotonic() - self.begun:.0f} s{whose}\n")


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible ships no types
    """The callback."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "fullmesh_progress"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self.heart = Heartbeat(write_stderr_unlocked)
        self.plays: list[tuple[str, float]] = []

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Note when a phase begins."""
        self.plays.append((play.get_name().strip(), time.monotonic()))

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        """A new task: its heart beats."""
        del is_conditional
        self.heart.start(task.get_name().strip())

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        """A host begins; its answer is awaited. A task that asks all hosts says by itself who is missing."""
        if task.action.rpartition(".")[2] == ASKS_ALL:
            return
        self.heart.waiting.add(host.get_name())

    def _answered(self, result: Any) -> None:
        self.heart.waiting.discard(get_result_host(result))

    v2_runner_on_ok = _answered
    v2_runner_on_skipped = _answered
    v2_runner_on_unreachable = _answered

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """A host answered with a failure."""
        del ignore_errors
        self._answered(result)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """The end: seconds of each phase that took any."""
        del stats
        self.heart.stop()
        ends = [begun for _name, begun in self.plays[1:]] + [time.monotonic()]
        rows = zip(self.plays, ends, strict=True)
        parts = [f"{name} {end - begun:.1f} s" for (name, begun), end in rows if end - begun >= 0.1]  # noqa: PLR2004 (shown with one decimal)
        self._display.display("phases: " + ", ".join(parts))
