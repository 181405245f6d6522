"""Ask all hosts of a play one question at once: the action of the module with this name (library/ask_nodes.py)."""

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
# The same interval as the progress callback's.
EVERY_SECONDS = 10.0
# After one host has failed, the other hosts get this long to report their own failure. Then they are stopped.
FOLLOW_SECONDS = 1.5
# A host that started and then sends nothing for this long is lost: its program sends a heartbeat every second.
LOST_SECONDS = 10.0
POLL_SECONDS = 0.2
# may be queried although it is not in the play
CONTROLLER = "localhost"
display = Display()


@dataclass
class QueryResults:
    """The results of a query.

    Attributes:
        answers: host -> the result that its module would have registered.
        ordinary: host -> the reason why it needs an ordinary run of the module.
        notes: a sentence for each reason why hosts could not cache the program, and one on the first failed host.
    """

    answers: dict[str, answers.TaskResult]
    ordinary: dict[str, str]
    notes: list[str]

    def add(self, other: QueryResults) -> None:
        """Merge the results of another query. They replace earlier results of the same hosts."""
        self.answers |= other.answers
        self.ordinary |= other.ordinary
        self.notes += other.notes


@dataclass
class RunningQueries:
    """Queries that are in progress.

    Attributes:
        ways, asks: host -> its connection, and its question.
        pending: hosts that run the module itself.
        hold, together: the options of ask_nodes.
        waiting: hosts that have not answered yet.
        stop: set when one node has failed, so that the others stop.
        late: hosts that were lost, or did not answer, after that.
        first: a sentence about the host that failed first.
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
        """Query all hosts. While that takes long, show which have not answered yet."""
        self.waiting = dict.fromkeys([*self.ways, *self.pending.threads])
        asks, forks = self.asks, constants.DEFAULT_FORKS
        if self.together:
            asks = {h: replace(a, stop=self.stop, silence=LOST_SECONDS) for h, a in asks.items()}
        helpers = [asyncio.create_task(self.speak())]
        modules = asyncio.create_task(self.follow_modules())
        try:
            if self.hold and asks:
                return await lease.query_and_hold_nodes(self.ways, asks, forks, self.take)
            found = await rounds.query_all_nodes(self.ways, asks, forks, self.take)
            await modules
            return found
        finally:
            for task in (*helpers, modules):
                task.cancel()

    async def speak(self) -> None:
        """Show at intervals which hosts have not answered yet."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            names, seconds = answers.format_first_hosts(self.waiting), loop.time() - begun
            count = len(self.ways) + len(self.pending.threads)
            display.display(f"  … asked {count} nodes: {seconds:.0f} s, waiting for {names}")

    def take(self, host: str, outcome: rounds.Outcome) -> None:
        """Record a host's answer."""
        self.waiting.pop(host, None)
        if isinstance(outcome, rounds.QueryTimeout) or outcome.answer is None:
            self.late |= {host} if self.stop.is_set() else set()
        self.judge(host, answers.build_task_result(self.ways[host], outcome))

    def judge(self, host: str, result: answers.TaskResult) -> None:
        """Stop the other hosts soon if this answer reports a failure."""
        seconds = answers.read_broken_seconds(result)
        if self.together and seconds is not None:
            why = str(result.get("why") or result.get("msg") or "it failed").rstrip(".")
            self.first = self.first or f"{host}: {why}. The other nodes stop."
            wait = max(0.0, FOLLOW_SECONDS - seconds)
            asyncio.get_running_loop().call_later(wait, self.stop.set)

    async def follow_modules(self) -> None:
        """If the hosts have to answer together, record the modules' answers and stop the modules with the others."""
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
    """Build the query of each host."""
    ask = program.KNOWN[wanted["question"]]
    return {
        host: NodeQuery(ask, given[host], wanted["seconds"], wanted["folder"] if way.root else "")
        for host, way in found.items()
    }


def build_query_arguments(
    wanted: Mapping[str, Any], hosts: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Build each host's arguments, validated as the question's own module would do it.

    Raises:
        AnsibleActionFail: the module would reject an argument.
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
        """Connect to the hosts, query them, and return their answers."""
        super().run(tmp, task_vars)
        variables = task_vars or {}
        _, wanted = self.validate_argument_spec(argument_spec=ARGUMENTS)
        hosts = [str(host) for host in variables["ansible_play_hosts"]]
        if wanted["hosts"] is not None:
            hosts = [host for host in [*hosts, CONTROLLER] if host in wanted["hosts"]]
        given, login = build_query_arguments(wanted, hosts), {*wanted["as_login"]}
        first = {host: given[host] for host in hosts if host not in login}
        results = self.ask(wanted, first, variables["hostvars"], self._task)
        if wanted["or_login"]:
            login |= {host for host, answer in results.answers.items() if answer.get("failed")}
        second = {host: given[host] for host in hosts if host in login}
        if second:
            task = self._task.copy()
            task.become = False
            results.add(self.ask(wanted, second, variables["hostvars"], task))
        output: dict[str, Any] = {
            "changed": False,
            "answers": {host: results.answers[host] for host in hosts if host in results.answers},
            "ordinary": results.ordinary,
        }
        if warnings := [*answers.describe_one_by_one_hosts(results.ordinary), *results.notes]:
            output["warnings"] = warnings
        if wanted["complete"] and (failures := answers.describe_failed_hosts(output["answers"])):
            output |= {"failed": True, "msg": "\n".join(failures)}
        return output

    def ask(
        self, wanted: Mapping[str, Any], given: Mapping[str, Any], hostvars: Any, task: Any
    ) -> QueryResults:
        """Query hosts with the task's connection settings."""
        asker = ways.QueryTask(task, *ansible_private.get_action_context(self))
        found, ordinary = ways.build_connection_specs(asker, hostvars, list(given))
        asks = build_node_queries(wanted, given, found)
        rest = {
            host: one_by_one.ModuleQuery(wanted["question"], given[host], task) for host in ordinary
        }
        # in parallel with the others, because the questions of a probe have to run at the same time
        pending = one_by_one.PendingQueries(self, rest if wanted["one_by_one"] else {}, hostvars)
        asking = RunningQueries(found, asks, pending, wanted["hold"], wanted["together"])
        outcomes = asyncio.run(asking.ask()) if found or wanted["together"] else {}
        results = {
            host: answers.build_task_result(found[host], outcome)
            for host, outcome in outcomes.items()
        }
        results |= pending.answers(wanted["seconds"])
        for host in asking.late:
            results[host]["after_stop"] = True
        notes = [
            *answers.describe_uncached_programs(outcomes),
            *([asking.first] if asking.first else []),
        ]
        return QueryResults(results, ordinary, notes)
