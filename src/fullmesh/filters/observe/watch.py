"""Provide the nodes of an inventory to the watch, and their state to status."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleFilterError

from fullmesh import ssh
from fullmesh.cluster_status import judge_cluster_state
from fullmesh.diagnose import inventory
from fullmesh.model.types import ClusterPlan
from fullmesh.plain import to_json_value
from fullmesh.roles import preflight
from fullmesh.watch import remote as watch_remote


def watch_nodes(
    hostvars: Any, hosts: list[str], wanted: list[str] | None = None
) -> watch_remote.JobHosts:
    """Return the plan of *hosts*, and the connection of each. *wanted* limits the connections to these hosts."""
    try:
        plan = inventory.build_tolerant_plan(hostvars, hosts)
        reach = {
            str(host): watch_remote.extract_ssh_settings(ssh.resolve_ssh_variables(hostvars[host]))
            for host in hosts
            if wanted is None or host in wanted
        }
    except (ValueError, KeyError, IndexError) as error:
        raise AnsibleFilterError(f"watch_nodes: {error}") from error
    found: watch_remote.JobHosts = to_json_value({"plan": plan, "hosts": reach})
    return found


def cluster_status(
    plan: ClusterPlan, hostvars: Any, hosts: list[str], given: Any
) -> dict[str, Any]:
    """Return the state of the nodes for ``./fullmesh status``, and their connections.

    *given*: as for preflight_judged.
    """
    names = [str(host) for host in hosts]
    seen: preflight.PreflightInput = {
        "now": float(given["now"]),
        "asked": given["asked"].get("answers") or {},
        "converge": str(given["converge"]),
    }
    state = judge_cluster_state(plan, hostvars, names, seen)
    return {**state, "reach": watch_nodes(hostvars, names)}
