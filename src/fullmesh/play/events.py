"""The events of a run, one JSON object per line.

``callback_plugins/fullmesh_events.py`` writes them, the command line reads them, and so do programs
(``--progress json``, docs/progress.md). Standard library only: Ansible's own process imports this as well.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

# The file to which the callback appends. Without it, the callback is silent.
VARIABLE = "FULLMESH_EVENTS"
# The name of the run's folder below runs/. The verification uses it, too, so that both are in one folder.
RUN_VARIABLE = "FULLMESH_RUN"
# The process of ./fullmesh: if it is killed, the verification that it started ends on the nodes.
PID_VARIABLE = "FULLMESH_PID"

Status = Literal["ok", "changed", "skipped", "failed", "unreachable", "ignored"]


class RunBegan(TypedDict):
    """Ansible has read the playbook, so its plays are known."""

    event: Literal["began"]
    at: float
    playbook: str
    plays: list[str]
    check: bool


class PlayBegan(TypedDict):
    """A play starts on these hosts."""

    event: Literal["play"]
    at: float
    play: str
    hosts: list[str]


class TaskBegan(TypedDict):
    """A task starts. ``role`` is empty outside of roles."""

    event: Literal["task"]
    at: float
    task: str
    role: str


class HostBegan(TypedDict):
    """A host starts the task."""

    event: Literal["host"]
    at: float
    host: str


class HostAnswered(TypedDict):
    """A host has ended the task. ``what`` names its changes, if its answer does."""

    event: Literal["answer"]
    at: float
    host: str
    status: Status
    what: NotRequired[list[str]]


class HostFailed(TypedDict):
    """The reason why a host failed. ``caught``: the playbook may still continue."""

    event: Literal["failure"]
    at: float
    host: str
    task: str
    role: str
    message: str
    caught: bool


class MessageSent(TypedDict):
    """A sentence for the user: a message of a play or a module's warning."""

    event: Literal["said"]
    at: float
    host: str
    text: str


class ResultWritten(TypedDict):
    """A result was written."""

    event: Literal["result"]
    at: float
    path: str


class HostCounts(TypedDict):
    """Ansible's own figures for a host."""

    ok: int
    changed: int
    failures: int
    unreachable: int
    rescued: int


class RunEnded(TypedDict):
    """The playbook is over. ``hosts``: the counts of each host."""

    event: Literal["end"]
    at: float
    hosts: dict[str, HostCounts]


Event = (
    RunBegan
    | PlayBegan
    | TaskBegan
    | HostBegan
    | HostAnswered
    | HostFailed
    | MessageSent
    | ResultWritten
    | RunEnded
)
KINDS: dict[str, type[Event]] = {
    "began": RunBegan,
    "play": PlayBegan,
    "task": TaskBegan,
    "host": HostBegan,
    "answer": HostAnswered,
    "failure": HostFailed,
    "said": MessageSent,
    "result": ResultWritten,
    "end": RunEnded,
}
