"""Hands the EFA rules to Ansible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from fullmesh import contract
from fullmesh.ec2 import efa as core
from fullmesh.observed.survey import Efa
from fullmesh.plain import plain
from fullmesh.result.types import FindingRow


class Told(FindingRow):
    """A finding with its coded sentence."""

    text: str


def read(observed: Any, node: str) -> Efa:
    """What efa_facts returned on a node.

    Raises:
        AnsibleFilterError: it is not what its type says; with the path.
    """
    try:
        return contract.read(Efa, plain(observed))
    except contract.ContractError as error:
        raise AnsibleFilterError(
            f"efa_facts on {node} answered in another form: {error}"
        ) from error


def efa_findings(observations: Mapping[str, Any]) -> list[Told]:
    """What is wrong with EFA on the nodes."""
    seen = {str(node): read(own, str(node)) for node, own in observations.items()}
    return [
        {**one.as_dict(), "text": f"[{one.code}] {one.cause}. {one.fix}."}
        for one in core.findings(seen)
    ]


def efa_plugin_verdict(seen: Mapping[str, Any]) -> str:
    """What a missing libnccl-net.so means on a node; "" when it is there."""
    code, text = core.plugin_verdict(read(seen, "this node"))
    return f"[{code}] {text}." if code else ""


class FilterModule:
    """Filters for EFA."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The names under which Ansible finds them."""
        return {"efa_findings": efa_findings, "efa_plugin_verdict": efa_plugin_verdict}
