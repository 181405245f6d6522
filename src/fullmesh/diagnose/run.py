"""Run the rules of all causes, and compare their findings with those of the verification."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fullmesh.causes.cloud import accounts
from fullmesh.causes.engine import index_cause_modules, load_causes
from fullmesh.causes.evidence import ClusterEvidence, Rule
from fullmesh.causes.firewall import blocked_links
from fullmesh.causes.mtu import mtu_holes
from fullmesh.causes.processes.job_processes import is_live_job_port
from fullmesh.foreign_text import parse_decimal
from fullmesh.result.findings import Finding
from fullmesh.verify.blocked import CODES_OF, FIREWALLED
from fullmesh.verify.model import ClusterObservations

NEXT_BOOT = "next_boot"  # the family of findings about the next boot, which fold no other findings
SHUT = {CODES_OF[verdict] for verdict in FIREWALLED}  # find_blocked_links reports every such link
REPLACED = {*SHUT, CODES_OF[mtu_holes.HOLE]}
# Rules that find codes of other groups than the diagnosis's own.
OTHERS: tuple[Rule, ...] = (
    blocked_links.rule_blocked_links,
    mtu_holes.rule_mtu_holes,
    *accounts.RULES,
)


def list_boot_codes() -> frozenset[str]:
    """Return the codes of causes that only take effect at the next boot."""
    modules = index_cause_modules().items()
    return frozenset(code for code, module in modules if f".{NEXT_BOOT}." in module)


def list_cause_rules(evidence: ClusterEvidence, *, at_boot: bool = False) -> Iterator[Rule]:
    """List the rules that find present causes, or causes at the next boot, in the nodes' answers."""
    parts = {part for name in evidence.nodes for part in evidence.survey(name)}
    for cause in load_causes("DG").values():
        if cause.find and (cause.family == NEXT_BOOT) is at_boot and parts.issuperset(cause.needs):
            yield cause.find


def find_hidden_causes(evidence: ClusterEvidence) -> list[Finding]:
    """Return the findings of causes that are there although every check of the verification passes."""
    causes = (cause for cause in load_causes("DG").values() if cause.hidden and cause.find)
    return [finding for cause in causes if cause.find for finding in cause.find(evidence)]


def run_cause_checks(seen: ClusterObservations) -> list[Finding]:
    """Return the findings of the causes that are checked before a job (checks L0 to L2, L6 and L7)."""
    finds = (cause.find for cause in load_causes("VC").values() if cause.find)
    return [finding for find in finds for finding in find(seen)]


def find_causes(evidence: ClusterEvidence) -> list[Finding]:
    """Return the present findings of all causes."""
    rules = (*list_cause_rules(evidence), *OTHERS)
    return [finding for rule in rules for finding in rule(evidence)]


def check_next_boot(evidence: ClusterEvidence) -> list[Finding]:
    """Return the findings about the next boot."""
    rules = list_cause_rules(evidence, at_boot=True)
    return [finding for rule in rules for finding in rule(evidence)]


def filter_ladder_findings(
    evidence: ClusterEvidence, ladder: Sequence[Finding], deeper: Sequence[Finding]
) -> list[Finding]:
    """Return the verification's findings, without those that a cause also reports or refutes."""
    return [
        f
        for f in ladder
        if not (f.code in REPLACED and any(is_covered_by(one, f) for one in deeper))
        and not (f.code == "VC-109" and is_held_by_live_job(evidence, f))
    ]


def is_covered_by(deeper: Finding, finding: Finding) -> bool:
    """Report whether a deeper cause concerns some of a finding's links, although it cannot fold the finding."""
    shared = set(deeper.pairs) & set(finding.pairs)
    if not shared or not deeper.kinds or deeper.rung != "L2":
        return False
    return deeper.code in (finding.code, *SHUT) or shared != set(finding.pairs)


def is_held_by_live_job(evidence: ClusterEvidence, finding: Finding) -> bool:
    """Report whether a running job on several nodes holds the port, which is correct."""
    port = parse_decimal(finding.port)
    return port is not None and is_live_job_port(evidence, port)
