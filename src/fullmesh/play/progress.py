"""The state of a run, derived from its events: phase, hosts to wait for, changes, failures and their reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, cast

from fullmesh.play import phases
from fullmesh.play.events import (
    Event,
    HostAnswered,
    HostCounts,
    HostFailed,
    MessageSent,
    PlayBegan,
    ResultWritten,
    RunBegan,
    RunEnded,
    TaskBegan,
)

CONTROLLER = "localhost"
# The summary of the result has the same text, with its evidence.
TOLD_BY_RESULT = frozenset({phases.VERIFY, "judge"})
# Changes of Fullmesh's own records on a node, which need no approval.
MEMORY = ("undo point of ", "/var/lib/fullmesh")


@dataclass
class RunPhase:
    """A part of the run with a name that users understand.

    Attributes:
        name: that name.
        begun: seconds of the epoch.
        hosts: who took part, the controller left out.
        changes: host -> how many tasks changed it.
        failed: who failed in it.
        remark: its result, if that is not a change of a node.
    """

    name: str
    begun: float
    ended: float = 0.0
    hosts: dict[str, None] = field(default_factory=dict)
    changes: Counter[str] = field(default_factory=Counter)
    failed: dict[str, None] = field(default_factory=dict)
    remark: str = ""

    @property
    def seconds(self) -> float:
        """The duration."""
        return self.ended - self.begun

    @property
    def shown(self) -> bool:
        """Return whether it is worth a line."""
        if self.failed or self.changes or self.seconds >= phases.QUIET_SECONDS:
            return True
        return self.name not in phases.QUIET and not self.name.startswith(phases.UNDO)


@dataclass(frozen=True)
class TaskChange:
    """A task that changed a host, or would."""

    host: str
    phase: str
    role: str
    task: str
    what: tuple[str, ...]


@dataclass(frozen=True)
class Failure:
    """Hosts that failed with the same words."""

    hosts: tuple[str, ...]
    phase: str
    task: str
    message: str


class ProgressListener(Protocol):
    """A view of the run."""

    def announce(self, hosts: Sequence[str]) -> None:
        """Show that the run begins on these nodes."""

    def ended(self, phase: RunPhase) -> None:
        """Show that a phase has ended."""

    def failed(self, failure: Failure) -> None:
        """Show that hosts have failed."""

    def said(self, hosts: tuple[str, ...], text: str) -> None:
        """Show a message of the run."""


@dataclass
class RunProgress:
    """The state of a run so far."""

    listener: ProgressListener
    check: bool = False
    play: str = ""
    task: str = ""
    role: str = ""
    task_begun: float = 0.0
    phase: RunPhase | None = None
    waiting: dict[str, float] = field(default_factory=dict)
    changes: list[TaskChange] = field(default_factory=list)
    hosts: dict[str, HostCounts] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    result: Path | None = None
    over: bool = False
    _words: dict[str, dict[str, None]] = field(default_factory=dict)
    _failures: list[HostFailed] = field(default_factory=list)
    _held: dict[str, list[HostFailed]] = field(default_factory=dict)
    _shown: set[str] = field(default_factory=set)

    def take(self, event: Event) -> None:
        """Learn of an event."""
        steps: dict[str, Callable[[], None]] = {
            "began": lambda: self._began(cast("RunBegan", event)),
            "play": lambda: self._play(cast("PlayBegan", event)),
            "task": lambda: self._task(cast("TaskBegan", event)),
            "host": lambda: self.waiting.__setitem__(event["host"], event["at"]),  # type: ignore[typeddict-item]
            "answer": lambda: self._answer(cast("HostAnswered", event)),
            "failure": lambda: self._failure(cast("HostFailed", event)),
            "said": lambda: self._said(cast("MessageSent", event)),
            "result": lambda: setattr(self, "result", Path(cast("ResultWritten", event)["path"])),
            "end": lambda: self._end(cast("RunEnded", event)),
        }
        steps[event["event"]]()

    def _began(self, event: RunBegan) -> None:
        self.check = event["check"]

    def _play(self, event: PlayBegan) -> None:
        self._tell()
        nodes = [host for host in event["hosts"] if host != CONTROLLER]
        if not self.play and nodes:
            self.listener.announce(nodes)
        self.play = event["play"]

    def _task(self, event: TaskBegan) -> None:
        self._tell()
        self.task, self.role, self.task_begun = event["task"], event["role"], event["at"]
        self.waiting = {}
        now = self.phase.name if self.phase else ""
        name = phases.find_phase(self.play, self.role, now)
        if self.phase is None or self.phase.name != name:
            self._close(event["at"], RunPhase(name, event["at"]))
            self._held = {}

    def _answer(self, event: HostAnswered) -> None:
        host, status = event["host"], event["status"]
        self.waiting.pop(host, None)
        phase = self.phase
        if phase is None or host == CONTROLLER:
            return
        if status != "skipped":
            phase.hosts[host] = None
        what = tuple(event.get("what", ()))
        if status == "changed" and not (what and what[0].startswith(MEMORY)):
            phase.changes[host] += 1
            self.changes.append(TaskChange(host, phase.name, self.role, self.task, what))

    def _failure(self, event: HostFailed) -> None:
        self.waiting.pop(event["host"], None)
        if event["caught"]:
            self._held.setdefault(event["host"], []).append(event)
            return
        if self.phase is not None:
            self.phase.failed[event["host"]] = None
        self._failures.append(event)

    def _said(self, event: MessageSent) -> None:
        self._words.setdefault(event["text"], {})[event["host"]] = None

    def _tell(self) -> None:
        """Report the messages that were collected while the hosts answered."""
        for text, speakers in self._words.items():
            self.listener.said(tuple(sorted(speakers)), text)
        self._words = {}
        grouped: dict[tuple[str, str], list[str]] = {}
        for one in self._failures:
            grouped.setdefault((self._where(one), one["message"]), []).append(one["host"])
        self._failures = []
        phase = self.phase.name if self.phase else ""
        for (task, message), hosts in grouped.items():
            self._shown |= set(hosts)
            if self.result is None or phase not in TOLD_BY_RESULT:
                self.failures.append(Failure(tuple(sorted(hosts)), phase, task, message))
                self.listener.failed(self.failures[-1])

    @staticmethod
    def _where(one: HostFailed) -> str:
        return f"{one['role']}: {one['task']}" if one["role"] else one["task"]

    def _close(self, at: float, following: RunPhase | None = None) -> None:
        phase, self.phase = self.phase, following
        if phase is not None:
            phase.ended = at
            if phase.shown:
                self.listener.ended(phase)

    def _end(self, event: RunEnded) -> None:
        self.hosts, self.over, self.waiting = event["hosts"], True, {}
        self._tell()
        # an error that a block caught is a failure only if its host failed anyway
        for host, count in event["hosts"].items():
            if (count["failures"] or count["unreachable"]) and host not in self._shown:
                self._failures += self._held.get(host, [])
                if self.phase is not None:
                    self.phase.failed[host] = None
        self._tell()
        self._close(event["at"])

    def abandon(self, at: float) -> None:
        """Close a run that ended without an end event: it was killed, or Ansible itself failed."""
        self._tell()
        if self.phase is not None and not self.over:
            self.phase.failed |= dict.fromkeys(self.waiting)
            self._close(at)

    def changed(self) -> dict[str, int]:
        """Node -> how many tasks changed it."""
        counted = Counter(change.host for change in self.changes)
        nodes = [host for host in self.hosts if host != CONTROLLER]
        return {host: counted.get(host, 0) for host in sorted({*nodes, *counted})}
