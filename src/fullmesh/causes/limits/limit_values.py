"""Limits, and the kernel's log messages about them."""

from __future__ import annotations

from fullmesh.causes.evidence import ClusterEvidence

NEARLY = 0.95


MIB = 1048576


def find_kernel_message(evidence: ClusterEvidence, name: str, kind: str) -> str:
    """Return a recent message of the kernel, or ""."""
    return next(
        (e["text"] for e in evidence.survey(name).get("kernel_log", []) if e["kind"] == kind), ""
    )
