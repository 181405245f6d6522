"""Provide the EC2 rules to Ansible."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fullmesh.ec2 import findings, place, security_group
from fullmesh.ec2.settings import SecurityGroupSettings, find_group_settings_faults
from fullmesh.faults import Fault
from fullmesh.filters.pattern import build_host_pattern
from fullmesh.model.types import ClusterPlan
from fullmesh.plain import to_json_value
from fullmesh.result.findings import format_finding


def _read_ec2_settings(given: Any, plan: Any) -> SecurityGroupSettings:
    return SecurityGroupSettings.of(to_json_value(given), to_json_value(plan))


def find_ec2_option_faults(given: Mapping[str, Any], plan: ClusterPlan) -> list[Fault]:
    """Find the settings that cannot work."""
    return find_group_settings_faults(_read_ec2_settings(given, plan))


def ec2_address_filters(plan: ClusterPlan) -> list[dict[str, list[str]]]:
    """Return filters that find the interfaces with the cluster addresses."""
    return place.build_address_filters(to_json_value(plan))


def ec2_instance_filters(interfaces: list[Any]) -> list[dict[str, list[str]]]:
    """Return filters that find all interfaces of the same instances."""
    return place.build_instance_filters(to_json_value(interfaces))


def ec2_group_filters(interfaces: list[Any], vpc: str, name: str) -> dict[str, Any]:
    """Return the filter that finds the groups to check."""
    return place.build_group_filters(to_json_value(interfaces), str(vpc or ""), str(name))


def ec2_todo(raw: Mapping[str, Any], plan: ClusterPlan, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes to the account."""
    return security_group.find_group_changes(
        to_json_value(raw), to_json_value(plan), _read_ec2_settings(given, plan)
    )


def ec2_undo(raw: Mapping[str, Any], plan: ClusterPlan, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes that restore the account."""
    return security_group.find_undo_changes(
        to_json_value(raw), to_json_value(plan), _read_ec2_settings(given, plan)
    )


def ec2_findings(
    raw: Mapping[str, Any], plan: ClusterPlan, given: Mapping[str, Any], fixed: bool = False
) -> list[dict[str, Any]]:
    """Return findings about settings in EC2 that separate the nodes. ``text`` is the coded sentence.

    *fixed* leaves out problems that a run of the role would fix, for a dry run.
    """
    found = findings.check_ec2(
        to_json_value(raw), to_json_value(plan), _read_ec2_settings(given, plan)
    )
    kept = [one for one in found if not (fixed and one.code in findings.FIXED)]
    return [{**one.as_dict(), "text": format_finding(one)} for one in kept]


def ec2_concerned(hostvars: Any, hosts: list[str]) -> str:
    """Return the pattern of the hosts of a diagnosis that must query AWS, or of no host."""
    names = [str(host) for host in hosts if host in hostvars]
    key = "__diagnose_looked"
    surveyed: Mapping[str, Any] = next(
        (hostvars[name][key] for name in names if key in hostvars[name]), {}
    )
    said = surveyed.get("answers", {})
    # not to_json_value: Ansible would template the whole survey
    hosts_seen = ((map(str, hostvars[name]), said.get(name) or {}) for name in names)
    return build_host_pattern(names if place.needs_ec2_check(hosts_seen) else [])


def ec2_made_groups(groups: list[Any], name: str) -> list[str]:
    """Return the ids of the groups that Fullmesh created for the cluster *name*."""
    return place.find_created_groups(to_json_value(groups), str(name))


def ec2_no_answer(result: Mapping[str, Any]) -> str:
    """Return the coded sentence for a failed query to AWS."""
    return str(security_group.make_aws_fault(to_json_value(result)))
