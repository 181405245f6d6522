"""Hands the core's cluster plan to Ansible."""

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
from fullmesh.roles import preflight


class PlanRefusal(TypedDict):
    """Why there is no plan: coded sentences."""

    faults: list[str]


def plan_made(
    hostvars: Any, groups: Mapping[str, list[str]], ansible_core: str
) -> ClusterPlan | PlanRefusal:
    """The plan, or every fault of the controller and the inventory, in one pass over the hosts."""
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
    """The plan's entry of *host* with the interfaces that *observed* (node_facts) names."""
    return own_view(plan, str(host), observed["interfaces"])


def preflight_facts_faults(result: Any, host: str) -> list[str]:
    """Coded sentences: why what node_facts returned on *host* is not used."""
    return [str(fault) for fault in preflight.find_facts_faults(str(host), to_json_value(result))]


def preflight_judged(
    plan: ClusterPlan, hostvars: Any, hosts: list[str], look: Any
) -> preflight.PreflightVerdict:
    """What the nodes' answers come to; *look*: ``now``, ``asked`` (of ask_nodes, empty without it), ``converge``."""
    seen: preflight.PreflightInput = {
        "now": float(look["now"]),
        "asked": look["asked"].get("answers") or {},
        "converge": str(look["converge"]),
    }
    return preflight.judge_preflight(plan, hostvars, [str(host) for host in hosts], seen)


def preflight_groups(judged: preflight.PreflightVerdict) -> list[dict[str, str]]:
    """Hosts and the groups that they go to, by what they have to do."""
    return preflight.list_group_members(judged)


def preflight_unasked(hostvars: Any, hosts: Sequence[str]) -> str:
    """The pattern of the hosts that are looked at one by one after ask_nodes asked all; mostly nobody's."""
    # the same for all hosts of the run; --limit leaves some out
    everybody = (hostvars[host].get("__preflight_asked") for host in hosts if host in hostvars)
    asked = next(filter(None, everybody), None)
    return build_host_pattern(preflight.list_unqueried_hosts(to_json_value(asked)) if asked else [])


def preflight_pending(hostvars: Any, hosts: Sequence[str]) -> str:
    """The pattern of the hosts on which a change of an earlier run waits for its confirmation; mostly none."""
    known = [host for host in hosts if host in hostvars]
    asked: Any = next(filter(None, (hostvars[host].get("__preflight_asked") for host in known)), {})
    answers = to_json_value(asked).get("answers") or {}
    return build_host_pattern(preflight.list_hosts_with_pending_changes(hostvars, known, answers))


def preflight_pending_text(changes: object) -> list[str]:
    """What a node reverts, a sentence for each change."""
    return preflight.describe_pending_changes(to_json_value(changes))


def preflight_pending_seconds(changes: object) -> int:
    """How long to wait until a node has begun to revert its pending changes."""
    return preflight.count_pending_seconds(to_json_value(changes))


def plan_drift(plan: ClusterPlan, held: ResolvedSettings) -> list[str]:
    """Why a node whose manifest kept *held* has to converge again, where its own state does not say so."""
    return preflight.find_choice_drift(plan, held)


def plan_members(plan: ClusterPlan) -> Membership:
    """What a node that converges to this plan remembers of the list of nodes."""
    return membership.build_membership(plan)


def plan_leads_time(plan: ClusterPlan, host: str) -> bool:
    """Whether the others take their time from *host*."""
    return membership.is_time_leader(plan, str(host))


def plan_opened(plan: ClusterPlan, who: Reach, host: str) -> list[str]:
    """Ports that *who* (peers, controllers, everybody) may reach on *host*."""
    return services.list_open_ports(plan, who, str(host))


def plan_serial(hostvars: Any, hosts: list[str]) -> list[int | str]:
    """How many nodes change at a time, as a play's ``serial`` takes it."""
    return batching.find_plan_batches(hostvars, [str(host) for host in hosts])


def kept_path(name: str) -> str:
    """Where the controller keeps *name*: in the checkout; of a collection, where Ansible was started."""
    return str(settings.KEPT / str(name))


def plan_default(name: str) -> Any:
    """What a setting of the plan is where the inventory says nothing of it."""
    try:
        return settings.PLAN_SETTINGS[str(name)]
    except KeyError as error:
        raise AnsibleFilterError(f"plan_default: there is no setting {name!r}") from error
