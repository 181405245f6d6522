"""Hands the core's cluster plan to Ansible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from fullmesh import settings
from fullmesh.model import batching, membership, services
from fullmesh.model import plan as core
from fullmesh.model.faults import RefusedError
from fullmesh.model.node_view import node_view as own_view
from fullmesh.model.types import Plan, PlanNode, Reach
from fullmesh.observed.node import Choice, Membership, Observations
from fullmesh.plain import plain
from fullmesh.roles import preflight as checks


def cluster_plan(hostvars: Any, hosts: list[str]) -> Plan:
    """Derive the plan of *hosts* (group torch_nodes, inventory order) from *hostvars*."""
    try:
        return core.from_hostvars(hostvars, [str(host) for host in hosts])
    except RefusedError as error:
        raise AnsibleFilterError(f"the inventory cannot work:\n{error}") from error


def plan_faults(hostvars: Any, hosts: list[str], ansible_core: str) -> list[str]:
    """Every fault of the controller and the inventory as coded sentences, [] when they can work."""
    faults = core.controller_faults(str(ansible_core))
    try:
        core.from_hostvars(hostvars, [str(host) for host in hosts])
    except RefusedError as error:
        faults += error.faults
    return [str(fault) for fault in faults]


def node_view(plan: Plan, host: str, observed: Observations) -> PlanNode:
    """The plan's entry of *host* with the interfaces that *observed* (node_facts) names."""
    return own_view(plan, str(host), observed["interfaces"])


def preflight_faults(plan: Plan, hostvars: Any, hosts: list[str], now: float) -> list[str]:
    """Every fault that the nodes' observations show, as coded sentences."""
    return checks.from_hostvars(plan, hostvars, [str(host) for host in hosts], float(now))


def plan_resolved(plan: Plan, hostvars: Any, hosts: list[str]) -> Plan:
    """The plan with all that was left to the first look at the nodes; preflight_faults has refused what cannot be."""
    return checks.resolved(plan, checks.answers(hostvars, [str(host) for host in hosts])[0])[0]


def plan_notes(plan: Plan, hostvars: Any, hosts: list[str]) -> list[str]:
    """What the look at the nodes leaves to be said of a resolved plan."""
    return checks.notes(plan, checks.answers(hostvars, [str(host) for host in hosts])[0])


def plan_drift(plan: Plan, held: Choice) -> list[str]:
    """Why a node whose manifest kept *held* has to converge again, where its own state does not say so."""
    return checks.drift(plan, held)


def plan_members(plan: Plan) -> Membership:
    """What a node that converges to this plan remembers of the list of nodes."""
    return membership.now(plan)


def plan_leads_time(plan: Plan, host: str) -> bool:
    """Whether the others take their time from *host*."""
    return membership.leads_time(plan, str(host))


def plan_group(plan: Plan, drift: list[str], kept: Any, converge: str) -> membership.Group:
    """What this run does with a node: drifted, peers (only the list of nodes changed), converged."""
    return membership.group(plan, list(drift), plain(kept), str(converge))


def plan_opened(plan: Plan, who: Reach, host: str) -> list[str]:
    """Ports that *who* (peers, controllers, everybody) may reach on *host*."""
    return services.opened(plan, who, str(host))


def plan_serial(hostvars: Any, hosts: list[str]) -> list[int | str]:
    """How many nodes change at a time, as a play's ``serial`` takes it."""
    return batching.of_plan(hostvars, [str(host) for host in hosts])


def kept_path(name: str) -> str:
    """Where the controller keeps *name*: in the checkout; of a collection, where Ansible was started."""
    return str(settings.KEPT / str(name))


def plan_default(name: str) -> Any:
    """What a setting of the plan is where the inventory says nothing of it."""
    try:
        return settings.PLAN_SETTINGS[str(name)]
    except KeyError as error:
        raise AnsibleFilterError(f"plan_default: there is no setting {name!r}") from error


class FilterModule:
    """Filters of the cluster plan."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The names under which Ansible finds them."""
        return {
            "cluster_plan": cluster_plan,
            "kept_path": kept_path,
            "plan_default": plan_default,
            "plan_faults": plan_faults,
            "node_view": node_view,
            "plan_resolved": plan_resolved,
            "plan_notes": plan_notes,
            "plan_drift": plan_drift,
            "plan_serial": plan_serial,
            "plan_opened": plan_opened,
            "plan_members": plan_members,
            "plan_group": plan_group,
            "plan_leads_time": plan_leads_time,
            "preflight_faults": preflight_faults,
        }
