"""Hands the diagnosis to Ansible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from fullmesh.diagnose import inventory, judge, show
from fullmesh.model.types import Plan
from fullmesh.observed.ladder import Target
from fullmesh.plain import plain
from fullmesh.result.types import Result
from fullmesh.verify import probe_wants

PARTS = {"node": "node", "links": "links", "started": "started_job"}


def diagnose_hosts(groups: Any) -> list[str]:
    """The group torch_nodes when it has hosts, else everybody.

    A play's hosts are worked out before Ansible forks: so the filters are loaded once, not once for each task and host.
    """
    return [str(host) for host in groups.get("torch_nodes") or groups["all"]]


def diagnose_first(hostvars: Any, hosts: list[str]) -> str:
    """The first of *hosts* that took part: --limit may leave others out."""
    names = [str(host) for host in hosts]
    return next((name for name in names if "__diagnose_run" in hostvars[name]), names[0])


def diagnose_plan(hostvars: Any, hosts: list[str]) -> Plan:
    """The plan of *hosts*, whatever the inventory is like."""
    return inventory.tolerant(hostvars, [str(host) for host in hosts])


def diagnose_wants(plan: Plan, host: str, variables: Any) -> dict[str, Any]:
    """What is asked of *host*."""
    return inventory.wants(plan, str(host), variables)


def diagnose_targets(plan: Plan, hostvars: Any, host: str) -> list[Target]:
    """The listeners that *host* connects to: of all nodes that could open any."""
    opened = {}
    for name in plan["nodes"]:
        told = hostvars[name].get("__diagnose_node", {})
        if "ports" in told:
            opened[name] = told["ports"]
    return probe_wants.targets(plan, opened, str(host))


def diagnose_result(hostvars: Any, hosts: list[str], about: dict[str, Any]) -> Result:
    """Everything that was observed, judged."""
    names = [str(host) for host in hosts]
    observed = {}
    for name in names:
        variables = hostvars[name]
        keys = {part: f"__diagnose_{key}" for part, key in PARTS.items()}
        observed[name] = {p: plain(variables[k]) for p, k in keys.items() if k in variables}
    plan = plain(hostvars[diagnose_first(hostvars, names)]["__diagnose_plan"])
    try:
        return judge.result(plan, observed, judge.About(**plain(about)))
    except ValueError as error:
        raise AnsibleFilterError(f"diagnose_result: {error}") from error


def diagnose_summary(result: Result) -> list[str]:
    """The result as lines of text."""
    return show.lines(plain(result))


class FilterModule:
    """Filters of the diagnosis."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The names under which Ansible finds them."""
        return {
            "diagnose_hosts": diagnose_hosts,
            "diagnose_first": diagnose_first,
            "diagnose_plan": diagnose_plan,
            "diagnose_wants": diagnose_wants,
            "diagnose_targets": diagnose_targets,
            "diagnose_result": diagnose_result,
            "diagnose_summary": diagnose_summary,
        }
