"""The rules, one file per family: pure functions from what the ranks said to findings."""

from __future__ import annotations

from fullmesh.hang.rules import differ, ended, entered, peers, whole
from fullmesh.hang.types import HangFinding, ObservedJob, Rule

FAMILIES = {
    "differ": differ.RULES,
    "peers": peers.RULES,
    "ended": ended.RULES,
    "entered": entered.RULES,
    "whole": whole.RULES,
}
RULES: tuple[Rule, ...] = tuple(rule for rules in FAMILIES.values() for rule in rules)


def check_hang_rules(job: ObservedJob) -> list[HangFinding]:
    """What all rules say."""
    return [finding for rule in RULES for finding in rule(job)]
