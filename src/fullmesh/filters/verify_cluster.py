"""Hands the rules of the verification ladder to Ansible."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, cast

from ansible.errors import AnsibleFilterError

from fullmesh import contract
from fullmesh.border import answered
from fullmesh.model.types import Plan
from fullmesh.observed.ladder import Look, Port, Probe, Target
from fullmesh.observed.ranks import Collected, Started
from fullmesh.plain import plain
from fullmesh.report import terminal
from fullmesh.result import build as results
from fullmesh.result import textfile
from fullmesh.result.types import Result
from fullmesh.verify import ladder as verify
from fullmesh.verify import probe_wants
from fullmesh.verify.model import NodeSaid, Seen

# What is kept of a node -> the type that its module returns.
PARTS: dict[str, Any] = {"node": Look, "links": Probe, "started": Started, "gloo": Collected}


def gathered(hostvars: Any, plan: Plan) -> tuple[dict[str, NodeSaid], dict[str, list[str]]]:
    """What the modules registered on every node; and by node, what of it has another form than its type says.

    A field of another form costs its own rule at most: the others judge what they know.
    """
    found: dict[str, dict[str, Any]] = {}
    odd: dict[str, list[str]] = {}
    for name in plan["nodes"]:
        variables = hostvars[name]
        found[name] = {}
        for part, kind in PARTS.items():
            said = plain(variables.get(f"__verify_cluster_{part}", {"skipped": True}))
            try:
                answer = contract.answer(kind, said)
            except contract.ContractError as error:
                odd.setdefault(name, []).append(str(error))
                answer = said
            if answer is not None:
                found[name][part] = answer
    return cast("dict[str, NodeSaid]", found), odd


def opened_ports(hostvars: Any, plan: Plan) -> dict[str, list[Port]]:
    """The listeners of every node."""
    key = "__verify_cluster_node"
    return {
        n: hostvars[n][key]["ports"] for n in plan["nodes"] if "ports" in hostvars[n].get(key, {})
    }


def seen_from(plan: Plan, hostvars: Any, options: dict[str, Any]) -> Seen:
    """Everything that was observed, as the rules want it."""
    nodes, odd = gathered(hostvars, plan)
    return Seen(
        plan=plain(plan),
        nodes=nodes,
        odd=odd,
        outside=plain(options.get("outside") or {}),
        rungs=tuple(options["rungs"]),
        mode=str(options["mode"]),
        check_mode=bool(options["check_mode"]),
        clock_limit=float(options["clock_limit"]),
        deadline=float(options["deadline"]),
        init_timeout=float(options["init_timeout"]),
        inventory=str(options["inventory"]),
    )


def ladder_faults(options: dict[str, Any]) -> list[str]:
    """Coded sentences: what is wrong with the role's *options*."""
    return [str(fault) for fault in verify.faults(plain(options))]


def ladder_wants(plan: Plan, host: str, mode: str) -> probe_wants.Wants:
    """Which listeners *host* opens."""
    return probe_wants.wants(plan, str(host), str(mode))


def ladder_targets(plan: Plan, hostvars: Any, host: str) -> list[Target]:
    """The listeners that *host* has to reach."""
    return probe_wants.targets(plan, opened_ports(hostvars, plan), str(host))


def ladder_outsider_targets(plan: Plan, hostvars: Any) -> list[Target]:
    """The ports that the controller must not reach."""
    opened = opened_ports(hostvars, plan)
    reachable = {n: str(hostvars[n].get("ansible_host", n)) for n in opened}
    return probe_wants.outsider_targets(plan, opened, reachable)


def controller_is_peer(peers: list[str]) -> bool:
    """Whether this machine has one of the cluster addresses."""
    for address in peers:
        family = socket.AF_INET6 if ":" in str(address) else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.bind((str(address), 0))
        except OSError:
            continue
        return True
    return False


def ladder_may_start(plan: Plan, hostvars: Any, options: dict[str, Any]) -> verify.Start:
    """Whether the Gloo job is to be started, and why not."""
    return verify.may_start(seen_from(plan, hostvars, options))


def ladder_result(
    plan: Plan, hostvars: Any, options: dict[str, Any], run: dict[str, Any]
) -> Result:
    """Judge everything; the result follows the schema."""
    about = results.Run(
        name=str(run["name"]),
        started=str(run["started"]),
        finished=str(run["finished"]),
        lab=str(run["lab"]),
        notes={n: plain(hostvars[n].get("fullmesh_notes", [])) for n in plan["nodes"]},
        systems={n: system_of(hostvars[n].get("ansible_facts", {})) for n in plan["nodes"]},
        why_not_outside=str(options.get("why_not_outside", "")),
    )
    try:
        return results.build(seen_from(plan, hostvars, options), about)
    except ValueError as error:
        raise AnsibleFilterError(f"ladder_result: {error}") from error


def system_of(facts: dict[str, Any]) -> str:
    """The operating system in words."""
    words = (facts.get("distribution", ""), facts.get("distribution_version", ""))
    return " ".join(str(word) for word in words if word)


def ladder_summary(value: Result) -> list[str]:
    """The result as lines of text."""
    return terminal.summary_lines(plain(value))


def ladder_failure(value: Result) -> str:
    """The failed rungs by name, and every cause."""
    return terminal.failure(plain(value))


def ladder_textfile(value: Any, node: str) -> str:
    """What Prometheus' node_exporter is told on *node*."""
    return textfile.text(answered(Result, value, "the verification"), str(node))


class FilterModule:
    """Filters of the role verify_cluster."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The names under which Ansible finds them."""
        return {
            "ladder_faults": ladder_faults,
            "ladder_wants": ladder_wants,
            "ladder_targets": ladder_targets,
            "ladder_outsider_targets": ladder_outsider_targets,
            "controller_is_peer": controller_is_peer,
            "ladder_may_start": ladder_may_start,
            "ladder_result": ladder_result,
            "ladder_summary": ladder_summary,
            "ladder_failure": ladder_failure,
            "ladder_textfile": ladder_textfile,
        }
