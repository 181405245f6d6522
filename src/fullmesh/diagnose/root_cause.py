"""Apply the rules of the diagnosis to the observations of a failed verification, to find root causes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import fold_cluster_findings
from fullmesh.diagnose import shape, thin, verification
from fullmesh.diagnose.run import filter_ladder_findings, find_causes, find_hidden_causes
from fullmesh.result.findings import ERROR, Finding
from fullmesh.result.types import Result
from fullmesh.verify import build
from fullmesh.verify.model import FAILED, PASSED, CheckOutcome, ClusterObservations


def has_hidden_signs(seen: ClusterObservations, name: str) -> bool:
    """Return whether a node's answers have anything that a hidden cause reads: most nodes have nothing."""
    ways = seen.nodes.get(name, {}).get("links", {}).get("ways")
    survey = seen.survey(name)
    unit = survey.get("job_unit")
    changed = unit and (unit["drop_ins"] or unit.get("missing") or unit.get("load") == "masked")
    return bool(ways or survey.get("queues") or changed)


def add_root_causes(seen: ClusterObservations, found: Sequence[Finding]) -> list[Finding]:
    """Put root causes above symptoms. If a verification failed, add the diagnosis's findings, else the hidden ones.

    Without the survey of the nodes (an older module, an unreachable node), most rules find nothing, and the findings
    stay unchanged.
    """
    if seen.check_mode:
        return list(found)
    passed = not any(finding.severity == ERROR for finding in found)
    if passed and not any(has_hidden_signs(seen, name) for name in seen.plan["nodes"]):
        return fold_cluster_findings(found)
    names = set(seen.plan["nodes"])
    nodes = {name: shape.sanitize_node(node, names) for name, node in seen.nodes.items()}
    evidence = ClusterEvidence(
        seen=ClusterObservations(
            plan={
                **seen.plan,
                "nodes": {n: v for n, v in seen.plan["nodes"].items() if nodes.get(n)},
            },
            nodes={name: node for name, node in nodes.items() if node},
            checks=seen.checks,
            mode=seen.mode,
            clock_limit=seen.clock_limit,
            inventory=seen.inventory,
        ),
        plan=seen.plan,
    )
    if passed:
        hidden = [one for one in find_hidden_causes(evidence) if one.rung in seen.checks]
        return fold_cluster_findings([*hidden, *found])
    kept = thin.select_links(evidence)
    if kept is None:
        deeper = find_causes(evidence)
    else:
        deeper = thin.extend_to_groups(
            find_causes(thin.thin_out_links(evidence, kept)), found, kept
        )
    deeper = [one for one in deeper if one.rung in seen.checks]
    return fold_cluster_findings([*deeper, *filter_ladder_findings(evidence, found, deeper)])


def list_folded_causes(finding: Finding) -> Iterator[str]:
    """List the causes that a finding and those below it name."""
    yield finding.cause
    for one in finding.follows:
        yield from list_folded_causes(one)


def name_root_cause(check: CheckOutcome, found: Sequence[Finding]) -> CheckOutcome:
    """Give a failed check the root cause as its reason. A check that passed fails if the root cause is its own."""
    errors = [one for one in found if one.severity == ERROR]
    if check.status == PASSED:
        reason = next((one.cause for one in errors if one.rung == check.id), "")
        return replace(check, status=FAILED, reason=reason) if reason else check
    if check.status != FAILED:
        return check
    own = [one for one in errors if one.rung == check.id]
    heads = [one for one in errors if check.reason in list_folded_causes(one)]
    return replace(check, reason=next((one.cause for one in (*heads, *own)), check.reason))


def build_result(seen: ClusterObservations, run: build.VerificationRun) -> Result:
    """Judge the observations and return the result.

    Raises:
        ValueError: the result does not follow its own schema, which is a defect of Fullmesh.
    """
    checks, found = verification.judge_all_checks(seen, run.why_not_outside)
    found = add_root_causes(seen, found)
    checks = [name_root_cause(check, found) for check in checks]
    return build.validate_result(build.assemble_result(seen, run, checks, found))
