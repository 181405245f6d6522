"""Hands the diagnosis to Ansible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from fullmesh.diagnose import inventory, judge, rates, show
from fullmesh.diagnose.rates import Way
from fullmesh.model.types import Plan
from fullmesh.observed.ladder import Port, SweepTarget, Target
from fullmesh.plain import plain
from fullmesh.result.types import Result
from fullmesh.verify import probe_wants, schedule
from fullmesh.verify.schedule import Scope

PARTS = {"node": "node", "links": "links", "closer": "closer", "started": "started_job"}


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


def diagnose_opened(plan: Plan, hostvars: Any) -> dict[str, list[Port]]:
    """The listeners of all nodes that could open any, put together once."""
    told = {name: hostvars[name].get("__diagnose_node", {}) for name in plan["nodes"]}
    return {name: plain(said["ports"]) for name, said in told.items() if "ports" in said}


def diagnose_scope(plan: Plan, bandwidth: Any, run: str) -> Scope:
    """What of the mesh is tried; who wants to know each link's rate has each link tried."""
    how = "ports" if int(bandwidth) else "auto"
    return schedule.scope_of(plan, how, [], False, str(run))


def diagnose_targets(plan: Plan, opened: Any, host: str, scope: Any) -> list[Target]:
    """The listeners that *host* connects to, where it tries all of each peer."""
    return schedule.in_full(plan, opened, str(host), scope)


def diagnose_sweep(plan: Plan, opened: Any, host: str, scope: Any) -> list[SweepTarget]:
    """The listeners that *host* connects to, one of each peer, in the order of the schedule."""
    return schedule.swept(plan, opened, str(host), scope)


def diagnose_follow_up(plan: Plan, hostvars: Any) -> dict[str, list[str]]:
    """Node -> the peers whose every listener it tries, since something deviated in a sweep."""
    probes = {n: plain(hostvars[n].get("__diagnose_links", {})) for n in plan["nodes"]}
    return schedule.follow_up(plan, {n: one for n, one in probes.items() if "swept" in one})


def diagnose_closer(plan: Plan, opened: Any, follow: Any, host: str) -> list[Target]:
    """The listeners of the peers that *host* follows up."""
    wanted = follow.get(str(host), [])
    return probe_wants.targets(plan, {n: opened[n] for n in wanted if n in opened}, str(host))


def diagnose_about(plan: Plan, follow: Any, host: str) -> dict[str, str]:
    """The peers of *host* whose handshakes are told: name to address."""
    return {peer: plan["nodes"][peer]["address"] for peer in follow.get(str(host), [])}


def diagnose_rounds(plan: Plan, opened: Any) -> list[list[Way]]:
    """The rounds in which the rates of all pairs are measured: of nodes that could be looked at."""
    return rates.rounds([name for name in plan["nodes"] if name in opened])


def diagnose_partner(
    plan: Plan, opened: Any, probe: Any, host: str, pairs: list[Way]
) -> list[Target]:
    """One listener of whom *host* measures with in a round, one that it came through to; none where it rests."""
    name = str(host)
    others = [str(two) for pair in pairs for one, two in (pair, pair[::-1]) if one == name]
    good = {
        (one["node"], one["port"]) for one in probe.get("links", []) if one["verdict"] == "open"
    }
    targets = probe_wants.targets(plan, {one: opened[one] for one in others}, name)
    return [one for one in targets if (one["node"], one["port"]) in good][:1]


def diagnose_result(hostvars: Any, hosts: list[str], about: dict[str, Any]) -> Result:
    """Everything that was observed, judged."""
    names = [str(host) for host in hosts]
    observed = {}
    for name in names:
        variables = hostvars[name]
        keys = {part: f"__diagnose_{key}" for part, key in PARTS.items()}
        observed[name] = {p: plain(variables[k]) for p, k in keys.items() if k in variables}
        if "links" in observed[name] and "__diagnose_rates" in variables:
            observed[name]["links"]["bandwidth"] = plain(variables["__diagnose_rates"])
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
            "diagnose_opened": diagnose_opened,
            "diagnose_scope": diagnose_scope,
            "diagnose_targets": diagnose_targets,
            "diagnose_sweep": diagnose_sweep,
            "diagnose_follow_up": diagnose_follow_up,
            "diagnose_closer": diagnose_closer,
            "diagnose_about": diagnose_about,
            "diagnose_rounds": diagnose_rounds,
            "diagnose_partner": diagnose_partner,
            "diagnose_result": diagnose_result,
            "diagnose_summary": diagnose_summary,
        }
