"""Hands the rules of the verification ladder to Ansible."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, cast

from ansible.errors import AnsibleFilterError

from fullmesh import contract
from fullmesh.border import answered
from fullmesh.model.types import Plan
from fullmesh.observed.ladder import Look, Port, Probe, SweepTarget, Target
from fullmesh.observed.ranks import Collected, Started
from fullmesh.plain import plain
from fullmesh.report import terminal
from fullmesh.result import build as results
from fullmesh.result import textfile
from fullmesh.result.types import BisectRun, Result
from fullmesh.verify import bisect, bisected, probe_wants, schedule
from fullmesh.verify import ladder as verify
from fullmesh.verify.model import NodeSaid, Seen
from fullmesh.verify.schedule import Scope

# What is kept of a node -> the type that its module returns.
PARTS: dict[str, Any] = {"node": Look, "links": Probe, "started": Started, "gloo": Collected}
CLOSER = "closer"  # a second answer of ladder_links, about what deviated in a sweep


def gathered(
    hostvars: Any, plan: Plan, scope: Scope | None = None
) -> tuple[dict[str, NodeSaid], dict[str, list[str]]]:
    """What the modules registered on every node; and by node, what of it has another form than its type says.

    A field of another form costs its own rule at most: the others judge what they know.
    """
    found: dict[str, dict[str, Any]] = {}
    odd: dict[str, list[str]] = {}
    for name in plan["nodes"]:
        variables = hostvars[name]
        found[name] = {}
        for part, kind in {**PARTS, CLOSER: Probe}.items():
            said = plain(variables.get(f"__verify_cluster_{part}", {"skipped": True}))
            try:
                answer = contract.answer(kind, said)
            except contract.ContractError as error:
                odd.setdefault(name, []).append(str(error))
                answer = said
            if answer is not None:
                found[name][part] = answer
    nodes = schedule.whole(plan, cast("dict[str, schedule.Asked]", found), scope)
    return cast("dict[str, NodeSaid]", nodes), odd


def opened_ports(hostvars: Any, plan: Plan) -> dict[str, list[Port]]:
    """The listeners of every node."""
    key = "__verify_cluster_node"
    held = {n: hostvars[n].get(key, {}) for n in plan["nodes"]}
    return {n: plain(said["ports"]) for n, said in held.items() if "ports" in said}


def seen_from(plan: Plan, hostvars: Any, options: dict[str, Any]) -> Seen:
    """Everything that was observed, as the rules want it."""
    scope = cast("Scope | None", plain(options.get("scope")))
    nodes, odd = gathered(hostvars, plan, scope)
    runs = answered(list[BisectRun], options.get("bisect") or [], "__verify_cluster_runs")
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
        scope=scope,
        bisect=runs,
    )


def ladder_faults(options: dict[str, Any]) -> list[str]:
    """Coded sentences: what is wrong with the role's *options*."""
    return [str(fault) for fault in verify.faults(plain(options))]


def ladder_wants(plan: Plan, host: str, mode: str) -> probe_wants.Wants:
    """Which listeners *host* opens."""
    return probe_wants.wants(plan, str(host), str(mode))


def ladder_opened(plan: Plan, hostvars: Any) -> dict[str, list[Port]]:
    """The listeners of every node, put together once: each node's variables cost Ansible a millisecond to read."""
    return opened_ports(hostvars, plan)


def ladder_scope(plan: Plan, how: str, change: Any, run: str) -> Scope:
    """What of the mesh is tried; *change*: the nodes that this run configured while others only learnt of them."""
    held = plain(change)
    new = [str(name) for name in held.get("new", [])]
    return schedule.scope_of(plan, str(how), new, bool(held), str(run))


def ladder_targets(plan: Plan, opened: Any, host: str, scope: Any) -> list[Target]:
    """The listeners that *host* has to reach, where it tries all of each peer."""
    return schedule.in_full(plan, opened, str(host), scope)


def ladder_sweep(plan: Plan, opened: Any, host: str, scope: Any) -> list[SweepTarget]:
    """The listeners that *host* has to reach, one of each peer, in the order of the schedule."""
    return schedule.swept(plan, opened, str(host), scope)


def ladder_follow_up(plan: Plan, hostvars: Any) -> dict[str, list[str]]:
    """Node -> the peers whose every listener it tries, since something deviated in a sweep."""
    probes = {n: plain(hostvars[n].get("__verify_cluster_links", {})) for n in plan["nodes"]}
    return schedule.follow_up(plan, {n: one for n, one in probes.items() if "swept" in one})


def ladder_closer(plan: Plan, opened: Any, follow: Any, host: str) -> list[Target]:
    """The listeners of the peers that *host* follows up."""
    wanted = follow.get(str(host), [])
    return probe_wants.targets(plan, {n: opened[n] for n in wanted if n in opened}, str(host))


def ladder_about(plan: Plan, follow: Any, host: str) -> dict[str, str]:
    """The peers of *host* whose handshakes are told: name to address."""
    return {peer: plan["nodes"][peer]["address"] for peer in follow.get(str(host), [])}


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


def ladder_bisect_first(
    plan: Plan, hostvars: Any, options: dict[str, Any], go: Any
) -> list[BisectRun]:
    """The runs that are over before the search begins: the ladder's own job."""
    return bisected.first_run(seen_from(plan, hostvars, options)) if go else []


def ladder_bisect_next(plan: Plan, hostvars: Any, options: dict[str, Any]) -> bisected.Next:
    """The groups that run next, and a line that says so."""
    seen = seen_from(plan, hostvars, options)
    return bisected.following(seen, seen.bisect)


def ladder_bisect_most(plan: Plan) -> list[int]:
    """A number for each run that there may be."""
    return list(range(bisect.bound(len(plan["nodes"]))))


def ladder_bisect_part(plan: Plan, groups: Any, host: str) -> bisected.Part:
    """What *host* does in a run."""
    return bisected.part_of(plan, plain(groups), str(host))


def ladder_bisect_after(
    plan: Plan, hostvars: Any, options: dict[str, Any], groups: Any
) -> list[BisectRun]:
    """The runs so far and the one that has just ended; a node whose ranks could not be started counts as silent."""
    seen = seen_from(plan, hostvars, options)
    said: dict[str, Collected | None] = {}
    for name in (name for group in plain(groups) for name in group):
        try:
            said[name] = contract.answer(
                Collected, plain(hostvars[name].get("__verify_cluster_bisected", {"failed": True}))
            )
        except contract.ContractError:
            said[name] = None
    return [*seen.bisect, bisected.after(seen, plain(groups), said)]


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
            "ladder_opened": ladder_opened,
            "ladder_scope": ladder_scope,
            "ladder_targets": ladder_targets,
            "ladder_sweep": ladder_sweep,
            "ladder_follow_up": ladder_follow_up,
            "ladder_closer": ladder_closer,
            "ladder_about": ladder_about,
            "ladder_outsider_targets": ladder_outsider_targets,
            "controller_is_peer": controller_is_peer,
            "ladder_may_start": ladder_may_start,
            "ladder_bisect_first": ladder_bisect_first,
            "ladder_bisect_next": ladder_bisect_next,
            "ladder_bisect_most": ladder_bisect_most,
            "ladder_bisect_part": ladder_bisect_part,
            "ladder_bisect_after": ladder_bisect_after,
            "ladder_result": ladder_result,
            "ladder_summary": ladder_summary,
            "ladder_failure": ladder_failure,
            "ladder_textfile": ladder_textfile,
        }
