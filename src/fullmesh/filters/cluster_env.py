"""Hands the environment of a node to Ansible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from fullmesh.border import answered
from fullmesh.model.types import Plan, PlanNode
from fullmesh.observed.node import Observations
from fullmesh.roles import cluster_env as core


def cluster_env_faults(node: PlanNode, extra: Any) -> list[str]:
    """Coded sentences: what is wrong with the settings of *node*."""
    return [str(fault) for fault in core.faults(node, extra)]


def cluster_env_lines(plan: Plan, node: PlanNode, facts: Any, own: dict[str, Any]) -> list[str]:
    """The KEY=value lines of *node*; *own* are the role's and the user's variables."""
    try:
        seen = answered(Observations, facts, f"node_facts on {node['name']}")
        return core.lines(core.environment(plan, node, seen) | own)
    except (KeyError, ValueError) as error:
        raise AnsibleFilterError(f"cluster_env_lines: {error}") from error


class FilterModule:
    """Filters of the role cluster_env."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The names under which Ansible finds them."""
        return {"cluster_env_faults": cluster_env_faults, "cluster_env_lines": cluster_env_lines}
