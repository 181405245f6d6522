"""Hands the EFA rules to Ansible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fullmesh.border import answered
from fullmesh.ec2 import efa as core
from fullmesh.observed.survey import Efa
from fullmesh.result.types import FindingRow


class Told(FindingRow):
    """A finding with its coded sentence."""

    text: str


def efa_findings(observations: Mapping[str, Any]) -> list[Told]:
    """What is wrong with EFA on the nodes."""
    seen = {
        str(node): answered(Efa, own, f"efa_facts on {node}") for node, own in observations.items()
    }
    return [
        {**one.as_dict(), "text": f"[{one.code}] {one.cause}. {one.fix}."}
        for one in core.findings(seen)
    ]


def efa_plugin_verdict(seen: Mapping[str, Any]) -> str:
    """What a missing libnccl-net.so means on a node; "" when it is there."""
    code, text = core.plugin_verdict(answered(Efa, seen, "efa_facts"))
    return f"[{code}] {text}." if code else ""


class FilterModule:
    """Filters for EFA."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The names under which Ansible finds them."""
        return {"efa_findings": efa_findings, "efa_plugin_verdict": efa_plugin_verdict}
