"""Hands the rules of the verification ladder to Ansible."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Any, cast

from ansible.errors import AnsibleFilterError

from fullmesh import contract
from fullmesh.ask.each import Each, as_text, by_argument
from fullmesh.border import answered
from fullmesh.diagnose import inventory
from fullmesh.model.types import Plan
from fullmesh.observed.ladder import Look, Port, Probe, Target
from fullmesh.observed.ranks import Collected, Started
from fullmesh.plain import plain
from fullmesh.report import terminal
from fullmesh.result import build as results
from fullmesh.result import textfile
from fullmesh.result.types import BisectRun, Result
from fullmesh.verify import bisect, bisected, probe_wants, rank_ends, schedule
from fullmesh.verify import ladder as verify
from fullmesh.verify.model import NodeSaid, Seen
from fullmesh.verify.schedule import Scope

# What is kept of a node -> the type that its module returns.
PARTS: dict[str, Any] = {"node": Look, "links": Probe, "started": Started, "gloo": Collected}
CLOSER = "closer"  # a second answer of ladder_links, about what deviated in a sweep


def told(variables: Any, part: str) -> Mapping[str, Any]:
    """Host -> its answer; what was not asked has none.

    Args:
        variables: of any host: what the role registers is the same for all.
        part: which question.
    """
    found: Mapping[str, Any] = variables.get(f"__verify_cluster_{part}", {}).get("answers", {})
    return found


def gathered(
    variables: Any, plan: Plan, scope: Scope | None = None
) -> tuple[dict[str, NodeSaid], dict[str, list[str]]]:
    """What every node answered; and by node, what of it has another form than its type says.

    A field of another form costs its own rule at most: the others judge what they know.
    """
    found: dict[str, dict[str, Any]] = {name: {} for name in plan["nodes"]}
    odd: dict[str, list[str]] = {}
    for part, kind in {**PARTS, CLOSER: Probe}.items():
        answers = told(variables, part)
        for name in (one for one in plan["nodes"] if one in answers):
            said = plain(answers[name])
            try:
                answer = contract.answer(kind, said)
            except contract.ContractError as error:
                odd.setdefault(name, []).append(str(error))
                answer = said
            if answer is None and part == "gloo":
                answer = rank_ends.read_missing_answer(said, plan["nodes"][name]["ranks"])
            if answer is not None:
                found[name][part] = answer
    nodes = schedule.whole(plan, cast("dict[str, schedule.Asked]", found), scope)
    return cast("dict[str, NodeSaid]", nodes), odd


def seen_from(plan: Plan, variables: Any, options: dict[str, Any]) -> Seen:
    """Everything that was observed, as the rules want it."""
    scope = cast("Scope | None", plain(options.get("scope")))
    nodes, odd = gathered(variables, plan, scope)
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


def pythons(plan: Plan, hostvars: Any, python: str) -> dict[str, str]:
    """The interpreter of jobs on each node.

    Args:
        plan: of the cluster.
        hostvars: of the nodes; one may have an interpreter, or an environment, of its own.
        python: as the task has it that asks for all nodes, which may be one node's own.
    """
    own: dict[str, str] = {}
    for name in plan["nodes"]:
        path = hostvars[name].get("torch_runtime_path")
        said = hostvars[name].get("verify_cluster_python") or (f"{path}/bin/python" if path else "")
        own[name] = str(said)
    rest = f"{inventory.VENV}/bin/python" if python in own.values() else python
    return {name: said or rest for name, said in own.items()}


def ladder_wants(plan: Plan, hostvars: Any, mode: str, python: str) -> Each:
    """What each node is asked when it is looked at.

    Args:
        plan: of the cluster.
        hostvars: of the nodes; one may have an interpreter of its own.
        mode: of the firewall.
        python: the interpreter of all others.
    """
    given, interpreters = {}, pythons(plan, hostvars, python)
    for name, node in plan["nodes"].items():
        given[name] = {
            "node": name,
            "address": node["address"],
            "interface": node["interface"],
            "python": interpreters[name],
            **probe_wants.wants(plan, name, str(mode)),
        }
    return by_argument(given)


def ladder_opened(looked: Mapping[str, Any]) -> dict[str, list[Port]]:
    """The listeners of every node, put together once."""
    return {str(name): plain(said["ports"]) for name, said in looked.items() if "ports" in said}


def ladder_scope(plan: Plan, how: str, change: Any, run: str) -> Scope:
    """What of the mesh is tried; *change*: the nodes that this run configured while others only learnt of them."""
    held = plain(change)
    new = [str(name) for name in held.get("new", [])]
    return schedule.scope_of(plan, str(how), new, bool(held), str(run))


def me(plan: Plan, host: str) -> dict[str, Any]:
    """Who connects."""
    return {"node": host, "address": plan["nodes"][host]["address"]}


def ladder_probes(plan: Plan, opened: Any, scope: Any) -> str:
    """The listeners that each node has to reach: all of each peer, or one of each in the order of the schedule."""
    plan, opened = plain(plan), plain(opened)
    each = by_argument(
        {
            host: {
                **me(plan, host),
                "targets": schedule.in_full(plan, opened, host, scope),
                "sweep": schedule.swept(plan, opened, host, scope),
            }
            for host in plan["nodes"]
            if host in opened
        }
    )
    return as_text(each)


def ladder_follow_up(plan: Plan, linked: Mapping[str, Any]) -> dict[str, list[str]]:
    """Node -> the peers whose every listener it tries, since something deviated in a sweep."""
    probes = {str(host): plain(said) for host, said in linked.items() if "swept" in said}
    return schedule.follow_up(plan, probes)


def ladder_closer(plan: Plan, opened: Any, follow: Any) -> Each:
    """The listeners of the peers that each node follows up."""
    given = {}
    for host, peers in plain(follow).items():
        theirs = {peer: opened[peer] for peer in peers if peer in opened}
        given[host] = {**me(plan, host), "targets": probe_wants.targets(plan, theirs, host)}
    return by_argument(given)


def ladder_about(plan: Plan, follow: Any, hosts: Any) -> dict[str, dict[str, str]]:
    """The peers of each node whose handshakes are told: name to address."""
    return {
        host: {peer: plan["nodes"][peer]["address"] for peer in follow.get(host, [])}
        for host in map(str, hosts)
    }


def ladder_outsider_targets(plan: Plan, opened: Any, hostvars: Any) -> list[Target]:
    """The ports that the controller must not reach."""
    reachable = {n: str(hostvars[n].get("ansible_host", n)) for n in opened}
    return probe_wants.outsider_targets(plan, plain(opened), reachable)


def ladder_jobs(
    plan: Plan, hostvars: Any, looked: Mapping[str, Any], common: Mapping[str, Any], python: str
) -> Each:
    """What the ranks of each node are started with, as a job would.

    Args:
        plan: of the cluster.
        hostvars: of the nodes; one may have an interpreter of its own.
        looked: what nodes said of themselves: the card of their cluster address.
        common: variables of the environment that are the same for all.
        python: the interpreter of all others.
    """
    given, interpreters = {}, pythons(plan, hostvars, python)
    # --limit leaves nodes out
    for name, node in ((n, node) for n, node in plan["nodes"].items() if n in looked):
        card = looked[name]["facts"]["interface"]["name"]
        own = {
            "LOCAL_WORLD_SIZE": node["local_ranks"],
            "GLOO_SOCKET_IFNAME": card,
            "NCCL_SOCKET_IFNAME": f"={card}",
        }
        given[name] = {
            "ranks": node["ranks"],
            "python": interpreters[name],
            "environment": {**plain(common), **own},
        }
    return by_argument(given)


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


def ladder_may_start(plan: Plan, variables: Any, options: dict[str, Any]) -> verify.Start:
    """Whether the Gloo job is to be started, and why not."""
    return verify.may_start(seen_from(plan, variables, options))


def ladder_bisect_first(
    plan: Plan, variables: Any, options: dict[str, Any], go: Any
) -> list[BisectRun]:
    """The runs that are over before the search begins: the ladder's own job."""
    return bisected.first_run(seen_from(plan, variables, options)) if go else []


def ladder_bisect_next(plan: Plan, variables: Any, options: dict[str, Any]) -> bisected.Next:
    """The groups that run next, and a line that says so."""
    seen = seen_from(plan, variables, options)
    return bisected.following(seen, seen.bisect)


def ladder_bisect_most(plan: Plan) -> list[int]:
    """A number for each run that there may be."""
    return list(range(bisect.bound(len(plan["nodes"]))))


def ladder_bisect_jobs(plan: Plan, groups: Any, jobs: Any) -> Each:
    """What the nodes of a run's groups do in it; *jobs*: what they do in the job over all nodes."""
    parts = plain(groups)
    given = {}
    for host in (str(one) for group in parts for one in group):
        part = bisected.part_of(plan, parts, host)
        own = {"MASTER_ADDR": part["master"], "WORLD_SIZE": part["world"]}
        given[host] = {
            "ranks": part["ranks"],
            "python": jobs["python"][host],
            "environment": {**plain(jobs["environment"][host]), **own},
        }
    return by_argument(given)


def ladder_bisect_after(
    plan: Plan, variables: Any, options: dict[str, Any], groups: Any
) -> list[BisectRun]:
    """The runs so far and the one that has just ended; a node whose ranks could not be started counts as silent."""
    seen, answers = seen_from(plan, variables, options), told(variables, "bisected")
    said: dict[str, Collected | None] = {}
    for name in (name for group in plain(groups) for name in group):
        try:
            said[name] = contract.answer(Collected, plain(answers.get(name, {"failed": True})))
        except contract.ContractError:
            said[name] = None
    return [*seen.bisect, bisected.after(seen, plain(groups), said)]


def ladder_result(
    plan: Plan, hostvars: Any, variables: Any, options: dict[str, Any], run: dict[str, Any]
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
        return results.build(seen_from(plan, variables, options), about)
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
            "ladder_probes": ladder_probes,
            "ladder_jobs": ladder_jobs,
            "ladder_follow_up": ladder_follow_up,
            "ladder_closer": ladder_closer,
            "ladder_about": ladder_about,
            "ladder_outsider_targets": ladder_outsider_targets,
            "controller_is_peer": controller_is_peer,
            "ladder_may_start": ladder_may_start,
            "ladder_bisect_first": ladder_bisect_first,
            "ladder_bisect_next": ladder_bisect_next,
            "ladder_bisect_most": ladder_bisect_most,
            "ladder_bisect_jobs": ladder_bisect_jobs,
            "ladder_bisect_after": ladder_bisect_after,
            "ladder_result": ladder_result,
            "ladder_summary": ladder_summary,
            "ladder_failure": ladder_failure,
            "ladder_textfile": ladder_textfile,
        }
