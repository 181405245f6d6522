"""Settings that a node keeps for its next boot."""

from __future__ import annotations

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.observed.next_boot import KeptUnit, NextBoot
from fullmesh.result.findings import WARNING, Finding
from fullmesh.result.types import CheckId

STARTS = ("enabled", "static", "indirect", "generated", "alias", "linked")


def get_next_boot(evidence: ClusterEvidence, name: str) -> NextBoot:
    """Return the state that a node keeps. It is {} if the node was not surveyed."""
    return evidence.survey(name).get("next_boot", {})


def make_boot_warning(  # noqa: PLR0913 (the fields of a finding)
    code: str,
    cause: str,
    node: str,
    *,
    seen: str,
    expected: str,
    fix: str,
    check: str = "",
    check_id: CheckId = "L0",
) -> Finding:
    """Make a warning about the next boot."""
    return Finding(
        code,
        check_id,
        cause,
        node=node,
        seen=seen,
        expected=expected,
        check=check,
        fix=fix,
        severity=WARNING,
    )


def is_started_at_boot(unit: KeptUnit) -> bool:
    """Return whether the next boot starts a unit."""
    return unit["load"] != "masked" and unit["file"] in STARTS
