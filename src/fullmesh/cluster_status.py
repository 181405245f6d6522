"""Compute the state of a cluster between two runs: configured nodes, drift, and running jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from fullmesh.faults import Fault
from fullmesh.model import membership
from fullmesh.model.types import ClusterPlan
from fullmesh.printed import shorten_time, wrap_text
from fullmesh.roles import pending_changes, preflight

State = Literal["configured", "drifted", "outdated peers", "not configured", "no answer"]
SCHEMA = 1
LABEL = 8  # columns
DRIFT_SHOWN = 2  # differences of a node
HISTORY_SHOWN, HISTORY_WIDTH = 16, 500  # lines of a node
TIMED_OUT, ABSENT = 124, 127  # exit status of timeout(1), which runs the program


class NodeState(TypedDict):
    """A node.

    Attributes:
        drift: a sentence for each difference from its manifest.
        pending: changes that the node will revert.
        busy: programs that work on its packages.
        history: its checks (role node_health), if they were queried.
    """

    state: State
    address: str
    rank: int
    drift: list[str]
    pending: list[str]
    busy: list[str]
    history: list[str]


class ClusterState(TypedDict):
    """All nodes of a run.

    Attributes:
        faults: coded sentences, as preflight reports them.
    """

    nodes: dict[str, NodeState]
    faults: list[str]


class RunningJob(TypedDict):
    """A job with ranks on the nodes."""

    name: str
    account: str
    ranks: int
    nodes: list[str]


class LastRun(TypedDict):
    """The newest result of these nodes."""

    run: str
    kind: str
    verdict: str
    headline: str
    finished: str
    path: str


class StatusReport(ClusterState):
    """Everything that ``status`` prints.

    Attributes:
        jobs: None if they are unknown.
        unasked: node -> why its jobs are unknown.
    """

    schema: int
    inventory: str
    last_run: LastRun | None
    jobs: list[RunningJob] | None
    unasked: dict[str, str]


def judge_cluster_state(
    plan: ClusterPlan, hostvars: Any, hosts: Sequence[str], given: preflight.PreflightInput
) -> ClusterState:
    """Compare the answers of *hosts* with their manifests and with the plan."""
    observed, _ = preflight.collect_node_facts(hostvars, hosts, given.get("asked", {}))
    verdict = preflight.judge_preflight(plan, hostvars, hosts, given)
    groups = {host: group for group, held in verdict["parted"].items() for host in held}
    nodes: dict[str, NodeState] = {}
    for host in hosts:
        seen, entry = observed.get(host), plan["nodes"][host]
        nodes[host] = {
            "state": _name_state(groups[host], configured=bool(seen["members"]))
            if seen
            else "no answer",
            "address": entry["address"],
            "rank": entry["node_rank"],
            "drift": seen["drift"] if seen else [],
            "pending": pending_changes.describe_pending_changes(seen["pending"]) if seen else [],
            "busy": seen["busy"] if seen else [],
            "history": list_history_lines(hostvars[host].get("__status_history")),
        }
    return {"nodes": nodes, "faults": verdict["faults"]}


def list_history_lines(answer: Any) -> list[str]:
    """Return the lines of ``fullmesh-health history`` in a node's answer, [] if it was not queried."""
    if not isinstance(answer, Mapping) or "rc" not in answer:
        return []
    if answer["rc"] == ABSENT:
        return ["no checks are recorded (role node_health is off)"]
    if answer["rc"] != 0:
        last = str(answer.get("stderr") or answer.get("msg") or "").strip().splitlines()[-1:]
        reason = "no answer within 10 s" if answer["rc"] == TIMED_OUT else " ".join(last)
        return [
            f"the checks cannot be read (exit status {answer['rc']}): {reason}"[:HISTORY_WIDTH],
            "check: /opt/fullmesh/bin/fullmesh-health history",
        ]
    lines = answer.get("stdout_lines")
    found = lines if isinstance(lines, Sequence) and not isinstance(lines, str) else []
    return [str(line)[:HISTORY_WIDTH] for line in found[:HISTORY_SHOWN]]


def _name_state(group: membership.Group, *, configured: bool) -> State:
    if not configured:
        return "not configured"
    if group == "drifted":
        return "drifted"
    return "outdated peers" if group == "peers" else "configured"


def find_status_problems(report: StatusReport) -> list[Fault]:
    """List the problems of the cluster, each with its next step."""
    typed = f"-i {report['inventory']}"
    found = []
    by_state: dict[State, list[str]] = {}
    for name, node in report["nodes"].items():
        by_state.setdefault(node["state"], []).append(name)
        for what in node["pending"]:
            step = "Fix: wait until the node has reverted it, then run apply again"
            found.append(Fault("ST-103", f"{name}: an unconfirmed change is pending: {what}", step))
    if silent := by_state.get("no answer"):
        text = f"No answer from {', '.join(silent)}"
        found.append(Fault("ST-101", text, f"Check: ./fullmesh diagnose {typed}"))
    changed = [name for name, node in report["nodes"].items() if node["state"] in NEEDS_APPLY]
    if changed:
        text = f"Not as configured: {', '.join(changed)}"
        found.append(Fault("ST-102", text, f"Fix: ./fullmesh apply {typed}"))
    last = report["last_run"]
    if last and last["verdict"] != "ok":
        text = f"The last run failed: {last['headline']}"
        found.append(Fault("ST-104", text, f"Check: ./fullmesh report {last['path']}"))
    return found


NEEDS_APPLY = ("drifted", "outdated peers", "not configured")
CODES = {
    "ST-101": "A node does not answer",
    "ST-102": "A node is not as Fullmesh configured it, or was never configured",
    "ST-103": "A change on a node was not confirmed, and the node will revert it",
    "ST-104": "The last run on these nodes failed",
    "ST-105": "The nodes could not be checked",
}


def render_status(report: StatusReport, width: int = 0) -> list[str]:
    """Render the report as lines of at most *width* columns (0: any width)."""
    nodes = report["nodes"]
    head = ("node", "state", "rank", "address")
    rows = [
        head,
        *((n, one["state"], str(one["rank"]), one["address"]) for n, one in nodes.items()),
    ]
    columns = [max(len(row[at]) for row in rows) for at in range(len(head))]
    lines = []
    for row in rows:
        cells = zip(row, columns, strict=True)
        lines.append("  ".join(f"{cell:<{column}}" for cell, column in cells).rstrip())
        for text in _list_node_remarks(nodes[row[0]]) if row is not head else ():
            lines += wrap_text(text, width, "    ", "    ")
    problems = [*map(str, find_status_problems(report)), *report["faults"]]
    lines += ["", *wrap_label("jobs", _describe_jobs(report), width)]
    lines += wrap_label("last run", _describe_last_run(report["last_run"]), width)
    for problem in problems:
        lines += wrap_text(problem, width)
    return lines if problems else [*lines, f"OK: {len(nodes)} nodes as configured"]


def _list_node_remarks(node: NodeState) -> list[str]:
    shown = node["drift"][:DRIFT_SHOWN] if node["state"] != "not configured" else []
    more = len(node["drift"]) - len(shown) if shown else 0
    return [
        *shown,
        *([f"and {more} more"] if more else []),
        *(f"busy: {one}" for one in node["busy"]),
        *node["history"],
    ]


def _describe_jobs(report: StatusReport) -> str:
    if report["jobs"] is None:
        return "unknown (no answer)"
    lines = [
        f"{job['name']}{' of ' + job['account'] if job['account'] else ''}"
        f" ({job['ranks']} ranks on {', '.join(job['nodes'])})"
        for job in report["jobs"]
    ]
    lines += [f"unknown on {name} ({why})" for name, why in report["unasked"].items()]
    return "; ".join(lines) or "none"


def _describe_last_run(last: LastRun | None) -> str:
    if last is None:
        return "none with these nodes. Check: ./fullmesh verify"
    return f"{last['headline']} ({last['kind']}, {shorten_time(last['finished'])}, {last['path']})"


def wrap_label(label: str, text: str, width: int) -> list[str]:
    """Wrap a text behind its label."""
    first, *more = wrap_text(text, max(width - LABEL - 2, 1) if width else 0) or [""]
    indent = " " * (LABEL + 2)
    return [f"{label:<{LABEL}}  {first}", *(indent + line.strip() for line in more)]


def group_running_jobs(
    ranks: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]],
) -> list[RunningJob]:
    """Group the running ranks by (account, name) of their job."""
    return [
        {
            "name": name,
            "account": account,
            "ranks": len(held),
            "nodes": sorted({str(rank["host"]) for rank in held}),
        }
        for (account, name), held in sorted(ranks.items())
        if held
    ]
