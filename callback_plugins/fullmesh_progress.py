"""Show progress during long tasks, and the duration of each phase at the end."""

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
short_description: Progress of long tasks, and the duration of each phase
description:
  - During a long task, shows its name, its duration and the missing hosts every 10 s.
  - At the end, lists the plays with their durations.
requirements:
  - enabled in ansible.cfg
"""

EVERY_SECONDS = 10.0
ASKS_ALL = "ask_nodes"


def write_stderr_unlocked(text: str) -> None:
    """Write to standard error without a Python lock.

    Ansible forks its workers from this process. If the heartbeat's thread held a lock at that moment, the lock would
    stay locked in the worker forever.
    """
    os.write(2, clean_text(text).encode("utf-8", "replace"))


class Heartbeat:
    """Call *say* every *every* seconds while a task runs."""

    def __init__(self, say: Callable[[str], None], every: float = EVERY_SECONDS) -> None:
        self.say, self.every = say, every
        self.name = ""
        self.begun = 0.0
        self.waiting: set[str] = set()
        self.stopped = threading.Event()
        self.thread: threading.Thread | None = None

    def start(self, name: str) -> None:
        """Start the heartbeat of a task and end the previous one."""
        self.stop()
        self.name, self.begun, self.waiting = name, time.monotonic(), set()
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._beat, args=(self.stopped,), daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """End the heartbeat."""
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
        """Record the start of a phase."""
        self.plays.append((play.get_name().strip(), time.monotonic()))

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        """Start the heartbeat of a new task."""
        del is_conditional
        self.heart.start(task.get_name().strip())

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        """Wait for a host's answer. A task that queries all hosts shows the missing ones itself."""
        if task.action.rpartition(".")[2] == ASKS_ALL:
            return
        self.heart.waiting.add(host.get_name())

    def _answered(self, result: Any) -> None:
        self.heart.waiting.discard(get_result_host(result))

    v2_runner_on_ok = _answered
    v2_runner_on_skipped = _answered
    v2_runner_on_unreachable = _answered

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Record a host's failure as an answer."""
        del ignore_errors
        self._answered(result)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Show the duration of each phase."""
        del stats
        self.heart.stop()
        ends = [begun for _name, begun in self.plays[1:]] + [time.monotonic()]
        rows = zip(self.plays, ends, strict=True)
        parts = [f"{name} {end - begun:.1f} s" for (name, begun), end in rows if end - begun >= 0.1]  # noqa: PLR2004 (shown with one decimal)
        self._display.display("phases: " + ", ".join(parts))
