"""Derive the result of a diagnosis: validate the observations, run all rules, fold symptoms, build the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from fullmesh import __version__
from fullmesh.causes.evidence import ClusterEvidence, has_loopback_prefix
from fullmesh.causes.relations import fold_cluster_findings
from fullmesh.causes.routes import decisions
from fullmesh.diagnose import compare, shape, thin
from fullmesh.diagnose.run import (
    check_next_boot,
    filter_ladder_findings,
    find_causes,
    run_cause_checks,
)
from fullmesh.model.ports import range_to_data_ports
from fullmesh.model.types import ClusterPlan, DataPorts, PlanNode
from fullmesh.observed.ports import PortRange
from fullmesh.result.findings import ERROR, WARNING, Finding
from fullmesh.result.survey import get_survey
from fullmesh.result.types import CheckId, MissedRow, NodeSummary, NoteRow, Result
from fullmesh.verify import (
    build,
    pairs,
    rdma_pairs,
    rdma_tries,
    schedule,
)
from fullmesh.verify import mesh as verify_mesh
from fullmesh.verify.blocked import CODES_OF
from fullmesh.verify.model import (
    CHECKS,
    FAILED,
    PASSED,
    SKIPPED,
    CheckOutcome,
    ClusterObservations,
    NodeAnswers,
)
from fullmesh.verify.schedule import ProbeScope

WRONG_SOURCE = CODES_OF["wrong_source"]
JUDGED: tuple[CheckId, ...] = ("L0", "L1", "L2")
# Requirements of a plan. On unconfigured nodes, findings about them would be wrong.
OF_A_PLAN = frozenset({"VC-107", "VC-108", "VC-122", "VC-123", "VC-212", "VC-602", "VC-604"})
# The diagnosis compares the nodes' GPUs and ranks with its own rules.
OF_A_JOB = ("VC-111", "VC-717", "VC-718")


@dataclass(frozen=True)
class DiagnosisRun:
    """Facts about a run, in addition to the observations.

    Attributes:
        run: name of the directory under ``runs``.
        started: ISO 8601 with offset.
        finished: the same.
        inventory: the user's name of the inventory, for the commands of fixes.
        lab: the kind of the nodes, if they are not real machines.
        clock_limit: seconds that two clocks may differ.
        ec2: the answers of AWS, {} without a query.
        scope: the tested part of the mesh. None: every listener of every pair.
    """

    run: str
    started: str
    finished: str
    inventory: str = "INVENTORY"
    lab: str = ""
    clock_limit: float = 5.0
    ec2: Mapping[str, Any] = field(default_factory=dict)
    scope: ProbeScope | None = None


def explain_silent_node(answer: Any) -> tuple[str, str]:
    """Return why a node gave no usable answer: a word and the message."""
    held = answer if isinstance(answer, Mapping) else {}
    message = shape.clean_value(held.get("msg") or held.get("module_stderr") or "no answer", 400)
    return (
        "unreachable" if held.get("unreachable") is True else "failed",
        message.strip() or "no answer",
    )


def find_data_range(nodes: Mapping[str, Mapping[str, Any]], plan: ClusterPlan) -> DataPorts:
    """Return the data range of unconfigured nodes: the master's, or the first known one."""
    order = [plan["master"]["node"], *plan["nodes"]]
    for name in order:
        held = get_survey(nodes.get(name)).get("range", [])
        if len(held) == 2 and 0 < held[0] <= held[1]:  # noqa: PLR2004 (two ends)
            return range_to_data_ports(PortRange(*held))
    return plan["data_ports"]


def fill_in_ranks(plan: ClusterPlan, nodes: Mapping[str, NodeAnswers]) -> ClusterPlan:
    """Return the plan of the nodes that answered. With ranks "auto", a node has one rank per GPU."""
    left = {name for name, asked in plan.get("auto", {}).items() if asked["ranks"]}
    held: dict[str, PlanNode] = {n: {**v} for n, v in plan["nodes"].items() if n in nodes}
    for name, node in held.items():
        gpus = get_survey(nodes[name]).get("gpus")
        if name in left and gpus:
            node["local_ranks"] = max(1, len(gpus["cards"]) or len(gpus.get("pci", [])))
    return {**plan, "nodes": held}


def build_evidence(
    plan: ClusterPlan, observed: Mapping[str, Any], about: DiagnosisRun
) -> ClusterEvidence:
    """Make the observations safe and sort the nodes into those that spoke and those that did not."""
    names = set(plan["nodes"])
    nodes: dict[str, NodeAnswers] = {}
    silent: dict[str, tuple[str, str]] = {}
    for name in plan["nodes"]:
        answer = observed.get(name, {})
        safe = shape.sanitize_node(answer, names)
        if safe:
            nodes[name] = safe
        else:
            silent[name] = explain_silent_node(
                answer.get("node") if isinstance(answer, Mapping) else None
            )
    asked = cast("dict[str, schedule.ProbeAnswers]", nodes)
    nodes = cast("dict[str, NodeAnswers]", schedule.merge_probe_calls(plan, asked, about.scope))
    configured = any(get_survey(node).get("manifest") for node in nodes.values())
    assumed = bool(plan.get("guessed") or (plan.get("assumed") and not configured))
    small = fill_in_ranks(plan, nodes)
    if assumed:
        small["data_ports"] = find_data_range(nodes, plan)
    if small["nodes"] and plan["master"]["node"] not in small["nodes"]:
        stand_in = next(iter(small["nodes"].values()))
        small["master"] = {
            **plan["master"],
            "node": stand_in["name"],
            "address": stand_in["address"],
        }
    small["hosts"] = [h for h in plan["hosts"] if not assumed or h["names"]]
    seen = ClusterObservations(
        plan=small,
        nodes=nodes,
        checks=JUDGED,
        mode="off",  # ports that are open beyond the plan matter to the verification, but do not make a job fail
        clock_limit=about.clock_limit,
        inventory=about.inventory,
        planned=not plan.get("guessed"),
        scope=about.scope,
    )
    return ClusterEvidence(
        seen=seen,
        plan={**plan, "data_ports": small["data_ports"]},
        assumed=assumed,
        silent=silent,
        cloud=about.ec2,
    )


def run_verification_rules(evidence: ClusterEvidence) -> list[Finding]:
    """Run the rules of the verification's lower checks."""
    if not evidence.nodes:
        return []
    rules_of_it = (
        run_cause_checks,
        pairs.rule_open_links,
        rdma_tries.check_rdma,
    )
    found = [
        finding
        for rule in rules_of_it
        for finding in rule(evidence.seen)
        if finding.code not in OF_A_JOB
    ]
    if not evidence.assumed:
        return found
    # No setting names the network, so jobs may use the other one as well.
    found = [
        replace(f, severity=WARNING)
        if f.code == WRONG_SOURCE and decisions.has_working_links(evidence, f.pairs)
        else f
        for f in found
    ]
    return [f for f in found if not (f.code in OF_A_PLAN or is_unplanned_name(evidence, f))]


def is_unplanned_name(evidence: ClusterEvidence, finding: Finding) -> bool:
    """Report whether a name is only an alias of the inventory, which nodes need not resolve.

    Without a name server, systemd-resolved asks the neighbours (LLMNR), which exceeds Fullmesh's timeout.
    """
    if finding.code == "VC-102":
        # The name is not used if the interface is set, and the verification checks the plan's family only.
        named = bool((evidence.variable(finding.node, "GLOO_SOCKET_IFNAME") or ("",))[0])
        own = evidence.survey(finding.node).get("own_answers", [])
        other = any(evidence.holds(finding.node, a) and not has_loopback_prefix(a) for a in own)
        return named or (other and "no answer" in finding.seen)
    return finding.code == "VC-101" and (
        "unknown name" in finding.seen or "no answer" in finding.seen
    )


def find_root_causes(evidence: ClusterEvidence) -> list[Finding]:
    """Find all problems: root causes, with their consequences folded under them."""
    ladder = run_verification_rules(evidence)
    kept = thin.select_links(evidence)
    if kept is None:
        deeper = find_causes(evidence)
    else:
        deeper = thin.extend_to_groups(
            find_causes(thin.thin_out_links(evidence, kept)), ladder, kept
        )
    return fold_cluster_findings([*deeper, *filter_ladder_findings(evidence, ladder, deeper)])


def list_unobserved(evidence: ClusterEvidence) -> list[MissedRow]:
    """List the parts that could not be surveyed, with the reasons."""
    found: list[MissedRow] = [
        {"node": name, "what": "everything", "why": f"{kind}: {text}"}
        for name, (kind, text) in evidence.silent.items()
    ]
    if evidence.cloud.get("why"):
        why = shape.clean_value(evidence.cloud["why"], 400)
        found.append({"node": "", "what": "security groups and network ACLs of EC2", "why": why})
    surveys = {name: evidence.survey(name) for name in evidence.nodes}
    untried = list(rdma_pairs.explain_untried(surveys).items())
    for name, why in untried + rdma_tries.describe_untried_rdma(evidence.seen):
        found.append({"node": name, "what": "RDMA transfers", "why": why})
    for name in evidence.nodes:
        survey = evidence.survey(name)
        found += [
            {"node": name, "what": one["what"] or "something", "why": one["why"] or "unknown"}
            for one in survey.get("unknown", [])
        ]
        if not evidence.seen.facts(name).get("versions", {}).get("torch"):
            found.append(
                {"node": name, "what": "torch", "why": "no torch in the interpreter of the jobs"}
            )
        if survey.get("nft", {}).get("cut"):
            found.append({"node": name, "what": "some firewall rules", "why": "there are too many"})
        if survey.get("legacy_tables") and not survey.get("legacy_rules"):
            words = ", ".join(survey["legacy_tables"])
            found.append(
                {
                    "node": name,
                    "what": f"iptables-legacy ({words})",
                    "why": "iptables-legacy-save is not installed or gave no answer",
                }
            )
    return found


def judge_diagnosis_checks(
    evidence: ClusterEvidence, found: Sequence[Finding]
) -> list[CheckOutcome]:
    """Return the checks of the verification that a diagnosis includes."""
    made = []
    left_out = verify_mesh.describe_coverage(evidence.seen)
    of_links = {"notes": left_out} if left_out else {}
    for check in CHECKS:
        details = of_links if check == "L2" else {}
        bad = [f for f in found if f.rung == check and f.severity == ERROR]
        if check not in JUDGED:
            made.append(CheckOutcome(check, SKIPPED, "not part of a diagnosis: ./fullmesh verify"))
        elif bad:
            made.append(CheckOutcome(check, FAILED, bad[0].cause, details=details))
        elif check == "L2" and len(evidence.plan["nodes"]) == 1:
            made.append(CheckOutcome(check, SKIPPED, "one node has no links"))
        else:
            made.append(CheckOutcome(check, PASSED, "", details=details))
    return made


def summarize_nodes(evidence: ClusterEvidence) -> dict[str, NodeSummary]:
    """Summarize every node for the result. Silent nodes have only their address."""
    whole = replace(evidence.seen, plan=evidence.plan)
    return {name: build.summarize_node(whole, name, "") for name in evidence.plan["nodes"]}


def assemble_diagnosis(evidence: ClusterEvidence, about: DiagnosisRun) -> Result:
    """Return the result in the schema's form."""
    found = [*find_root_causes(evidence), *check_next_boot(evidence)]
    checks = judge_diagnosis_checks(evidence, found)
    bad = any(f.severity == ERROR for f in found)
    rows = pairs.build_link_rows(evidence.seen)
    mesh = verify_mesh.summarize_mesh(evidence.seen)
    made: Result = {
        "schema": build.SCHEMA,
        "fullmesh": __version__,
        "kind": "diagnose",
        "run": about.run,
        "started": about.started,
        "finished": about.finished,
        "seconds": build.compute_duration(about.started, about.finished),
        "verdict": "failed" if bad else "ok",
        "exit_code": 1 if bad else 0,
        "failed_rungs": [check.id for check in checks if check.status == FAILED],
        "check_mode": False,
        "lab": about.lab,
        "notes": [
            *[
                NoteRow(node="", code=f["code"], text=f["text"])
                for f in evidence.plan.get("faults", [])
            ],
            *compare.describe_candidates(evidence, found),
        ],
        "firewall_mode": "",
        "plan": dict(evidence.plan),
        "nodes": summarize_nodes(evidence),
        "rungs": [check.as_dict() for check in checks],
        "links": rows,
        "collectives": {},
        "findings": [finding.as_dict() for finding in found],
        "not_looked_at": list_unobserved(evidence),
    }
    if mesh:
        made["mesh"] = mesh
    return made


def diagnose_cluster(plan: ClusterPlan, observed: Mapping[str, Any], about: DiagnosisRun) -> Result:
    """Judge the observations of all nodes.

    Raises:
        ValueError: the result does not follow its own schema, which is a defect of Fullmesh.
    """
    return build.validate_result(assemble_diagnosis(build_evidence(plan, observed, about), about))
