"""Codes of the role monitoring_tools, and what it owns."""

from __future__ import annotations

from collections.abc import Sequence

CODES: dict[str, str] = {
    "MT-101": "a monitoring tool that no repository of the node has",
}


def owned(packages: Sequence[str]) -> dict[str, str]:
    """The packages as the manifest watches them: any version."""
    return dict.fromkeys(packages, "")
