"""Asks all hosts of a play one question at once: the work behind the module of the same name (library/ask_nodes.py)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# a collection may have its plugins one folder deeper
for one in Path(__file__).resolve().parents[1:3]:
    if (one / "src").is_dir():
        sys.path.insert(0, str(one / "src"))

from ansible import constants  # type: ignore[attr-defined]  # ansible ships no types
from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from fullmesh.ask import answers, one_by_one, program, rounds, ways
from fullmesh.ask.channel import Way
from fullmesh.ask.each import read
from fullmesh.ask.talk import Asked
from fullmesh.plain import plain

ARGUMENTS = {
    "question": {"type": "str", "required": True, "choices": sorted(program.KNOWN)},
    "common": {"type": "dict", "default": {}},
    "each": {"type": "raw", "default": {}},
    "secret": {"type": "dict", "default": {}, "no_log": True},
    "hosts": {"type": "list", "elements": "str"},
    "as_login": {"type": "list", "elements": "str", "default": []},
    "or_login": {"type": "bool", "default": False},
    "one_by_one": {"type": "bool", "default": False},
    "complete": {"type": "bool", "default": False},
    "seconds": {"type": "int", "default": 60},
    "folder": {"type": "path", "default": program.FOLDER},
}
# As often as the progress callback gives a sign of life.
EVERY_SECONDS = 10.0
display = Display()


@dataclass
class Said:
    """What came of asking.

    Attributes:
        answers: host -> what its module would have registered.
        ordinary: host -> why it had to be asked, or has yet to be, by the module itself.
        unkept: a sentence for each reason why hosts could not keep the program.
    """

    answers: dict[str, answers.TaskResult]
    ordinary: dict[str, str]
    unkept: list[str]

    def add(self, other: Said) -> None:
        """Put what came of asking others, or some once more, in its place."""
        self.answers |= other.answers
        self.ordinary |= other.ordinary
        self.unkept += other.unkept


def questions(
    wanted: Mapping[str, Any], given: Mapping[str, Mapping[str, Any]], found: Mapping[str, Way]
) -> dict[str, Asked]:
    """The question for each host."""
    ask = program.KNOWN[wanted["question"]]
    return {
        host: Asked(ask, given[host], wanted["seconds"], wanted["folder"] if way.root else "")
        for host, way in found.items()
    }


def arguments(wanted: Mapping[str, Any], hosts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What each host is given, as the module of the question's name would read it.

    Raises:
        AnsibleActionFail: the module would refuse it.
    """
    ask = program.KNOWN[wanted["question"]]
    common, each = (
        {**plain(wanted["common"]), **plain(wanted["secret"])},
        plain(read(wanted["each"])),
    )
    found = {}
    for host in hosts:
        own = {name: values[host] for name, values in each.items() if host in values}
        given = {**common, **own}
        if ask.arguments is not None:
            checked = ArgumentSpecValidator(ask.arguments).validate(given)
            if checked.error_messages:
                raise AnsibleActionFail(f"{ask.name} for {host}: {checked.error_messages[0]}")
            given = checked.validated_parameters
        found[host] = given
    return found


async def asked(
    found: Mapping[str, Way], asks: Mapping[str, Asked], at_once: int
) -> dict[str, rounds.Outcome]:
    """Ask everybody, and say whose answer is missing while it takes long."""
    waiting = dict.fromkeys(found)

    async def speak() -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            names, seconds = answers.some(waiting), loop.time() - begun
            display.display(f"  … asked {len(found)} nodes: {seconds:.0f} s, waiting for {names}")

    voice = asyncio.create_task(speak())
    try:
        return await rounds.everybody(
            found, asks, at_once, lambda host, _outcome: waiting.pop(host, None)
        )
    finally:
        voice.cancel()


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible ships no types
    """``ask_nodes``."""

    BYPASS_HOST_LOOP = True
    _supports_check_mode = True
    _requires_connection = False

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Work out the ways, ask, tell."""
        super().run(tmp, task_vars)
        variables = task_vars or {}
        _, wanted = self.validate_argument_spec(argument_spec=ARGUMENTS)
        hosts = [str(host) for host in variables["ansible_play_hosts"]]
        if wanted["hosts"] is not None:
            hosts = [host for host in hosts if host in wanted["hosts"]]
        given, login = arguments(wanted, hosts), {*wanted["as_login"]}
        first = {host: given[host] for host in hosts if host not in login}
        said = self.ask(wanted, first, variables["hostvars"], self._task)
        if wanted["or_login"]:
            login |= {host for host, answer in said.answers.items() if answer.get("failed")}
        second = {host: given[host] for host in hosts if host in login}
        if second:
            task = self._task.copy()
            task.become = False
            said.add(self.ask(wanted, second, variables["hostvars"], task))
        told: dict[str, Any] = {
            "changed": False,
            "answers": {host: said.answers[host] for host in hosts if host in said.answers},
            "ordinary": said.ordinary,
        }
        if warnings := [*answers.ordinary(said.ordinary), *said.unkept]:
            told["warnings"] = warnings
        if wanted["complete"] and (silent := answers.silent(told["answers"])):
            told |= {"failed": True, "msg": "\n".join(silent)}
        return told

    def ask(
        self, wanted: Mapping[str, Any], given: Mapping[str, Any], hostvars: Any, task: Any
    ) -> Said:
        """Ask hosts as the task says."""
        asker = ways.Asker(task, self._play_context, self._templar)
        found, ordinary = ways.ways(asker, hostvars, list(given))
        asks = questions(wanted, given, found)
        rest = {host: one_by_one.Job(wanted["question"], given[host], task) for host in ordinary}
        # beside the others, as questions of a probe belong together in time
        pending = one_by_one.Pending(self, rest if wanted["one_by_one"] else {}, hostvars)
        outcomes = asyncio.run(asked(found, asks, constants.DEFAULT_FORKS)) if found else {}
        told = {host: answers.result(found[host], outcome) for host, outcome in outcomes.items()}
        told |= pending.answers(wanted["seconds"])
        return Said(told, ordinary, answers.unkept(outcomes))
