"""Provide the diagnosis to Ansible."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from fullmesh.ask.each import Each, format_arguments_json, group_by_argument
from fullmesh.causes.quality import rates
from fullmesh.causes.quality.rates import Way
from fullmesh.diagnose import inventory, judge, shape, show, traces
from fullmesh.filters.observe.verify_cluster import (
    build_node_identity,
    choose_rail_targets,
    choose_rdma_targets,
)
from fullmesh.model.types import ClusterPlan
from fullmesh.plain import to_json_value
from fullmesh.result.types import Result
from fullmesh.verify import probe_wants, rdma_pairs, schedule
from fullmesh.verify.blocked import FIREWALLED
from fullmesh.verify.schedule import ProbeScope

# The calls of a diagnosis, and the variables in which playbooks/diagnosis/tasks/diagnose.yml keeps the answers.
PARTS = {
    "node": "__diagnose_looked",
    "links": "__diagnose_linked",
    "closer": "__diagnose_closer",
    "traced": "__diagnose_traced",
    "started": "__diagnose_stopped",
}
RATED = "__diagnose_rated"


def diagnose_hosts(groups: Any) -> list[str]:
    """Return the hosts of group torch_nodes, or all hosts if it is empty.

    Ansible evaluates a play's hosts before it forks, so the filters are loaded once instead of per task and host.
    """
    return [str(host) for host in groups.get("torch_nodes") or groups["all"]]


def diagnose_first(hostvars: Any, hosts: list[str]) -> str:
    """Return the first of *hosts* that took part, because --limit may leave others out."""
    names = [str(host) for host in hosts]
    return next((name for name in names if "__diagnose_run" in hostvars[name]), names[0])


def diagnose_plan(hostvars: Any, hosts: list[str]) -> ClusterPlan:
    """Return the plan of *hosts*, even for an incomplete inventory."""
    return inventory.build_tolerant_plan(hostvars, [str(host) for host in hosts])


def diagnose_wants(plan: ClusterPlan, hostvars: Any) -> Each:
    """Return the survey's arguments for each node."""
    wanted = {
        name: inventory.build_node_request(plan, name, hostvars[name]) for name in plan["nodes"]
    }
    return group_by_argument({name: {"node": name, **own} for name, own in wanted.items()})


def diagnose_scope(plan: ClusterPlan, bandwidth: Any, run: str) -> ProbeScope:
    """Return the part of the mesh to test. If rates are measured, every link is tested."""
    how = "ports" if int(bandwidth) else "auto"
    return schedule.build_probe_scope(plan, how, [], False, str(run))


def diagnose_probes(
    plan: ClusterPlan,
    opened: Any,
    scope: Any,
    users: Mapping[str, str],
    surveyed: Mapping[str, Any],
) -> str:
    """Return the listeners that each node connects to: all of each peer, or one of each in the schedule's order.

    Nodes with RDMA also get the pairs of devices to try, and nodes with rails the listeners on these.
    """
    hosts = {str(host): str(user) for host, user in users.items()}
    plan, opened = to_json_value(plan), to_json_value(opened)
    rdma = choose_rdma_targets(plan, opened, surveyed)
    rails = choose_rail_targets(plan, surveyed)
    each = group_by_argument(
        {
            host: {
                **build_node_identity(plan, host),
                "targets": schedule.list_full_targets(plan, opened, host, scope),
                "sweep": schedule.build_sweep(plan, opened, host, scope),
                "job_user": user,
                **rdma.get(host, {}),
                **rails.get(host, {}),
            }
            for host, user in hosts.items()
        }
    )
    return format_arguments_json(each)


def diagnose_job_users(hostvars: Any, opened: Any) -> dict[str, str]:
    """Return the account of jobs on each node, from the inventory."""
    return {host: str(hostvars[host].get("launchers_job_user") or "") for host in map(str, opened)}


def diagnose_not_root(surveyed: Mapping[str, Any]) -> list[str]:
    """List the nodes that were surveyed without root."""
    return [
        str(host)
        for host, said in surveyed.items()
        if "facts" in said and not said["facts"]["survey"]["root"]
    ]


def diagnose_as_login(surveyed: Mapping[str, Any], users: Mapping[str, str]) -> list[str]:
    """List the nodes that connect as the login account: no account of jobs is set, or the user cannot change to it."""
    unnamed = {str(host) for host, user in users.items() if not user}
    return sorted(unnamed.union(diagnose_not_root(surveyed)))


def diagnose_shut(linked: Mapping[str, Any]) -> bool:
    """Return whether any connection found no open listener."""
    return any(
        one["verdict"] in FIREWALLED
        for said in linked.values()
        for one in (said or {}).get("links", [])
    )


def diagnose_traces(variables: Any, hosts: list[str], scope: Any) -> Each:
    """Return the connections to repeat while the kernels trace their rules. *variables*: of a host that took part."""
    plan = to_json_value(variables["__diagnose_plan"])
    observed = {
        name: collect_observations(variables, name) for name in (str(host) for host in hosts)
    }
    about = judge.DiagnosisRun(run="", started="", finished="", scope=to_json_value(scope))
    return group_by_argument(
        traces.build_trace_requests(judge.build_evidence(plan, observed, about))
    ) or {"node": {}}


def diagnose_rounds(plan: ClusterPlan, opened: Any) -> list[list[Way]]:
    """Return the rounds that measure the rates of all pairs of surveyed nodes."""
    return rates.schedule_rate_rounds([name for name in plan["nodes"] if name in opened])


def diagnose_partners(
    plan: ClusterPlan, opened: Any, linked: Mapping[str, Any], pairs: list[Way]
) -> Each:
    """Map each node of a round to a listener that it could reach. Nodes without one pause."""
    given = {}
    for host, peer in ((str(a), str(b)) for pair in pairs for a, b in (pair, pair[::-1])):
        links = (linked.get(host) or {}).get("links", [])
        good = {(one["node"], one["port"]) for one in links if one["verdict"] == "open"}
        targets = probe_wants.list_probe_targets(plan, {peer: opened[peer]}, host)
        chosen = [one for one in targets if (one["node"], one["port"]) in good][:1]
        if chosen:
            given[host] = {**build_node_identity(plan, host), "targets": chosen}
            probe = shape.sanitize_probe(linked.get(host) or {}, set(plan["nodes"]))
            tried = probe.get("rdma", {}).get("pairs", [])
            rdma = rdma_pairs.build_rate_targets(plan, opened[peer], peer, tried)
            given[host] |= {"rdma": rdma} if rdma else {}
    return group_by_argument(given) or {"node": {}}


def collect_observations(variables: Any, host: str) -> dict[str, Any]:
    """Collect the answers of one node by call. Its rates are part of its links."""
    found = {}
    for part, name in PARTS.items():
        # a skipped call has no answers
        said = variables.get(name, {}).get("answers", {})
        if host in said:
            found[part] = to_json_value(said[host])
    rounds = [one["answers"].get(host, {}) for one in variables.get(RATED, {}).get("results", [])]
    measured = [to_json_value(rate) for one in rounds for rate in one.get("bandwidth", [])]
    if "links" in found and measured:
        found["links"]["bandwidth"] = measured
    rated = [rate for one in rounds for rate in (one.get("rdma") or {}).get("rates", [])]
    if "links" in found and found["links"].get("rdma") and rated:
        found["links"]["rdma"]["rates"] = to_json_value(rated)
    return found


def diagnose_result(variables: Any, hosts: list[str], about: dict[str, Any]) -> Result:
    """Evaluate all observations. *variables*: of a host that took part."""
    plan = to_json_value(variables["__diagnose_plan"])
    observed = {
        name: collect_observations(variables, name) for name in (str(host) for host in hosts)
    }
    try:
        return judge.diagnose_cluster(plan, observed, judge.DiagnosisRun(**to_json_value(about)))
    except ValueError as error:
        raise AnsibleFilterError(f"diagnose_result: {error}") from error


def diagnose_summary(result: Result) -> list[str]:
    """Format the result as lines of text."""
    return show.format_diagnosis(to_json_value(result))
