"""Write the events of a run for the live view of ``./fullmesh``, one JSON object per line."""

from __future__ import annotations

import json
import os
import re
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
short_description: Writes the events of a run, one JSON object per line
description:
  - Appends an object for each play, task, answer, failure and result to the file that the environment variable
    FULLMESH_EVENTS names. Without the variable it does nothing.
requirements:
  - enabled in ansible.cfg
"""

# The live view reads results of a verification or a diagnosis, and their messages, from the result's file.
RESULT_ACTION = "run_result"
SHOWN_FROM_RESULT = (("verify_cluster", "judge | Show the results of all checks"),)
# It saves the previous state of a node, for undo.
MEMORY_ACTION = "undo_point"
# In check mode it may announce a change, and counts as a change.
SAYS = "debug"
# An assertion with a message for success. Most have none.
ASSERTS = "assert"
ITS_WORDS = "success_msg"
LINES_OF_OUTPUT = 12
# Module arguments that name the changed object.
NAMED_BY = ("path", "dest", "key", "name")


def format_message_lines(message: object) -> str:
    """Format a message as text. A list becomes one line per item."""
    if isinstance(message, list | tuple):
        return "\n".join(str(one) for one in message)
    return str(message)


def list_failure_reasons(result: Mapping[str, Any]) -> Iterator[str]:
    """List the reasons for a task's failure, from its result."""
    items = [one for one in result.get("results") or [] if isinstance(one, Mapping)]
    failed = [one for one in items if one.get("failed")]
    if failed:
        for one in failed:
            yield from list_failure_reasons(one)
        return
    yield format_message_lines(result.get("msg") or "no message")
    # Fullmesh's own coded messages are complete. Other messages need the program's output.
    if not format_message_lines(result.get("msg", "")).startswith("["):
        for name in ("module_stderr", "stderr", "stdout"):
            words = str(result.get(name) or "").strip().splitlines()
            if words:
                yield "\n".join(words[-LINES_OF_OUTPUT:])
                return


def format_failure_message(result: Mapping[str, Any]) -> str:
    """Join all reasons, without duplicates."""
    return "\n".join(dict.fromkeys(list_failure_reasons(result)))


def list_changed_items(action: str, result: Mapping[str, Any]) -> list[str]:
    """List the files or settings that a task changed, if its result names them."""
    found: dict[str, None] = {}
    diff = result.get("diff")
    for one in diff if isinstance(diff, list) else [diff]:
        if isinstance(one, Mapping):
            header = one.get("after_header") or one.get("before_header")
            if header:
                found[str(header).partition(" (")[0]] = None
    if not found:
        if action.rpartition(".")[2] == SAYS:
            return format_message_lines(result.get("msg", "")).splitlines()
        asked = (result.get("invocation") or {}).get("module_args") or {}
        if action == MEMORY_ACTION:
            return [f"undo point of {asked.get('role', '')}"]
        for source in (result, asked):
            value = next((source[name] for name in NAMED_BY if source.get(name)), None)
            if isinstance(value, str | int):
                return [str(value)]
            if isinstance(value, list):
                return [str(one) for one in value]
    return list(found)


def split_task_name(task: Any) -> tuple[str, str]:
    """Return the role and the name of a task. Ansible joins both in one string."""
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
        """Write one event as one line, in a single write."""
        text = json.dumps(event, default=str)  # ASCII: control characters are escaped
        os.write(self.stream, text.encode() + b"\n")

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """Report the start of the playbook."""
        plays = [play.get_name().strip() for play in playbook.get_plays()]
        check = bool(context.CLIARGS.get("check"))
        name = get_playbook_path(playbook)
        self.tell(
            {"event": "began", "at": time.time(), "playbook": name, "plays": plays, "check": check}
        )

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Report a play, or its next batch of hosts."""
        hosts = list_play_hosts(play)
        name = play.get_name().strip()
        self.tell({"event": "play", "at": time.time(), "play": name, "hosts": hosts})

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        """Report the start of a task."""
        del is_conditional
        role, name = split_task_name(task)
        self.tell({"event": "task", "at": time.time(), "task": name, "role": role})

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        """Report a handler like a task."""
        self.v2_playbook_on_task_start(task, False)

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        """Report that a host starts a task."""
        del task
        self.tell({"event": "host", "at": time.time(), "host": host.get_name()})

    def _answer(self, answer: CallbackResult, status: Status) -> None:
        event: HostAnswered = {
            "event": "answer",
            "at": time.time(),
            "host": answer.host,
            "status": status,
        }
        if status == "changed" and (what := list_changed_items(answer.task.action, answer.values)):
            event["what"] = what
        self.tell(event)
        for one in answer.values.get("warnings") or []:
            text = str(getattr(one, "msg", None) or one)
            # the module find warns of a folder that does not exist, which is normal during undo
            if not re.match("Skipped '.*is not a directory", text):
                self._said(answer.host, text)

    def _said(self, host: str, text: str) -> None:
        self.tell({"event": "said", "at": time.time(), "host": host, "text": text})

    def v2_runner_on_ok(self, result: Any) -> None:
        """Report that a host finished a task."""
        answer = CallbackResult(result)
        self._answer(answer, "changed" if answer.values.get("changed") else "ok")
        action = answer.task.action.rpartition(".")[2]
        role, name = split_task_name(answer.task)
        if action == asked.ACTION:
            self._all_answered(answer)
        elif action == RESULT_ACTION:
            self.tell({"event": "result", "at": time.time(), "path": str(answer.values["path"])})
        elif (
            (action == SAYS or (action == ASSERTS and ITS_WORDS in answer.task.args))
            and not answer.values.get("changed")
            and answer.values.get("msg")
            and (role, name) not in SHOWN_FROM_RESULT
        ):
            self._said(answer.host, format_message_lines(answer.values["msg"]))

    def _all_answered(self, answer: CallbackResult) -> None:
        """Report the other hosts of ask_nodes, which Ansible runs for one host only."""
        asked.COUNT.add(get_task_id(answer.task), answer.host, answer.values)
        for host, status in asked.read_host_statuses(answer.values).items():
            if host != answer.host:
                self.tell({"event": "answer", "at": time.time(), "host": host, "status": status})

    def v2_runner_on_skipped(self, result: Any) -> None:
        """Report a skipped task."""
        self._answer(CallbackResult(result), "skipped")

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Report a failed task."""
        self._ended_badly(CallbackResult(result), "ignored" if ignore_errors else "failed")

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Report an unreachable host. With ``ignore_unreachable`` the play continues."""
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
                "message": format_failure_message(answer.values),
                "caught": has_rescue(answer.task),
            }
        )

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Report the end and the counts of each host."""
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
