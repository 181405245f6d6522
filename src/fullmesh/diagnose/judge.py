"""From observations to the result of a diagnosis: safe observations, all rules, symptoms folded, the schema's shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from fullmesh import __version__
from fullmesh.diagnose import compare, fold, rules, shape, thin
from fullmesh.diagnose.model import Look, is_loopback
from fullmesh.diagnose.rules import decisions, next_boot
from fullmesh.model.ports import as_plan
from fullmesh.model.types import DataPorts, Plan, PlanNode
from fullmesh.observed.ports import PortRange
from fullmesh.result import build as results
from fullmesh.result.types import MissedRow, NodeSummary, NoteRow, Result, RungId
from fullmesh.verify import cards as verify_cards
from fullmesh.verify import gid_pins, schedule
from fullmesh.verify import mesh as verify_mesh
from fullmesh.verify import node as verify_node
from fullmesh.verify import pairs as verify_links
from fullmesh.verify.blocked import CODES_OF
from fullmesh.verify.model import (
    ERROR,
    FAILED,
    PASSED,
    RUNGS,
    SKIPPED,
    WARNING,
    Finding,
    NodeSaid,
    Rung,
    Seen,
)
from fullmesh.verify.schedule import Scope
from fullmesh.verify.survey import survey_of

WRONG_SOURCE = CODES_OF["wrong_source"]
JUDGED: tuple[RungId, ...] = ("L0", "L1", "L2")
# What only a plan can demand: on nodes that nobody configured these would be findings about nothing.
OF_A_PLAN = frozenset({"VC-107", "VC-108", "VC-122", "VC-123", "VC-212", "VC-602", "VC-604"})


@dataclass(frozen=True)
class About:
    """What is known of a run besides the observations.

    Attributes:
        run: name of the directory under ``runs``.
        started: ISO 8601 with offset.
        finished: the same.
        inventory: how the user names the inventory, for the fixing commands.
        lab: what the nodes are, when they are no real machines.
        clock_limit: seconds that two clocks may differ.
        ec2: what AWS said, {} where it was not asked.
        scope: what of the mesh was tried; None: every listener of every pair.
    """

    run: str
    started: str
    finished: str
    inventory: str = "INVENTORY"
    lab: str = ""
    clock_limit: float = 5.0
    ec2: Mapping[str, Any] = field(default_factory=dict)
    scope: Scope | None = None


def why_silent(told: Any) -> tuple[str, str]:
    """Why nothing usable came from a node: a word and the message."""
    held = told if isinstance(told, Mapping) else {}
    message = shape.clean(held.get("msg") or held.get("module_stderr") or "no answer", 400)
    return (
        "unreachable" if held.get("unreachable") is True else "failed",
        message.strip() or "no answer",
    )


def measured_range(nodes: Mapping[str, Mapping[str, Any]], plan: Plan) -> DataPorts:
    """The data range of nodes that nobody configured: the master's own, else the first that is known."""
    order = [plan["master"]["node"], *plan["nodes"]]
    for name in order:
        held = survey_of(nodes.get(name)).get("range", [])
        if len(held) == 2 and 0 < held[0] <= held[1]:  # noqa: PLR2004 (two ends)
            return as_plan(PortRange(*held))
    return plan["data_ports"]


def with_ranks(plan: Plan, nodes: Mapping[str, NodeSaid]) -> Plan:
    """The plan of the nodes that spoke; ranks left to auto are as many as the GPUs that a node showed."""
    left = {name for name, asked in plan.get("auto", {}).items() if asked["ranks"]}
    held: dict[str, PlanNode] = {n: {**v} for n, v in plan["nodes"].items() if n in nodes}
    for name, node in held.items():
        gpus = survey_of(nodes[name]).get("gpus")
        if name in left and gpus:
            node["local_ranks"] = max(1, len(gpus["cards"]) or len(gpus.get("pci", [])))
    return {**plan, "nodes": held}


def look_at(plan: Plan, observed: Mapping[str, Any], about: About) -> Look:
    """Make the observations safe and sort the nodes into those that spoke and those that did not."""
    names = set(plan["nodes"])
    nodes: dict[str, NodeSaid] = {}
    silent: dict[str, tuple[str, str]] = {}
    for name in plan["nodes"]:
        told = observed.get(name, {})
        safe = shape.node(told, names)
        if safe:
            nodes[name] = safe
        else:
            silent[name] = why_silent(told.get("node") if isinstance(told, Mapping) else None)
    asked = cast("dict[str, schedule.Asked]", nodes)
    nodes = cast("dict[str, NodeSaid]", schedule.whole(plan, asked, about.scope))
    configured = any(survey_of(node).get("manifest") for node in nodes.values())
    assumed = bool(plan.get("guessed") or (plan.get("assumed") and not configured))
    small = with_ranks(plan, nodes)
    if assumed:
        small["data_ports"] = measured_range(nodes, plan)
    if small["nodes"] and plan["master"]["node"] not in small["nodes"]:
        stand_in = next(iter(small["nodes"].values()))
        small["master"] = {
            **plan["master"],
            "node": stand_in["name"],
            "address": stand_in["address"],
        }
    small["hosts"] = [h for h in plan["hosts"] if not assumed or h["names"]]
    seen = Seen(
        plan=small,
        nodes=nodes,
        rungs=JUDGED,
        mode="off",  # what peers reach beyond the plan is the ladder's question, not why a job fails
        clock_limit=about.clock_limit,
        inventory=about.inventory,
        planned=not plan.get("guessed"),
        scope=about.scope,
    )
    return Look(
        seen=seen,
        plan={**plan, "data_ports": small["data_ports"]},
        assumed=assumed,
        silent=silent,
        cloud=about.ec2,
    )


def ladder_findings(look: Look) -> list[Finding]:
    """What the rules of the verification's lower rungs say."""
    if not look.nodes:
        return []
    rules_of_it = (
        verify_node.findings,
        verify_cards.health_findings,
        gid_pins.find_bad_pins,
        verify_links.findings,
    )
    found = [finding for rule in rules_of_it for finding in rule(look.seen)]
    if not look.assumed:
        return found
    # Nobody said which network is meant: jobs run over the other one as well.
    found = [
        replace(f, severity=WARNING)
        if f.code == WRONG_SOURCE and decisions.works(look, f.pairs)
        else f
        for f in found
    ]
    return [f for f in found if not (f.code in OF_A_PLAN or unplanned(look, f))]


def unplanned(look: Look, finding: Finding) -> bool:
    """An inventory's alias that no node knows is no fault where nobody promised that it would be one.

    systemd-resolved without a name server asks the neighbours for it (LLMNR), which takes longer than we wait.
    """
    if finding.code == "VC-102":
        # Nobody asks for the name where the interface is named; and the ladder asks for the plan's family only.
        named = bool((look.variable(finding.node, "GLOO_SOCKET_IFNAME") or ("",))[0])
        own = look.survey(finding.node).get("own_answers", [])
        other = any(look.holds(finding.node, a) and not is_loopback(a) for a in own)
        return named or (other and "no answer" in finding.seen)
    return finding.code == "VC-101" and (
        "unknown name" in finding.seen or "no answer" in finding.seen
    )


def findings(look: Look) -> list[Finding]:
    """Everything that is wrong: root causes, with what follows from them folded under them."""
    ladder = ladder_findings(look)
    kept = thin.chosen(look)
    if kept is None:
        deeper = rules.findings(look)
    else:
        deeper = thin.widened(rules.findings(thin.thinned(look, kept)), ladder, kept)
    return fold.fold([*deeper, *rules.of_ladder(look, ladder, deeper)])


def missed(look: Look) -> list[MissedRow]:
    """What could not be looked at, and why."""
    found: list[MissedRow] = [
        {"node": name, "what": "everything", "why": f"{kind}: {text}"}
        for name, (kind, text) in look.silent.items()
    ]
    if look.cloud.get("why"):
        why = shape.clean(look.cloud["why"], 400)
        found.append({"node": "", "what": "security groups and network ACLs of EC2", "why": why})
    for name in look.nodes:
        survey = look.survey(name)
        found += [
            {"node": name, "what": one["what"] or "something", "why": one["why"] or "unknown"}
            for one in survey.get("unknown", [])
        ]
        if not look.seen.facts(name).get("versions", {}).get("torch"):
            found.append(
                {"node": name, "what": "torch", "why": "no torch in the interpreter of the jobs"}
            )
        if survey.get("nft", {}).get("cut"):
            found.append({"node": name, "what": "some firewall rules", "why": "there are too many"})
        if survey.get("legacy_tables"):
            words = ", ".join(survey["legacy_tables"])
            found.append(
                {
                    "node": name,
                    "what": f"iptables-legacy ({words})",
                    "why": "only rules of nftables are evaluated",
                }
            )
    return found


def rungs_of(look: Look, found: Sequence[Finding]) -> list[Rung]:
    """The ladder as far as a diagnosis goes."""
    made = []
    left_out = verify_mesh.coverage(look.seen)
    of_links = {"notes": left_out} if left_out else {}
    for rung in RUNGS:
        details = of_links if rung == "L2" else {}
        bad = [f for f in found if f.rung == rung and f.severity == ERROR]
        if rung not in JUDGED:
            made.append(Rung(rung, SKIPPED, "not part of a diagnosis: ./fullmesh verify"))
        elif bad:
            made.append(Rung(rung, FAILED, bad[0].cause, details=details))
        elif rung == "L2" and len(look.plan["nodes"]) == 1:
            made.append(Rung(rung, SKIPPED, "one node has no links"))
        else:
            made.append(Rung(rung, PASSED, "", details=details))
    return made


def node_rows(look: Look) -> dict[str, NodeSummary]:
    """What is kept of every node, of the silent ones their address alone."""
    whole = replace(look.seen, plan=look.plan)
    return {name: results.node_summary(whole, name, "") for name in look.plan["nodes"]}


def result_of(look: Look, about: About) -> Result:
    """The result in the shape of the schema."""
    found = [*findings(look), *next_boot.findings(look)]
    rungs = rungs_of(look, found)
    bad = any(f.severity == ERROR for f in found)
    rows = verify_links.matrix(look.seen)
    mesh = verify_mesh.summary(look.seen)
    made: Result = {
        "schema": results.SCHEMA,
        "fullmesh": __version__,
        "kind": "diagnose",
        "run": about.run,
        "started": about.started,
        "finished": about.finished,
        "seconds": results.seconds_between(about.started, about.finished),
        "verdict": "failed" if bad else "ok",
        "exit_code": 1 if bad else 0,
        "failed_rungs": [rung.id for rung in rungs if rung.status == FAILED],
        "check_mode": False,
        "lab": about.lab,
        "notes": [
            *[
                NoteRow(node="", code=f["code"], text=f["text"])
                for f in look.plan.get("faults", [])
            ],
            *compare.notes(look, found),
        ],
        "firewall_mode": "",
        "plan": dict(look.plan),
        "nodes": node_rows(look),
        "rungs": [rung.as_dict() for rung in rungs],
        "links": rows,
        "collectives": {},
        "findings": [finding.as_dict() for finding in found],
        "not_looked_at": missed(look),
    }
    if mesh:
        made["mesh"] = mesh
    return made


def result(plan: Plan, observed: Mapping[str, Any], about: About) -> Result:
    """Judge the observations of all nodes.

    Raises:
        ValueError: the result does not follow its own schema, which is a defect of Fullmesh.
    """
    return results.as_kept(result_of(look_at(plan, observed, about), about))
