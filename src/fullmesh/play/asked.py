"""What Ansible does not count by itself: hosts that were asked all at once, by a task that runs once for all of them.

Standard library only: Ansible's own process imports this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

ACTION = "ask_nodes"
Status = Literal["ok", "ignored"]


class AnsibleStats(Protocol):
    """Ansible's counters."""

    def increment(self, what: str, host: str) -> None:
        """Count one."""


def read_host_statuses(told: Mapping[str, Any]) -> dict[str, Status]:
    """How each host's answer ended; ``ignored``: the play goes on and names it together with the others.

    Who is asked by a task of its own is counted there. Of a task with ``no_log`` nothing is told.
    """
    answers = told.get("answers")
    return {
        str(host): "ignored" if said.get("failed") or said.get("unreachable") else "ok"
        for host, said in (answers if isinstance(answers, Mapping) else {}).items()
    }


class QueriedHostCount:
    """The hosts of all such tasks of a run."""

    def __init__(self) -> None:
        self.open: dict[tuple[str, str], Status] = {}
        self.done: set[tuple[str, str]] = set()

    def add(self, task: str, own: str, told: Mapping[str, Any]) -> None:
        """Count a task's hosts; *own*: the one for which Ansible counts it already."""
        for host, status in read_host_statuses(told).items():
            if host != own and (task, host) not in self.done:
                self.open[task, host] = status

    def complete(self, stats: AnsibleStats) -> None:
        """Put into the counters what is not there yet, for whoever shows them first."""
        for key, status in self.open.items():
            stats.increment("ok", key[1])
            if status == "ignored":
                stats.increment("ignored", key[1])
        self.done |= self.open.keys()
        self.open.clear()


# One for the process: several callbacks see the same tasks, and each may be missing.
COUNT = QueriedHostCount()
