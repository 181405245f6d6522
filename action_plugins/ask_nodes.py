"""Asks all hosts of a play one question at once: the work behind the module of the same name (library/ask_nodes.py)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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

from fullmesh import ansible_private
from fullmesh.ask import answers, lease, one_by_one, program, rounds, ways
from fullmesh.ask.channel import ConnectionSpec
from fullmesh.ask.each import read_arguments
from fullmesh.ask.talk import NodeQuery
from fullmesh.plain import to_json_value

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
    "together": {"type": "bool", "default": False},
    "hold": {"type": "bool", "default": False},
    "seconds": {"type": "int", "default": 60},
    "folder": {"type": "path", "default": program.FOLDER},
}
# As often as the progress callback gives a sign of life.
EVERY_SECONDS = 10.0
# After one host's part of a question has failed the others may say for so long why theirs fails; then they are stopped.
FOLLOW_SECONDS = 1.5
# A host that has begun and says nothing for so long is lost: its program sends a sign of life every second.
LOST_SECONDS = 10.0
POLL_SECONDS = 0.2
display = Display()


@dataclass
class QueryResults:
    """What came of asking.

    Attributes:
        answers: host -> what its module would have registered.
        ordinary: host -> why it had to be asked, or has yet to be, by the module itself.
        notes: a sentence for each reason why hosts could not keep the program, and about a host that failed first.
    """

    answers: dict[str, answers.TaskResult]
    ordinary: dict[str, str]
    notes: list[str]

    def add(self, other: QueryResults) -> None:
        """Put what came of asking others, or some once more, in its place."""
        self.answers |= other.answers
        self.ordinary |= other.ordinary
        self.notes += other.notes


@dataclass
class RunningQueries:
    """Hosts that are being asked.

    Attributes:
        ways, asks: host -> how it is reached, and its question.
        pending: hosts that are asked by the module itself.
        hold, together: as ask_nodes is asked.
        waiting: hosts whose answer is missing.
        stop: set when the part of one node has failed, so that the others stop.
        late: hosts that were lost, or silent, after that.
        first: a sentence about the host whose part failed first.
    """

    ways: Mapping[str, ConnectionSpec]
    asks: Mapping[str, NodeQuery]
    pending: one_by_one.PendingQueries
    hold: bool
    together: bool
    waiting: dict[str, None] = field(default_factory=dict)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    late: set[str] = field(default_factory=set)
    first: str = ""

    async def ask(self) -> dict[str, rounds.Outcome]:
        """Ask everybody, and say whose answer is missing while it takes long."""
        self.waiting = dict.fromkeys([*self.ways, *self.pending.threads])
        asks, forks = self.asks, constants.DEFAULT_FORKS
        if self.together:
            asks = {h: replace(a, stop=self.stop, silence=LOST_SECONDS) for h, a in asks.items()}
        beside = [asyncio.create_task(self.speak())]
        modules = asyncio.create_task(self.follow_modules())
        try:
            if self.hold and asks:
                return await lease.query_and_hold_nodes(self.ways, asks, forks, self.take)
            found = await rounds.query_all_nodes(self.ways, asks, forks, self.take)
            await modules
            return found
        finally:
            for task in (*beside, modules):
                task.cancel()

    async def speak(self) -> None:
        """Say from time to time who is waited for."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            names, seconds = answers.format_first_hosts(self.waiting), loop.time() - begun
            count = len(self.ways) + len(self.pending.threads)
            display.display(f"  … asked {count} nodes: {seconds:.0f} s, waiting for {names}")

    def take(self, host: str, outcome: rounds.Outcome) -> None:
        """Take a host's answer."""
        self.waiting.pop(host, None)
        if isinstance(outcome, rounds.QueryTimeout) or outcome.answer is None:
            self.late |= {host} if self.stop.is_set() else set()
        self.judge(host, answers.build_task_result(self.ways[host], outcome))

    def judge(self, host: str, result: answers.TaskResult) -> None:
        """Stop the others soon, if this answer says that a part has failed."""
        seconds = answers.read_broken_seconds(result)
        if self.together and seconds is not None:
            why = str(result.get("why") or result.get("msg") or "it failed").rstrip(".")
            self.first = self.first or f"{host}: {why}. The other nodes stop."
            wait = max(0.0, FOLLOW_SECONDS - seconds)
            asyncio.get_running_loop().call_later(wait, self.stop.set)

    async def follow_modules(self) -> None:
        """Take the answers of the modules, and stop them with the others; only if the answers belong together."""
        heard: set[str] = set()
        stopped = False
        while self.together and len(heard) < len(self.pending.threads):
            await asyncio.sleep(POLL_SECONDS)
            for host in [one for one in self.pending.found if one not in heard]:
                heard.add(host)
                self.judge(host, self.pending.found[host])
            if self.stop.is_set() and not stopped:
                stopped = True
                self.pending.stop()


def build_node_queries(
    wanted: Mapping[str, Any],
    given: Mapping[str, Mapping[str, Any]],
    found: Mapping[str, ConnectionSpec],
) -> dict[str, NodeQuery]:
    """The question for each host."""
    ask = program.KNOWN[wanted["question"]]
    return {
        host: NodeQuery(ask, given[host], wanted["seconds"], wanted["folder"] if way.root else "")
        for host, way in found.items()
    }


def build_query_arguments(
    wanted: Mapping[str, Any], hosts: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """What each host is given, as the module of the question's name would read it.

    Raises:
        AnsibleActionFail: the module would refuse it.
    """
    ask = program.KNOWN[wanted["question"]]
    common, each = (
        {**to_json_value(wanted["common"]), **to_json_value(wanted["secret"])},
        to_json_value(read_arguments(wanted["each"])),
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
        given, login = build_query_arguments(wanted, hosts), {*wanted["as_login"]}
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
        if warnings := [*answers.describe_one_by_one_hosts(said.ordinary), *said.notes]:
            told["warnings"] = warnings
        if wanted["complete"] and (silent := answers.describe_failed_hosts(told["answers"])):
            told |= {"failed": True, "msg": "\n".join(silent)}
        return told

    def ask(
        self, wanted: Mapping[str, Any], given: Mapping[str, Any], hostvars: Any, task: Any
    ) -> QueryResults:
        """Ask hosts as the task says."""
        asker = ways.QueryTask(task, *ansible_private.get_action_context(self))
        found, ordinary = ways.build_connection_specs(asker, hostvars, list(given))
        asks = build_node_queries(wanted, given, found)
        rest = {
            host: one_by_one.ModuleQuery(wanted["question"], given[host], task) for host in ordinary
        }
        # beside the others, as questions of a probe belong together in time
        pending = one_by_one.PendingQueries(self, rest if wanted["one_by_one"] else {}, hostvars)
        asking = RunningQueries(found, asks, pending, wanted["hold"], wanted["together"])
        outcomes = asyncio.run(asking.ask()) if found or wanted["together"] else {}
        told = {
            host: answers.build_task_result(found[host], outcome)
            for host, outcome in outcomes.items()
        }
        told |= pending.answers(wanted["seconds"])
        for host in asking.late:
            told[host]["after_stop"] = True
        notes = [
            *answers.describe_uncached_programs(outcomes),
            *([asking.first] if asking.first else []),
        ]
        return QueryResults(told, ordinary, notes)
