"""Verify a cluster: observations become checks, findings and a verdict. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict, cast

from fullmesh.diagnose.run import run_cause_checks
from fullmesh.faults import Fault
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names
from fullmesh.result.types import CheckId, RankRow, Status
from fullmesh.verify import (
    bisected,
    mesh,
    pairs,
    probe_wants,
    rank_ends,
    rdma_tries,
    schedule,
)
from fullmesh.verify import gpu as verify_gpu
from fullmesh.verify import node as verify_node
from fullmesh.verify import ranks as verify_ranks
from fullmesh.verify.model import (
    CHECKS,
    FAILED,
    NOT_RUN,
    PASSED,
    SKIPPED,
    CheckOutcome,
    ClusterObservations,
    describe_limited_nodes,
)

JOB_CHECKS: tuple[CheckId, ...] = ("L3", "L4", "L5", "L7", "L8")
NOT_ASKED = "not selected (verify_cluster_checks)"
LIMITS = {
    "verify_cluster_deadline_seconds": (10, 3600),
    "verify_cluster_init_timeout_seconds": (1, 600),
    "verify_cluster_link_deadline_seconds": (0.5, 60),
    "verify_cluster_payload_bytes": (0, 16777216),
    "verify_cluster_sample_ports": (1, 64),
    "verify_cluster_bandwidth_mib": (1, 4096),
    "verify_cluster_clock_limit_seconds": (0.1, 3600),
}


def parse_setting_number(value: Any) -> float | None:
    """Parse a number, also from the text that ``-e name=8`` gives. Return None if it is not one."""
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def find_verify_faults(settings: Mapping[str, Any]) -> list[Fault]:
    """Return the faults in the role's settings."""
    found = []
    unknown = [str(check) for check in settings["verify_cluster_checks"] if check not in CHECKS]
    if unknown or not settings["verify_cluster_checks"]:
        found.append(
            Fault(
                "VC-701",
                f"verify_cluster_checks has {unknown or 'nothing'}, which is not a check",
                f"Choose from {', '.join(CHECKS)}",
            )
        )
    how = str(settings["verify_cluster_links"])
    if how not in schedule.HOW:
        found.append(
            Fault(
                "VC-780",
                f"verify_cluster_links is {how!r}",
                f"Choose from {', '.join(schedule.HOW)}",
            )
        )
    numbers = {name: parse_setting_number(settings[name]) for name in LIMITS}
    for name, (low, high) in LIMITS.items():
        value = numbers[name]
        if value is None or not low <= value <= high:
            step = f"Use a number from {low:g} to {high:g}"
            found.append(Fault("VC-702", f"{name} is {settings[name]!r}", step))
    init, deadline = (numbers[f"verify_cluster_{x}_seconds"] for x in ("init_timeout", "deadline"))
    if not found and init is not None and deadline is not None and init >= deadline:
        found.append(
            Fault(
                "VC-702",
                f"verify_cluster_init_timeout_seconds ({settings['verify_cluster_init_timeout_seconds']}) is not below "
                f"verify_cluster_deadline_seconds ({settings['verify_cluster_deadline_seconds']})",
                "Raise the deadline, because Gloo waits 5 times its timeout",
            )
        )
    return found


def filter_asked_findings(seen: ClusterObservations, found: Sequence[Finding]) -> list[Finding]:
    """Keep the findings of the selected checks."""
    return [finding for finding in found if finding.rung in seen.checks]


def add_lower_checks(seen: ClusterObservations) -> ClusterObservations:
    """Add the checks below a selected one of the job. Without them, it would pass if the job stopped early."""
    last = max(
        (JOB_CHECKS.index(check) for check in seen.checks if check in JOB_CHECKS), default=-1
    )
    brought = [check for check in JOB_CHECKS[: last + 1] if check not in seen.checks]
    return replace(seen, checks=(*seen.checks, *brought)) if brought else seen


def list_check_errors(found: Sequence[Finding], checks: Sequence[str]) -> list[Finding]:
    """List the findings that fail one of the given checks."""
    return [f for f in found if f.rung in checks and f.severity == ERROR]


def list_nodes_without_torch(seen: ClusterObservations) -> list[str]:
    """List the nodes on which the interpreter of the jobs has no torch."""
    return [n for n in seen.plan["nodes"] if not seen.facts(n).get("versions", {}).get("torch")]


def explain_no_start(seen: ClusterObservations, below: Sequence[Finding]) -> str:
    """Return why no Gloo job should start now, or "" if it should.

    On a broken mesh, a job only hangs: Gloo waits 5 times its timeout and names the wrong node.
    """
    if not any(check in seen.checks for check in JOB_CHECKS):
        return NOT_ASKED
    broken = sorted({f.rung for f in list_check_errors(below, ("L0", "L2"))})
    if broken:
        return f"{' and '.join(broken)} failed, so Gloo would only hang"
    if seen.left_out():
        return describe_limited_nodes(seen.left_out())
    taken = [f for f in below if f.code == "VC-109"]
    if taken:
        return f"L1 failed: {taken[0].cause}"
    lacking = list_nodes_without_torch(seen)
    if lacking and seen.check_mode:
        return f"check mode: torch is not installed on {join_names(lacking)}"
    return ""


def check_before_job(seen: ClusterObservations) -> list[Finding]:
    """Return the findings that are known before a job starts."""
    rules = (
        run_cause_checks,
        pairs.rule_open_links,
        rdma_tries.check_rdma,
    )
    return filter_asked_findings(seen, [finding for rule in rules for finding in rule(seen)])


class JobStart(TypedDict):
    """The decision whether to start the ranks. *deadline* and *init_timeout* are in seconds."""

    go: bool
    reason: str
    steps: list[str]
    deadline: int
    init_timeout: int


def decide_job_start(seen: ClusterObservations) -> JobStart:
    """Decide whether to start the ranks, and which steps they run, or give the reason."""
    seen = add_lower_checks(seen)
    reason = explain_no_start(seen, check_before_job(seen))
    factor = verify_ranks.compute_time_factor(seen)
    return {
        "go": not reason,
        "reason": reason,
        "steps": rank_ends.list_steps(seen.checks),
        "deadline": round(seen.deadline * factor),
        "init_timeout": round(seen.init_timeout * factor),
    }


def find_longest_call(seen: ClusterObservations, part: str, inner: str = "") -> float:
    """Return the longest time of a call on any node."""
    found = 0.0
    for said in seen.nodes.values():
        answers: Mapping[str, Any] = cast("Mapping[str, Any]", said)
        answer = answers.get(part, {})
        answer = answer.get(inner, {}) if inner else answer
        found = max(found, float(answer.get("seconds", 0.0) or 0.0))
    return found


def limit_to_run_nodes(seen: ClusterObservations, check: CheckOutcome) -> CheckOutcome:
    """Mark a passed check as not run if nodes were left out, because it does not cover them."""
    if check.status != PASSED or not seen.left_out():
        return check
    return CheckOutcome(
        check.id, NOT_RUN, describe_limited_nodes(seen.left_out()), check.seconds, check.details
    )


def judge_check(
    seen: ClusterObservations,
    check: CheckId,
    found: Sequence[Finding],
    seconds: float,
    details: Mapping[str, object],
) -> CheckOutcome:
    """Return the outcome of a check that ran on all nodes."""
    if check not in seen.checks:
        return CheckOutcome(check, SKIPPED, NOT_ASKED)
    bad = list_check_errors(found, (check,))
    reason = bad[0].cause if bad else ""
    return CheckOutcome(check, FAILED if bad else PASSED, reason, seconds, details)


def judge_link_check(
    seen: ClusterObservations, found: Sequence[Finding], why_not_outside: str
) -> CheckOutcome:
    """Judge check L2."""
    wanted, tried = mesh.count_wanted_pairs(seen), mesh.count_tried_pairs(seen)
    details = {
        "pairs": tried,
        "open": tried - mesh.count_blocked_pairs(seen),
        "connections": sum(mesh.count_connections(seen, n) for n in seen.plan["nodes"]),
        "notes": [
            *pairs.describe_untested_guards(seen, why_not_outside),
            *mesh.describe_coverage(seen),
            *probe_wants.describe_untried_ports(seen.plan),
            *(f"RDMA of {node}: {why}" for node, why in rdma_tries.describe_untried_rdma(seen)),
        ],
        "outsider": [
            {"node": r["node"], "port": r["port"], "verdict": r["verdict"]}
            for r in seen.outside.get("links", [])
        ],
    }
    check = judge_check(seen, "L2", found, find_longest_call(seen, "links"), details)
    if check.status == PASSED and not wanted:
        return CheckOutcome("L2", SKIPPED, "one node has no links")
    if check.status == PASSED and tried < wanted:
        return CheckOutcome(
            "L2", NOT_RUN, f"only {tried} of {wanted} links were tried", 0.0, details
        )
    return check


def get_job_details(
    seen: ClusterObservations, check: str, table: Sequence[RankRow]
) -> Mapping[str, object]:
    """Return the details to keep for a check of the job."""
    if check == "L7":
        return verify_gpu.build_nccl_details(seen)
    if check == "L8":
        return verify_gpu.build_training_details(seen)
    return {"ranks": list(table)} if check == "L3" else {}


def judge_job_checks(
    seen: ClusterObservations, found: Sequence[Finding], why_not: str
) -> list[CheckOutcome]:
    """Judge checks L3 to L5, L7 and L8 in order. Checks after a failed one are not run."""
    checks: list[CheckOutcome] = []
    table = [] if why_not else verify_ranks.build_rank_rows(seen)
    spent = verify_ranks.summarize_collectives(seen)
    for check in JOB_CHECKS:
        if check not in seen.checks:
            checks.append(CheckOutcome(check, SKIPPED, NOT_ASKED))
            continue
        if why_not:
            word: Status = SKIPPED if seen.check_mode else NOT_RUN
            checks.append(CheckOutcome(check, word, why_not))
            continue
        broken = next((r for r in checks if r.status == FAILED), None)
        if broken:
            checks.append(CheckOutcome(check, NOT_RUN, f"{broken.id} failed"))
            continue
        absent = verify_gpu.explain_no_gpus(seen) if check == "L7" else ""
        if absent:
            checks.append(CheckOutcome(check, SKIPPED, absent))
            continue
        details = get_job_details(seen, check, table)
        seconds = verify_ranks.sum_check_seconds(spent, check)
        judged = judge_check(seen, check, found, seconds, details)
        if check == "L7" and judged.status == PASSED:
            judged = replace(judged, reason=verify_gpu.describe_nccl_library(seen))
        checks.append(judged)
    return checks


def judge_nccl_check(seen: ClusterObservations, found: Sequence[Finding]) -> CheckOutcome:
    """Judge check L6."""
    reason = verify_node.explain_no_nccl(seen)
    if "L6" in seen.checks and reason:
        return CheckOutcome("L6", SKIPPED, reason)
    details = {
        name: {k: v for k, v in node.get("node", {}).get("nccl", {}).items() if v}
        for name, node in seen.nodes.items()
    }
    return judge_check(seen, "L6", found, find_longest_call(seen, "node", "nccl"), details)


def soften_in_check_mode(
    checks: Sequence[CheckOutcome], found: Sequence[Finding]
) -> tuple[list[CheckOutcome], list[Finding]]:
    """Turn errors into warnings in check mode, because nothing was configured."""
    mild = [replace(f, severity=WARNING) if f.severity == ERROR else f for f in found]
    softened = [
        CheckOutcome(r.id, SKIPPED, f"check mode: {r.reason}", r.seconds, r.details)
        if r.status in (FAILED, NOT_RUN)
        else r
        for r in checks
    ]
    return softened, mild


def judge_all_checks(
    seen: ClusterObservations, why_not_outside: str = ""
) -> tuple[list[CheckOutcome], list[Finding]]:
    """Judge all checks."""
    seen = add_lower_checks(seen)
    below = check_before_job(seen)
    why_not = explain_no_start(seen, below)
    job = [] if why_not else [*verify_ranks.check_ranks(seen), *verify_gpu.check_gpu_jobs(seen)]
    job += bisected.check_bisect_runs(seen)
    found = [*below, *filter_asked_findings(seen, job)]
    facts_seconds = find_longest_call(seen, "node", "facts")
    clocks = {n: round(v, 3) for n, v in verify_node.compute_clock_offsets(seen).items()}
    checks = [
        limit_to_run_nodes(seen, judge_check(seen, "L0", found, facts_seconds, {})),
        limit_to_run_nodes(
            seen, judge_check(seen, "L1", found, facts_seconds, {"clock_offsets": clocks})
        ),
        judge_link_check(seen, found, why_not_outside),
        *judge_job_checks(seen, found, why_not),
        limit_to_run_nodes(seen, judge_nccl_check(seen, found)),
    ]
    order = list(CHECKS)
    checks.sort(key=lambda check: order.index(check.id))
    found = sorted(found, key=lambda f: (f.severity != ERROR, order.index(f.rung)))
    return soften_in_check_mode(checks, found) if seen.check_mode else (checks, found)
