"""Turn the outcome of a query into the result that Ansible's own task would register."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from fullmesh.ask.channel import ConnectionSpec
from fullmesh.ask.rounds import Outcome, QueryTimeout
from fullmesh.ask.talk import SSH_FAILED, NodeReply
from fullmesh.observed.ask import NodeAnswer

# The dictionary that Ansible registers for a host: its own keys and those of the module's answer.
TaskResult = dict[str, object]

OLD_PYTHON = re.compile(r"^fullmesh: Python (\d+\.\d+\.\d+)$", re.MULTILINE)
MOST_SHOWN = 5


def find_last_answer_line(*texts: str) -> str:
    """Return the last line of the first text that has one. Programs print their error last, after any banner."""
    lines = (line.strip() for text in texts for line in reversed(text.splitlines()))
    return next((line for line in lines if line), "")


def format_login_command(way: ConnectionSpec) -> str:
    """Return the command that logs in to the node. On the controller itself, it runs a program locally."""
    if not way.address:
        return "env"
    return f"ssh {way.user + '@' if way.user else ''}{way.address}"


def build_unreachable_result(message: str) -> TaskResult:
    """Build Ansible's result for a host that gave no answer."""
    return {"changed": False, "unreachable": True, "msg": message}


def build_timeout_result(seconds: int, login: str) -> TaskResult:
    """Build the result of a host that started the query but did not answer in time.

    *login* is the command that logs in to the host.
    """
    return build_unreachable_result(
        f"[AK-101] No answer within {seconds} s. Check the load of the node: {login} uptime"
    )


def build_module_failure(message: str) -> TaskResult:
    """Build the result of a host on which Ansible's own module could not run."""
    return {"changed": False, "failed": True, "msg": message}


def build_failed_result(message: str, reply: NodeReply, **more: object) -> TaskResult:
    """Build Ansible's result for a host without a usable answer."""
    words = {"module_stderr": reply.errors, "module_stdout": reply.noise}
    return {"changed": False, "failed": True, "msg": message, **words, **more}


def build_answer_result(way: ConnectionSpec, said: NodeAnswer, reply: NodeReply) -> TaskResult:
    """Build the result from the answer of a node's program."""
    if "result" not in said:
        trace = str(said.get("failed", ""))
        message = (
            f"[AK-104] The program failed on the node: {find_last_answer_line(trace, 'no output')}"
        )
        shown = NodeReply(None, reply.status, trace, reply.noise, reply.begun)
        return build_failed_result(f"{message}. Report it with these lines.", shown)
    result: TaskResult = {"changed": False, **said["result"]}
    facts = result.get("ansible_facts")
    if way.found and isinstance(facts, dict):
        python = said.get("python", "")
        result["ansible_facts"] = {**facts, "discovered_interpreter_python": python}
    return result


def build_task_result(way: ConnectionSpec, outcome: Outcome) -> TaskResult:
    """Build the result that Ansible's own task would register for a host."""
    if isinstance(outcome, QueryTimeout):
        return build_timeout_result(outcome.seconds, format_login_command(way))
    if outcome.answer is not None:
        return build_answer_result(way, outcome.answer, outcome)
    gone = outcome.lost() or (outcome.status == SSH_FAILED and not outcome.flood)
    return build_lost_result(way, outcome) if gone else build_unusable_result(way, outcome)


def build_lost_result(way: ConnectionSpec, reply: NodeReply) -> TaskResult:
    """Build the result of a host without a connection, or whose connection was lost."""
    words = find_last_answer_line(reply.errors, reply.noise) or "no output"
    if not reply.lost():
        return build_unreachable_result(f"Failed to connect to the host via ssh: {words}")
    return build_unreachable_result(
        f"[AK-102] The connection was lost before the node answered: {words}. "
        f"Check the log of its sshd: {format_login_command(way)} journalctl -u ssh -u sshd"
    )


def build_unusable_result(way: ConnectionSpec, reply: NodeReply) -> TaskResult:
    """Build the result of a host on which something else ran or printed instead of the query's program."""
    old = OLD_PYTHON.search(reply.errors)
    if old:
        return build_failed_result(f"its Python is {old[1]}", reply, python=old[1])
    words = find_last_answer_line(reply.errors, reply.noise) or "no output"
    seen = "endless other output" if reply.flood else f"exit status {reply.status}"
    return build_failed_result(
        f"[AK-103] No answer, but {seen}: {words}. Check its shell's output: {format_login_command(way)} true",
        reply,
    )


def read_broken_seconds(result: TaskResult) -> float | None:
    """Return how long a host's part of a query has been failing, in seconds, or None if it works."""
    if result.get("failed") or result.get("unreachable"):
        return 0.0
    seconds = result.get("broken")
    return float(seconds) if isinstance(seconds, (int, float)) else None


def describe_failed_hosts(results: Mapping[str, TaskResult]) -> list[str]:
    """Return one line for each host without a usable answer."""
    bad = {
        host: one for host, one in results.items() if one.get("failed") or one.get("unreachable")
    }
    return [
        f"{host}: {one.get('msg') or 'it failed without a message'}" for host, one in bad.items()
    ]


def format_first_hosts(hosts: Iterable[str]) -> str:
    """List the first hosts and count the rest."""
    every = list(hosts)
    more = f" and {len(every) - MOST_SHOWN} more" if len(every) > MOST_SHOWN else ""
    return ", ".join(every[:MOST_SHOWN]) + more


def describe_uncached_programs(outcomes: Mapping[str, Outcome]) -> list[str]:
    """Return one sentence for each reason why nodes could not cache the program."""
    reasons: dict[str, list[str]] = {}
    for host, outcome in outcomes.items():
        answer = outcome.answer if isinstance(outcome, NodeReply) else None
        if answer and (reason := answer.get("unkept")):
            reasons.setdefault(reason, []).append(host)
    return [
        f"[AK-105] {format_first_hosts(hosts)}: the program was not cached ({reason}), so every query sends it again. "
        "Fix: free some space on the node, or make root the owner of the folder."
        for reason, hosts in reasons.items()
    ]


def describe_one_by_one_hosts(reasons: Mapping[str, str]) -> list[str]:
    """Return one sentence for each reason why nodes have to be queried with Ansible's own task."""
    held: dict[str, list[str]] = {}
    for host, reason in reasons.items():
        held.setdefault(reason, []).append(host)
    return [
        f"[AK-106] {format_first_hosts(hosts)}: queried one by one, because {reason}. This is slower but gives the "
        "same result (docs/scale.md)."
        for reason, hosts in held.items()
    ]
