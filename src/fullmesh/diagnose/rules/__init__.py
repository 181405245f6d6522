"""The rules, one file per family: pure functions from what was observed to findings."""

from __future__ import annotations

from collections.abc import Sequence

from fullmesh.causes.evidence import ClusterEvidence, Rule
from fullmesh.diagnose.rules import (
    addresses,
    alike,
    cloud,
    counted,
    decisions,
    env,
    firewall,
    firewalld_runtime,
    gpu,
    job_account,
    kernel_words,
    limits,
    mtu,
    names,
    ports,
    processes,
    quality,
    reach,
    routes,
)
from fullmesh.foreign_text import parse_decimal
from fullmesh.result.findings import Finding
from fullmesh.verify.blocked import CODES_OF, FIREWALLED

FAMILIES = {
    "reach": reach.RULES,
    "addresses": addresses.RULES,
    "names": names.RULES,
    "routes": (*routes.RULES, *decisions.RULES),
    "firewall": (
        *firewall.RULES,
        *firewalld_runtime.RULES,
        *kernel_words.RULES,
        *job_account.RULES,
    ),
    "ports": ports.RULES,
    "mtu": mtu.RULES,
    "quality": (*quality.RULES, *counted.RULES),
    "env": (*env.RULES, *alike.RULES),
    "limits": limits.RULES,
    "gpu": gpu.RULES,
    "processes": processes.RULES,
    "cloud": cloud.RULES,
}
SHUT = {CODES_OF[verdict] for verdict in FIREWALLED}  # rule_blocked tells of every such link
REPLACED = {*SHUT, CODES_OF[mtu.HOLE]}
RULES: tuple[Rule, ...] = tuple(rule for rules in FAMILIES.values() for rule in rules)


def run_diagnosis_rules(look: ClusterEvidence) -> list[Finding]:
    """What all rules say."""
    return [finding for rule in RULES for finding in rule(look)]


def filter_ladder_findings(
    look: ClusterEvidence, ladder: Sequence[Finding], deeper: Sequence[Finding]
) -> list[Finding]:
    """The ladder's own findings, without those that a rule of ours says in the same words or knows to be none."""
    return [
        f
        for f in ladder
        if not (f.code in REPLACED and any(is_covered_by(one, f) for one in deeper))
        and not (f.code == "VC-109" and is_held_by_live_job(look, f))
    ]


def is_covered_by(deeper: Finding, finding: Finding) -> bool:
    """One of ours is about one of its links and will not fold it: the links of one rule were put together."""
    shared = set(deeper.pairs) & set(finding.pairs)
    if not shared or not deeper.kinds or deeper.rung != "L2":
        return False
    return deeper.code in (finding.code, *SHUT) or shared != set(finding.pairs)


def is_held_by_live_job(look: ClusterEvidence, finding: Finding) -> bool:
    """A job that runs on several nodes holds its port rightly, whoever diagnoses it meanwhile."""
    port = parse_decimal(finding.port)
    return port is not None and processes.is_live_job_port(look, port)
