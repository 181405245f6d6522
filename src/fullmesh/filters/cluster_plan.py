"""Provide the core's cluster plan to Ansible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from ansible.errors import AnsibleFilterError

from fullmesh import settings
from fullmesh.faults import InvalidInputError
from fullmesh.filters.pattern import build_host_pattern
from fullmesh.model import batching, membership, services
from fullmesh.model import plan as model_plan
from fullmesh.model.node_view import resolve_node_interfaces as own_view
from fullmesh.model.types import ClusterPlan, PlanNode, Reach
from fullmesh.observed.node import Membership, Observations, ResolvedSettings
from fullmesh.plain import to_json_value
from fullmesh.roles import pending_changes, preflight


class PlanRefusal(TypedDict):
    """The faults that prevent a plan, as coded sentences."""

    faults: list[str]


def plan_made(
    hostvars: Any, groups: Mapping[str, list[str]], ansible_core: str
) -> ClusterPlan | PlanRefusal:
    """Return the plan, or every fault of the controller and the inventory, in one pass over the hosts."""
    faults = model_plan.find_controller_faults(str(ansible_core)) + model_plan.find_group_faults(
        groups
    )
    made: ClusterPlan | None = None
    if hosts := groups.get(model_plan.GROUP):
        try:
            made = model_plan.derive_from_hostvars(hostvars, [str(host) for host in hosts])
        except InvalidInputError as error:
            faults += error.faults
    return {"faults": [str(fault) for fault in faults]} if faults or made is None else made


def node_view(plan: ClusterPlan, host: str, observed: Observations) -> PlanNode:
    """Return the plan's entry of *host*, with the interfaces from *observed* (node_facts)."""
    return own_view(plan, str(host), observed["interfaces"])


def preflight_facts_faults(result: Any, host: str) -> list[str]:
    """Return coded sentences: why the result of node_facts on *host* is not used."""
    return [str(fault) for fault in preflight.find_facts_faults(str(host), to_json_value(result))]


def preflight_judged(
    plan: ClusterPlan, hostvars: Any, hosts: list[str], given: Any
) -> preflight.PreflightVerdict:
    """Evaluate the nodes' answers. *given*: ``now``, ``asked`` (of ask_nodes, or empty), ``converge``."""
    seen: preflight.PreflightInput = {
        "now": float(given["now"]),
        "asked": given["asked"].get("answers") or {},
        "converge": str(given["converge"]),
    }
    return preflight.judge_preflight(plan, hostvars, [str(host) for host in hosts], seen)


def preflight_groups(judged: preflight.PreflightVerdict) -> list[dict[str, str]]:
    """List hosts and their groups for this run."""
    return preflight.list_group_members(judged)


def preflight_unasked(hostvars: Any, hosts: Sequence[str]) -> str:
    """Return the pattern of the hosts to survey one by one after ask_nodes queried all. It mostly matches no host."""
    # the same for all hosts of the run, but --limit leaves some out
    everybody = (hostvars[host].get("__preflight_asked") for host in hosts if host in hostvars)
    asked = next(filter(None, everybody), None)
    return build_host_pattern(preflight.list_unqueried_hosts(to_json_value(asked)) if asked else [])


def preflight_pending(hostvars: Any, hosts: Sequence[str]) -> str:
    """Return the pattern of the hosts on which a change of an earlier run waits for its confirmation, mostly none."""
    known = [host for host in hosts if host in hostvars]
    asked: Any = next(filter(None, (hostvars[host].get("__preflight_asked") for host in known)), {})
    answers = to_json_value(asked).get("answers") or {}
    return build_host_pattern(
        pending_changes.list_hosts_with_pending_changes(hostvars, known, answers)
    )


def preflight_pending_text(changes: object) -> list[str]:
    """Return one sentence for each change that a node reverts."""
    return pending_changes.describe_pending_changes(to_json_value(changes))


def preflight_pending_seconds(changes: object) -> int:
    """Return how long to wait until a node has begun to revert its pending changes."""
    return pending_changes.count_pending_seconds(to_json_value(changes))


def plan_drift(plan: ClusterPlan, held: ResolvedSettings) -> list[str]:
    """Return why a node with the manifest record *held* must be configured again, apart from its own drift."""
    return preflight.find_choice_drift(plan, held)


def plan_members(plan: ClusterPlan) -> Membership:
    """Return the record of the list of nodes that a node stores when it converges to this plan."""
    return membership.build_membership(plan)


def plan_leads_time(plan: ClusterPlan, host: str) -> bool:
    """Return whether the other nodes synchronize with *host*."""
    return membership.is_time_leader(plan, str(host))


def plan_opened(plan: ClusterPlan, who: Reach, host: str) -> list[str]:
    """List the ports that *who* (peers, controllers, everybody) may reach on *host*."""
    return services.list_open_ports(plan, who, str(host))


def plan_serial(hostvars: Any, hosts: list[str]) -> list[int | str]:
    """Return how many nodes change at a time, as a play's ``serial`` takes it."""
    return batching.find_plan_batches(hostvars, [str(host) for host in hosts])


def kept_path(name: str) -> str:
    """Return the path for *name* on the controller: in the checkout, or for a collection in the start folder."""
    return str(settings.KEPT / str(name))


def plan_default(name: str) -> Any:
    """Return the default of a plan setting."""
    try:
        return settings.PLAN_SETTINGS[str(name)]
    except KeyError as error:
        raise AnsibleFilterError(f"plan_default: there is no setting {name!r}") from error
