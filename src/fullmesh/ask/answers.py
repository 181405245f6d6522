"""What came of a question, in the form that Ansible's own task would have registered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from fullmesh.ask.channel import ConnectionSpec
from fullmesh.ask.rounds import Outcome, QueryTimeout
from fullmesh.ask.talk import SSH_FAILED, NodeReply
from fullmesh.observed.ask import NodeAnswer

# What Ansible registers for a host: its own keys, and whatever a module answers beside them.
TaskResult = dict[str, object]

OLD_PYTHON = re.compile(r"^fullmesh: Python (\d+\.\d+\.\d+)$", re.MULTILINE)
MOST_SHOWN = 5


def find_last_answer_line(*texts: str) -> str:
    """The last line of the first text that has one: where a program says why it ends, after any banner."""
    lines = (line.strip() for text in texts for line in reversed(text.splitlines()))
    return next((line for line in lines if line), "")


def format_login_command(way: ConnectionSpec) -> str:
    """How a person would go and look; on the controller itself, without going anywhere."""
    if not way.address:
        return "env"
    return f"ssh {way.user + '@' if way.user else ''}{way.address}"


def build_unreachable_result(message: str) -> TaskResult:
    """A host that gave no answer, as Ansible has it."""
    return {"changed": False, "unreachable": True, "msg": message}


def build_timeout_result(seconds: int, login: str) -> TaskResult:
    """A host that has begun and said nothing in time; *login*: how a person would go and look."""
    return build_unreachable_result(
        f"[AK-101] no answer within {seconds} s. See what it is busy with: {login} uptime"
    )


def build_module_failure(message: str) -> TaskResult:
    """A host on which Ansible's own module could not be run."""
    return {"changed": False, "failed": True, "msg": message}


def build_failed_result(message: str, reply: NodeReply, **more: object) -> TaskResult:
    """A host that gave none that could be used, as Ansible has it."""
    words = {"module_stderr": reply.errors, "module_stdout": reply.noise}
    return {"changed": False, "failed": True, "msg": message, **words, **more}


def build_answer_result(way: ConnectionSpec, said: NodeAnswer, reply: NodeReply) -> TaskResult:
    """What a node's program said."""
    if "result" not in said:
        trace = str(said.get("failed", ""))
        message = f"[AK-104] the program failed on the node: {find_last_answer_line(trace, 'it said nothing')}"
        shown = NodeReply(None, reply.status, trace, reply.noise, reply.begun)
        return build_failed_result(f"{message}. Report it with these lines.", shown)
    result: TaskResult = {"changed": False, **said["result"]}
    facts = result.get("ansible_facts")
    if way.found and isinstance(facts, dict):
        python = said.get("python", "")
        result["ansible_facts"] = {**facts, "discovered_interpreter_python": python}
    return result


def build_task_result(way: ConnectionSpec, outcome: Outcome) -> TaskResult:
    """What Ansible's own task would have registered for a host."""
    if isinstance(outcome, QueryTimeout):
        return build_timeout_result(outcome.seconds, format_login_command(way))
    if outcome.answer is not None:
        return build_answer_result(way, outcome.answer, outcome)
    gone = outcome.lost() or (outcome.status == SSH_FAILED and not outcome.flood)
    return build_lost_result(way, outcome) if gone else build_unusable_result(way, outcome)


def build_lost_result(way: ConnectionSpec, reply: NodeReply) -> TaskResult:
    """No connection, or one that was lost."""
    words = find_last_answer_line(reply.errors, reply.noise) or "without a word"
    if not reply.lost():
        return build_unreachable_result(f"Failed to connect to the host via ssh: {words}")
    return build_unreachable_result(
        f"[AK-102] the connection was lost before it had answered: {words}. "
        f"See what cuts it: {format_login_command(way)} journalctl -u ssh -u sshd"
    )


def build_unusable_result(way: ConnectionSpec, reply: NodeReply) -> TaskResult:
    """Something else ran on the node, or spoke in the program's place."""
    old = OLD_PYTHON.search(reply.errors)
    if old:
        return build_failed_result(f"its Python is {old[1]}", reply, python=old[1])
    words = find_last_answer_line(reply.errors, reply.noise) or "without a word"
    seen = "other words without end" if reply.flood else f"exit status {reply.status}"
    return build_failed_result(
        f"[AK-103] no answer, but {seen}: {words}. See what its shell does: {format_login_command(way)} true",
        reply,
    )


def read_broken_seconds(result: TaskResult) -> float | None:
    """For how many seconds a host's part of a question has been broken, by its answer; None if it is not."""
    if result.get("failed") or result.get("unreachable"):
        return 0.0
    seconds = result.get("broken")
    return float(seconds) if isinstance(seconds, (int, float)) else None


def describe_failed_hosts(told: Mapping[str, TaskResult]) -> list[str]:
    """A line for each host that gave no answer that can be used."""
    bad = {host: one for host, one in told.items() if one.get("failed") or one.get("unreachable")}
    return [f"{host}: {one.get('msg') or 'it failed without a word'}" for host, one in bad.items()]


def format_first_hosts(hosts: Iterable[str]) -> str:
    """The first few of them."""
    every = list(hosts)
    more = f" and {len(every) - MOST_SHOWN} more" if len(every) > MOST_SHOWN else ""
    return ", ".join(every[:MOST_SHOWN]) + more


def describe_uncached_programs(outcomes: Mapping[str, Outcome]) -> list[str]:
    """A sentence for each reason why nodes could not keep the program."""
    reasons: dict[str, list[str]] = {}
    for host, outcome in outcomes.items():
        answer = outcome.answer if isinstance(outcome, NodeReply) else None
        if answer and (reason := answer.get("unkept")):
            reasons.setdefault(reason, []).append(host)
    return [
        f"[AK-105] {format_first_hosts(hosts)}: the program was not kept ({reason}), so it travels with each question. "
        "Make room there, or find out who owns the folder."
        for reason, hosts in reasons.items()
    ]


def describe_one_by_one_hosts(reasons: Mapping[str, str]) -> list[str]:
    """A sentence for each reason why nodes have to be asked by Ansible's own task, once for all of them."""
    held: dict[str, list[str]] = {}
    for host, reason in reasons.items():
        held.setdefault(reason, []).append(host)
    return [
        f"[AK-106] {format_first_hosts(hosts)}: asked one by one, as {reason}. Slower, and otherwise the same "
        "(docs/scale.md)."
        for reason, hosts in held.items()
    ]
