"""Provide the environment of a node to Ansible."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleFilterError

from fullmesh.border import validate_answer
from fullmesh.model.types import ClusterPlan, PlanNode
from fullmesh.observed.node import Observations
from fullmesh.roles import cluster_env


def cluster_env_lines(
    plan: ClusterPlan, node: PlanNode, facts: Any, own: dict[str, Any]
) -> list[str]:
    """Return the KEY=value lines of *node*. *own* are the role's and the user's variables."""
    try:
        seen = validate_answer(Observations, facts, f"node_facts on {node['name']}")
        return cluster_env.render_env_lines(cluster_env.build_environment(plan, node, seen) | own)
    except (KeyError, ValueError) as error:
        raise AnsibleFilterError(f"cluster_env_lines: {error}") from error
