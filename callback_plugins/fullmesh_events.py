"""Write the events of a run for the live view of ``./fullmesh``, one JSON object per line."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

# a collection may have its plugins one folder deeper
for one in Path(__file__).resolve().parents[1:3]:
    if (one / "src").is_dir():
        sys.path.insert(0, str(one / "src"))

from ansible import context  # type: ignore[attr-defined]  # ansible ships no types
from ansible.plugins.callback import CallbackBase

from fullmesh.ansible_private import (
    CallbackResult,
    get_playbook_path,
    get_task_id,
    get_task_role,
    has_rescue,
    list_play_hosts,
)
from fullmesh.play import asked
from fullmesh.play.events import VARIABLE, Event, HostAnswered, HostCounts, Status

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
SHOWN_FROM_RESULT = (("verify_cluster", "judge | Show the results of all checks"),)
# What a node remembers for its undo.
MEMORY_ACTION = "undo_point"
# In check mode it may say what would change, and counts as a change.
SAYS = "debug"
# One that has something to say where all is well; most have not.
ASSERTS = "assert"
ITS_WORDS = "success_msg"
LINES_OF_OUTPUT = 12
# Where a module says what it worked on.
NAMED_BY = ("path", "dest", "key", "name")


def format_message_lines(said: object) -> str:
    """A message as text: a list is a line each."""
    if isinstance(said, list | tuple):
        return "\n".join(str(one) for one in said)
    return str(said)


def list_failure_reasons(told: Mapping[str, Any]) -> Iterator[str]:
    """Why a task failed, in the words of its answer."""
    items = [one for one in told.get("results") or [] if isinstance(one, Mapping)]
    failed = [one for one in items if one.get("failed")]
    if failed:
        for one in failed:
            yield from list_failure_reasons(one)
        return
    yield format_message_lines(told.get("msg") or "no message")
    # our own coded messages are whole; a program's words are not
    if not format_message_lines(told.get("msg", "")).startswith("["):
        for name in ("module_stderr", "stderr", "stdout"):
            words = str(told.get(name) or "").strip().splitlines()
            if words:
                yield "\n".join(words[-LINES_OF_OUTPUT:])
                return


def format_failure_message(told: Mapping[str, Any]) -> str:
    """The whole of it, nothing twice."""
    return "\n".join(dict.fromkeys(list_failure_reasons(told)))


def list_changed_items(action: str, told: Mapping[str, Any]) -> list[str]:
    """The files or settings that a change is about, as far as the answer names them."""
    found: dict[str, None] = {}
    diff = told.get("diff")
    for one in diff if isinstance(diff, list) else [diff]:
        if isinstance(one, Mapping):
            header = one.get("after_header") or one.get("before_header")
            if header:
                found[str(header).partition(" (")[0]] = None
    if not found:
        if action.rpartition(".")[2] == SAYS:
            return format_message_lines(told.get("msg", "")).splitlines()
        asked = (told.get("invocation") or {}).get("module_args") or {}
        if action == MEMORY_ACTION:
            return [f"undo point of {asked.get('role', '')}"]
        for source in (told, asked):
            value = next((source[name] for name in NAMED_BY if source.get(name)), None)
            if isinstance(value, str | int):
                return [str(value)]
            if isinstance(value, list):
                return [str(one) for one in value]
    return list(found)


def split_task_name(task: Any) -> tuple[str, str]:
    """Role and name of a task; Ansible writes both into one."""
    role = get_task_role(task)
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
        text = json.dumps(event, default=str)  # ASCII: no control character as such
        os.write(self.stream, text.encode() + b"\n")

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """The playbook was read."""
        plays = [play.get_name().strip() for play in playbook.get_plays()]
        check = bool(context.CLIARGS.get("check"))
        name = get_playbook_path(playbook)
        self.tell(
            {"event": "began", "at": time.time(), "playbook": name, "plays": plays, "check": check}
        )

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """A play, or the next batch of hosts of it."""
        hosts = list_play_hosts(play)
        name = play.get_name().strip()
        self.tell({"event": "play", "at": time.time(), "play": name, "hosts": hosts})

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        """A task starts on its hosts."""
        del is_conditional
        role, name = split_task_name(task)
        self.tell({"event": "task", "at": time.time(), "task": name, "role": role})

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        """A handler is a task."""
        self.v2_playbook_on_task_start(task, False)

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        """A host starts a task."""
        del task
        self.tell({"event": "host", "at": time.time(), "host": host.get_name()})

    def _answer(self, answer: CallbackResult, status: Status) -> None:
        event: HostAnswered = {
            "event": "answer",
            "at": time.time(),
            "host": answer.host,
            "status": status,
        }
        if status == "changed" and (what := list_changed_items(answer.task.action, answer.told)):
            event["what"] = what
        self.tell(event)
        for one in answer.told.get("warnings") or []:
            self._said(answer.host, str(getattr(one, "msg", None) or one))

    def _said(self, host: str, text: str) -> None:
        self.tell({"event": "said", "at": time.time(), "host": host, "text": text})

    def v2_runner_on_ok(self, result: Any) -> None:
        """A host is done."""
        answer = CallbackResult(result)
        self._answer(answer, "changed" if answer.told.get("changed") else "ok")
        action = answer.task.action.rpartition(".")[2]
        role, name = split_task_name(answer.task)
        if action == asked.ACTION:
            self._all_answered(answer)
        elif action == RESULT_ACTION:
            self.tell({"event": "result", "at": time.time(), "path": str(answer.told["path"])})
        elif (
            (action == SAYS or (action == ASSERTS and ITS_WORDS in answer.task.args))
            and not answer.told.get("changed")
            and answer.told.get("msg")
            and (role, name) not in SHOWN_FROM_RESULT
        ):
            self._said(answer.host, format_message_lines(answer.told["msg"]))

    def _all_answered(self, answer: CallbackResult) -> None:
        """A task that asks all hosts has ended for the one that it ran for; for the others it ends here."""
        asked.COUNT.add(get_task_id(answer.task), answer.host, answer.told)
        for host, status in asked.read_host_statuses(answer.told).items():
            if host != answer.host:
                self.tell({"event": "answer", "at": time.time(), "host": host, "status": status})

    def v2_runner_on_skipped(self, result: Any) -> None:
        """A host had nothing to do."""
        self._answer(CallbackResult(result), "skipped")

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """A host failed."""
        self._ended_badly(CallbackResult(result), "ignored" if ignore_errors else "failed")

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """A host does not answer; ``ignore_unreachable`` goes on from there."""
        answer = CallbackResult(result)
        self._ended_badly(answer, "ignored" if answer.ignores_unreachable() else "unreachable")

    def _ended_badly(self, answer: CallbackResult, status: Status) -> None:
        self._answer(answer, status)
        if status == "ignored":
            return
        role, name = split_task_name(answer.task)
        self.tell(
            {
                "event": "failure",
                "at": time.time(),
                "host": answer.host,
                "task": name,
                "role": role,
                "message": format_failure_message(answer.told),
                "caught": has_rescue(answer.task),
            }
        )

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """The end."""
        asked.COUNT.complete(stats)
        hosts: dict[str, HostCounts] = {
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
