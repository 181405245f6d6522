"""Provide the rules of the verification to Ansible."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from typing import Any, cast

from ansible.errors import AnsibleFilterError

from fullmesh import contract
from fullmesh.ask.each import Each, format_arguments_json, group_by_argument
from fullmesh.border import validate_answer
from fullmesh.diagnose import inventory, root_cause, shape, verification
from fullmesh.model.types import ClusterPlan
from fullmesh.observed.ladder import (
    LadderLinksResult,
    LadderNodeResult,
    ProbePort,
    ProbeTarget,
    RailTarget,
)
from fullmesh.observed.ranks import CollectedRanks, StartedRanks
from fullmesh.plain import to_json_value
from fullmesh.report import terminal
from fullmesh.result import textfile
from fullmesh.result.survey import get_survey
from fullmesh.result.types import BisectRun, Result
from fullmesh.verify import (
    bisect,
    bisected,
    build,
    probe_wants,
    rail_targets,
    rank_ends,
    rdma_pairs,
    schedule,
)
from fullmesh.verify.model import ClusterObservations, NodeAnswers
from fullmesh.verify.schedule import ProbeScope

# The stored parts of a node's answers -> the type that the module returns.
PARTS: dict[str, Any] = {
    "node": LadderNodeResult,
    "links": LadderLinksResult,
    "started": StartedRanks,
    "gloo": CollectedRanks,
}
# Variables of libraries that change how ranks connect. Those of the plan are not among them.
LIBRARY_SETTING = re.compile(r"(GLOO|TORCH|NCCL|TP|UCX|OMP)_[A-Z0-9_]{1,60}", re.ASCII)
REDACTED = "//...@"
CLOSER = "closer"  # a second answer of ladder_links, about deviations in a sweep


def read_part_answers(variables: Any, part: str) -> Mapping[str, Any]:
    """Map each host to its answer. Hosts that were not queried have none.

    Args:
        variables: of any host, because the role registers the same for all.
        part: the query.
    """
    found: Mapping[str, Any] = variables.get(f"__verify_cluster_{part}", {}).get("answers", {})
    return found


def collect_node_answers(
    variables: Any, plan: ClusterPlan, scope: ProbeScope | None = None
) -> tuple[dict[str, NodeAnswers], dict[str, list[str]]]:
    """Collect the answers of every node and, by node, the fields that do not match their type.

    A field that does not match costs at most its own rule. Other rules use the rest.
    """
    found: dict[str, dict[str, Any]] = {name: {} for name in plan["nodes"]}
    odd: dict[str, list[str]] = {}
    for part, kind in {**PARTS, CLOSER: LadderLinksResult}.items():
        answers = read_part_answers(variables, part)
        for name in (one for one in plan["nodes"] if one in answers):
            said = to_json_value(answers[name])
            try:
                answer = contract.convert_answer(kind, said)
            except contract.ContractError as error:
                odd.setdefault(name, []).append(str(error))
                answer = said
            if answer is None and part == "gloo":
                answer = rank_ends.read_missing_answer(said, plan["nodes"][name]["ranks"])
            if answer is not None:
                found[name][part] = answer
    nodes = schedule.merge_probe_calls(plan, cast("dict[str, schedule.ProbeAnswers]", found), scope)
    return cast("dict[str, NodeAnswers]", nodes), odd


def collect_seen_state(
    plan: ClusterPlan, variables: Any, options: dict[str, Any]
) -> ClusterObservations:
    """Collect all observations in the form that the rules need."""
    scope = cast("ProbeScope | None", to_json_value(options.get("scope")))
    nodes, odd = collect_node_answers(variables, plan, scope)
    runs = validate_answer(list[BisectRun], options.get("bisect") or [], "__verify_cluster_runs")
    return ClusterObservations(
        plan=to_json_value(plan),
        nodes=nodes,
        odd=odd,
        outside=to_json_value(options.get("outside") or {}),
        checks=tuple(options["checks"]),
        mode=str(options["mode"]),
        check_mode=bool(options["check_mode"]),
        clock_limit=float(options["clock_limit"]),
        deadline=float(options["deadline"]),
        init_timeout=float(options["init_timeout"]),
        inventory=str(options["inventory"]),
        scope=scope,
        bisect=runs,
    )


def choose_interpreters(plan: ClusterPlan, hostvars: Any, python: str) -> dict[str, str]:
    """Return the interpreter of jobs on each node.

    Args:
        plan: of the cluster.
        hostvars: of the nodes. A node may have its own interpreter or environment.
        python: the value of the task that queries all nodes. It may be the value of one node.
    """
    own: dict[str, str] = {}
    for name in plan["nodes"]:
        path = hostvars[name].get("torch_runtime_path")
        said = hostvars[name].get("verify_cluster_python") or (f"{path}/bin/python" if path else "")
        own[name] = str(said)
    rest = f"{inventory.VENV}/bin/python" if python in own.values() else python
    return {name: said or rest for name, said in own.items()}


def ladder_wants(plan: ClusterPlan, hostvars: Any, mode: str, python: str) -> Each:
    """Return the survey's arguments for each node.

    Args:
        plan: of the cluster.
        hostvars: of the nodes. A node may have its own interpreter.
        mode: of the firewall.
        python: the interpreter of all others.
    """
    given, interpreters = {}, choose_interpreters(plan, hostvars, python)
    for name, node in plan["nodes"].items():
        given[name] = {
            "node": name,
            "address": node["address"],
            "interface": node["interface"],
            "python": interpreters[name],
            "job_user": str(hostvars[name].get("launchers_job_user") or ""),
            **probe_wants.build_listener_request(plan, name, str(mode)),
            "rails": rail_targets.list_rail_addresses(plan, name),
        }
    return group_by_argument(given)


def ladder_opened(surveyed: Mapping[str, Any]) -> dict[str, list[ProbePort]]:
    """Collect the listeners of every node. Peers connect to them, so those that cannot exist are left out."""
    return {
        str(name): shape.keep_valid_ports(to_json_value(said["ports"]))
        for name, said in surveyed.items()
        if "ports" in said
    }


def ladder_scope(plan: ClusterPlan, how: str, change: Any, run: str) -> ProbeScope:
    """Return the part of the mesh to test. *change*: the nodes that this run configured, if the others were not."""
    held = to_json_value(change)
    new = [str(name) for name in held.get("new", [])]
    return schedule.build_probe_scope(plan, str(how), new, bool(held), str(run))


def build_node_identity(plan: ClusterPlan, host: str) -> dict[str, Any]:
    """Return the name and address of the connecting node."""
    return {"node": host, "address": plan["nodes"][host]["address"]}


def choose_rdma_targets(
    plan: ClusterPlan, opened: Any, surveyed: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Map each node that tries RDMA to its argument.

    Args:
        plan: of the cluster.
        opened: the listeners of each node.
        surveyed: the answers of the survey.
    """
    names = set(plan["nodes"])
    surveys = {
        str(name): get_survey(shape.sanitize_node({"node": to_json_value(said)}, names))
        for name, said in surveyed.items()
        if name in names and get_survey({"node": said}).get("rdma")
    }
    targets = rdma_pairs.build_rdma_targets(plan, opened, surveys)
    return {name: {"rdma": targets.get(name, [])} for name in plan["nodes"] if targets}


def choose_rail_targets(
    plan: ClusterPlan, surveyed: Mapping[str, Any]
) -> dict[str, dict[str, list[RailTarget]]]:
    """Map each node that tests rails to its argument. *surveyed*: the answers of the survey."""
    opened = {
        str(name): shape.keep_valid_rail_ports(to_json_value(said.get("rails")))
        for name, said in surveyed.items()
        if name in plan["nodes"] and "rails" in said
    }
    targets = rail_targets.build_rail_targets(plan, opened)
    return {name: {"rails": targets.get(name, [])} for name in plan["nodes"] if targets}


def ladder_probes(plan: ClusterPlan, opened: Any, scope: Any, surveyed: Mapping[str, Any]) -> str:
    """Return the listeners that each node must reach: all of each peer, or one of each in the schedule's order.

    Nodes with RDMA also get the pairs of devices to try, and nodes with rails the listeners on these.
    """
    plan, opened = to_json_value(plan), to_json_value(opened)
    rdma = choose_rdma_targets(plan, opened, surveyed)
    rails = choose_rail_targets(plan, surveyed)
    each = group_by_argument(
        {
            host: {
                **build_node_identity(plan, host),
                "targets": schedule.list_full_targets(plan, opened, host, scope),
                "sweep": schedule.build_sweep(plan, opened, host, scope),
                **rdma.get(host, {}),
                **rails.get(host, {}),
            }
            for host in plan["nodes"]
            if host in opened
        }
    )
    return format_arguments_json(each)


def ladder_follow_up(plan: ClusterPlan, linked: Mapping[str, Any]) -> dict[str, list[str]]:
    """Map each node to the peers of which it tests every listener, because a sweep showed a deviation."""
    probes = {str(host): to_json_value(said) for host, said in linked.items() if "swept" in said}
    return schedule.plan_follow_up(plan, probes)


def ladder_closer(plan: ClusterPlan, opened: Any, follow: Any) -> Each:
    """Return the listeners of the peers that each node tests again."""
    given = {}
    for host, peers in to_json_value(follow).items():
        theirs = {peer: opened[peer] for peer in peers if peer in opened}
        given[host] = {
            **build_node_identity(plan, host),
            "targets": probe_wants.list_probe_targets(plan, theirs, host),
        }
    return group_by_argument(given)


def ladder_about(plan: ClusterPlan, follow: Any, hosts: Any) -> dict[str, dict[str, str]]:
    """Map each node to the names and addresses of the peers whose handshakes it reports."""
    return {
        host: {peer: plan["nodes"][peer]["address"] for peer in follow.get(host, [])}
        for host in map(str, hosts)
    }


def ladder_outsider_targets(plan: ClusterPlan, opened: Any, hostvars: Any) -> list[ProbeTarget]:
    """Return the ports that the controller must not reach."""
    reachable = {n: str(hostvars[n].get("ansible_host", n)) for n in opened}
    return probe_wants.list_outsider_targets(plan, to_json_value(opened), reachable)


def select_login_settings(answer: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of libraries that a login on a node has, because jobs get them too.

    Args:
        answer: the survey of the node. Its values reach only its own ranks.
    """
    start = answer["facts"].get("survey", {}).get("job_start")
    if not start or not start["known"]:
        return {}
    return {
        str(name): str(value)
        for name, value in {**start["command"], **start["login"]}.items()
        if LIBRARY_SETTING.fullmatch(str(name))
        and str(value).isprintable()
        and REDACTED not in value
    }


def ladder_jobs(
    plan: ClusterPlan,
    hostvars: Any,
    surveyed: Mapping[str, Any],
    common: Mapping[str, Any],
    python: str,
) -> Each:
    """Return the start arguments for the ranks of each node, as in a real job.

    Args:
        plan: of the cluster.
        hostvars: of the nodes. A node may have its own interpreter.
        surveyed: the nodes' surveys, with the interface of their cluster address.
        common: environment variables that are the same for all.
        python: the interpreter of all others.
    """
    given, interpreters = {}, choose_interpreters(plan, hostvars, python)
    # --limit leaves nodes out
    for name, node in ((n, node) for n, node in plan["nodes"].items() if n in surveyed):
        interface = surveyed[name]["facts"]["interface"]["name"]
        own = {
            "LOCAL_WORLD_SIZE": node["local_ranks"],
            "GLOO_SOCKET_IFNAME": interface,
            "NCCL_SOCKET_IFNAME": f"={interface}",
        }
        given[name] = {
            "ranks": node["ranks"],
            "python": interpreters[name],
            "environment": {
                **select_login_settings(surveyed[name]),
                **to_json_value(common),
                **own,
            },
        }
    return group_by_argument(given)


def controller_is_peer(peers: list[str]) -> bool:
    """Return whether this machine has one of the cluster addresses."""
    for address in peers:
        family = socket.AF_INET6 if ":" in str(address) else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.bind((str(address), 0))
        except OSError:
            continue
        return True
    return False


def ladder_may_start(
    plan: ClusterPlan, variables: Any, options: dict[str, Any]
) -> verification.JobStart:
    """Decide whether to start the Gloo job, with the reason if not."""
    return verification.decide_job_start(collect_seen_state(plan, variables, options))


def ladder_bisect_first(
    plan: ClusterPlan, variables: Any, options: dict[str, Any], go: Any
) -> list[BisectRun]:
    """Return the runs that are complete before the search begins: check L3's own job."""
    return bisected.build_first_run(collect_seen_state(plan, variables, options)) if go else []


def ladder_bisect_next(
    plan: ClusterPlan, variables: Any, options: dict[str, Any]
) -> bisected.NextBisectRun:
    """Return the groups that run next, with a line that describes them."""
    seen = collect_seen_state(plan, variables, options)
    return bisected.plan_next_run(seen, seen.bisect)


def ladder_bisect_most(plan: ClusterPlan) -> list[int]:
    """Return a number for each possible run."""
    return list(range(bisect.count_max_runs(len(plan["nodes"]))))


def ladder_bisect_jobs(plan: ClusterPlan, groups: Any, jobs: Any) -> Each:
    """Return the arguments for the nodes in a run's groups. *jobs*: those of the job over all nodes."""
    parts = to_json_value(groups)
    given = {}
    for host in (str(one) for group in parts for one in group):
        part = bisected.get_node_part(plan, parts, host)
        own = {"MASTER_ADDR": part["master"], "WORLD_SIZE": part["world"]}
        given[host] = {
            "ranks": part["ranks"],
            "python": jobs["python"][host],
            "environment": {**to_json_value(jobs["environment"][host]), **own},
        }
    return group_by_argument(given)


def ladder_bisect_after(
    plan: ClusterPlan, variables: Any, options: dict[str, Any], groups: Any
) -> list[BisectRun]:
    """Return the runs so far with the latest one. A node whose ranks could not be started counts as silent."""
    seen, answers = (
        collect_seen_state(plan, variables, options),
        read_part_answers(variables, "bisected"),
    )
    said: dict[str, CollectedRanks | None] = {}
    for name in (name for group in to_json_value(groups) for name in group):
        try:
            said[name] = contract.convert_answer(
                CollectedRanks, to_json_value(answers.get(name, {"failed": True}))
            )
        except contract.ContractError:
            said[name] = None
    return [*seen.bisect, bisected.build_bisect_run(seen, to_json_value(groups), said)]


def ladder_result(
    plan: ClusterPlan, hostvars: Any, variables: Any, options: dict[str, Any], run: dict[str, Any]
) -> Result:
    """Evaluate everything, and return a result that follows the schema."""
    about = build.VerificationRun(
        name=str(run["name"]),
        started=str(run["started"]),
        finished=str(run["finished"]),
        lab=str(run["lab"]),
        notes={n: to_json_value(hostvars[n].get("fullmesh_notes", [])) for n in plan["nodes"]},
        systems={n: format_system(hostvars[n].get("ansible_facts", {})) for n in plan["nodes"]},
        why_not_outside=str(options.get("why_not_outside", "")),
    )
    try:
        return root_cause.build_result(collect_seen_state(plan, variables, options), about)
    except ValueError as error:
        raise AnsibleFilterError(f"ladder_result: {error}") from error


def format_system(facts: dict[str, Any]) -> str:
    """Format the operating system."""
    words = (facts.get("distribution", ""), facts.get("distribution_version", ""))
    return " ".join(str(word) for word in words if word)


def ladder_summary(value: Result) -> list[str]:
    """Format the result as lines of text."""
    return terminal.format_summary(to_json_value(value))


def ladder_failure(value: Result) -> str:
    """Describe the failed checks and every cause."""
    return terminal.describe_failure(to_json_value(value))


def ladder_textfile(value: Any, node: str) -> str:
    """Render the metrics of *node* for Prometheus' node_exporter."""
    return textfile.render_textfile(validate_answer(Result, value, "the verification"), str(node))
