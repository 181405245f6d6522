"""Provide the EFA rules to Ansible."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fullmesh.border import validate_answer
from fullmesh.ec2 import efa
from fullmesh.observed.survey import EfaSurvey
from fullmesh.result.findings import format_finding


def efa_findings(observations: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the findings about EFA on the nodes. ``text`` is the coded sentence."""
    seen = {
        str(node): validate_answer(EfaSurvey, own, f"efa_facts on {node}")
        for node, own in observations.items()
    }
    return [{**one.as_dict(), "text": format_finding(one)} for one in efa.check_efa(seen)]


def efa_plugin_verdict(seen: Mapping[str, Any]) -> str:
    """Explain a missing libnccl-net.so on a node, or return "" if it exists."""
    code, text = efa.explain_missing_plugin(validate_answer(EfaSurvey, seen, "efa_facts"))
    return f"[{code}] {text}." if code else ""
