"""Count hosts that one task queried for all of them, since Ansible counts such a task for one host only.

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


def read_host_statuses(result: Mapping[str, Any]) -> dict[str, Status]:
    """Return the status of each host's answer. ``ignored``: the play continues and reports the host with the others.

    Ansible counts hosts with a task of their own. A task with ``no_log`` reports nothing.
    """
    answers = result.get("answers")
    return {
        str(host): "ignored" if said.get("failed") or said.get("unreachable") else "ok"
        for host, said in (answers if isinstance(answers, Mapping) else {}).items()
    }


class QueriedHostCount:
    """The hosts of all such tasks of a run."""

    def __init__(self) -> None:
        self.open: dict[tuple[str, str], Status] = {}
        self.done: set[tuple[str, str]] = set()

    def add(self, task: str, own: str, result: Mapping[str, Any]) -> None:
        """Count a task's hosts. *own*: the host that Ansible already counts."""
        for host, status in read_host_statuses(result).items():
            if host != own and (task, host) not in self.done:
                self.open[task, host] = status

    def complete(self, stats: AnsibleStats) -> None:
        """Add the missing counts, before the first view shows them."""
        for key, status in self.open.items():
            stats.increment("ok", key[1])
            if status == "ignored":
                stats.increment("ignored", key[1])
        self.done |= self.open.keys()
        self.open.clear()


# One for the process: several callbacks see the same tasks, and each may be missing.
COUNT = QueriedHostCount()
