"""Tells what happens in a run, one JSON object a line, to whoever asked for it: the view of ``./fullmesh``."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from ansible import context  # type: ignore[attr-defined]  # ansible ships no types
from ansible.plugins.callback import CallbackBase

from fullmesh.play.events import VARIABLE, Answered, Counts, Event, Status

DOCUMENTATION = """
name: fullmesh_events
type: aggregate
short_description: Tells what happens, one JSON object a line
description:
  - Appends an object for each play, task, answer, failure and result to the file that the environment variable
    FULLMESH_EVENTS names. Without the variable it does nothing.
requirements:
  - enabled in ansible.cfg
"""

# A result of a verification or a diagnosis is shown from its file, and so is what the verification says of it.
RESULT_ACTION = "run_result"
SHOWN_FROM_RESULT = ("verify_cluster",)
LINES_OF_OUTPUT = 12
# Where a module says what it worked on.
NAMED_BY = ("path", "dest", "key", "name")


def lines_of(said: object) -> str:
    """A message as text: a list is a line each."""
    if isinstance(said, list | tuple):
        return "\n".join(str(one) for one in said)
    return str(said)


def reasons(told: Mapping[str, Any]) -> Iterator[str]:
    """Why a task failed, in the words of its answer."""
    items = [one for one in told.get("results") or [] if isinstance(one, Mapping)]
    failed = [one for one in items if one.get("failed")]
    if failed:
        for one in failed:
            yield from reasons(one)
        return
    yield lines_of(told.get("msg") or "no message")
    # our own coded messages are whole; a program's words are not
    if not lines_of(told.get("msg", "")).startswith("["):
        for name in ("module_stderr", "stderr", "stdout"):
            words = str(told.get(name) or "").strip().splitlines()
            if words:
                yield "\n".join(words[-LINES_OF_OUTPUT:])
                return


def message(told: Mapping[str, Any]) -> str:
    """The whole of it, nothing twice."""
    return "\n".join(dict.fromkeys(reasons(told)))


def caught(task: Any) -> bool:
    """Whether a block around the task has something to do when it fails."""
    parent = getattr(task, "_parent", None)
    while parent is not None:
        if getattr(parent, "rescue", None):
            return True
        parent = getattr(parent, "_parent", None)
    return False


def worked_on(told: Mapping[str, Any]) -> list[str]:
    """The files or settings that a change is about, as far as the answer names them."""
    found: dict[str, None] = {}
    diff = told.get("diff")
    for one in diff if isinstance(diff, list) else [diff]:
        if isinstance(one, Mapping):
            header = one.get("after_header") or one.get("before_header")
            if header:
                found[str(header).partition(" (")[0]] = None
    if not found:
        asked = (told.get("invocation") or {}).get("module_args") or {}
        for source in (told, asked):
            value = next((source[name] for name in NAMED_BY if source.get(name)), None)
            if isinstance(value, str | int):
                return [str(value)]
            if isinstance(value, list):
                return [str(one) for one in value]
    return list(found)


def name_of(task: Any) -> tuple[str, str]:
    """Role and name of a task; Ansible writes both into one."""
    role = task._role.get_name() if getattr(task, "_role", None) else ""
    return role, task.get_name().strip().removeprefix(f"{role} : ")


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible ships no types
    """The callback."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "fullmesh_events"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        path = os.environ.get(VARIABLE, "")
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self.stream = os.open(path, flags, 0o600) if path else -1
        self.disabled = self.stream < 0

    def tell(self, event: Event) -> None:
        """One line, in one write."""
        text = json.dumps(event, default=str, ensure_ascii=False)
        os.write(self.stream, text.encode("utf-8", "replace") + b"\n")

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """The playbook was read."""
        plays = [play.get_name().strip() for play in playbook.get_plays()]
        check = bool(context.CLIARGS.get("check"))
        name = str(playbook._file_name)
        self.tell(
            {"event": "began", "at": time.time(), "playbook": name, "plays": plays, "check": check}
        )

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """A play, or the next batch of hosts of it."""
        manager = play.get_variable_manager()
        hosts = [host.get_name() for host in manager._inventory.get_hosts(play.hosts)]
        name = play.get_name().strip()
        self.tell({"event": "play", "at": time.time(), "play": name, "hosts": hosts})

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        """A task starts on its hosts."""
        del is_conditional
        role, name = name_of(task)
        self.tell({"event": "task", "at": time.time(), "task": name, "role": role})

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        """A handler is a task."""
        self.v2_playbook_on_task_start(task, False)

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        """A host starts a task."""
        del task
        self.tell({"event": "host", "at": time.time(), "host": host.get_name()})

    def _answer(self, result: Any, status: Status) -> None:
        host, told = result.host.get_name(), result.result
        event: Answered = {"event": "answer", "at": time.time(), "host": host, "status": status}
        if status == "changed" and (what := worked_on(told)):
            event["what"] = what
        self.tell(event)
        for one in told.get("warnings") or []:
            text = str(getattr(one, "msg", None) or one)
            self.tell({"event": "said", "at": time.time(), "host": host, "text": text})

    def v2_runner_on_ok(self, result: Any) -> None:
        """A host is done."""
        self._answer(result, "changed" if result.is_changed() else "ok")
        action = result.task.action.rpartition(".")[2]
        role, _name = name_of(result.task)
        host = result.host.get_name()
        if action == RESULT_ACTION:
            self.tell({"event": "result", "at": time.time(), "path": str(result.result["path"])})
        elif action == "debug" and "msg" in result.result and role not in SHOWN_FROM_RESULT:
            text = lines_of(result.result["msg"])
            self.tell({"event": "said", "at": time.time(), "host": host, "text": text})

    def v2_runner_on_skipped(self, result: Any) -> None:
        """A host had nothing to do."""
        self._answer(result, "skipped")

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """A host failed."""
        self._answer(result, "ignored" if ignore_errors else "failed")
        if not ignore_errors:
            self._failure(result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """A host does not answer; ``ignore_unreachable`` goes on from there."""
        ignored = bool(result.task_fields.get("ignore_unreachable"))
        self._answer(result, "ignored" if ignored else "unreachable")
        if not ignored:
            self._failure(result)

    def _failure(self, result: Any) -> None:
        role, name = name_of(result.task)
        self.tell(
            {
                "event": "failure",
                "at": time.time(),
                "host": result.host.get_name(),
                "task": name,
                "role": role,
                "message": message(result.result),
                "caught": caught(result.task),
            }
        )

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """The end."""
        hosts: dict[str, Counts] = {
            host: {
                "ok": stats.ok.get(host, 0),
                "changed": stats.changed.get(host, 0),
                "failures": stats.failures.get(host, 0),
                "unreachable": stats.dark.get(host, 0),
                "rescued": stats.rescued.get(host, 0),
            }
            for host in sorted(stats.processed)
        }
        self.tell({"event": "end", "at": time.time(), "hosts": hosts})
