"""Hands the EC2 rules to Ansible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fullmesh.ec2 import findings as judge
from fullmesh.ec2 import place
from fullmesh.ec2 import security_group as core
from fullmesh.ec2.settings import Settings, settings_faults
from fullmesh.filters.pattern import pattern_of
from fullmesh.model.types import Plan
from fullmesh.plain import plain


def _settings(given: Any, plan: Any) -> Settings:
    return Settings.of(plain(given), plain(plan))


def ec2_settings_faults(given: Mapping[str, Any], plan: Plan) -> list[str]:
    """Coded sentences: what is wrong with the settings."""
    return [str(fault) for fault in settings_faults(_settings(given, plan))]


def ec2_address_filters(plan: Plan) -> list[dict[str, list[str]]]:
    """Filters that find the interfaces with the cluster addresses."""
    return place.address_filters(plain(plan))


def ec2_instance_filters(interfaces: list[Any]) -> list[dict[str, list[str]]]:
    """Filters that find all interfaces of the same instances."""
    return place.instance_filters(plain(interfaces))


def ec2_group_filters(interfaces: list[Any], vpc: str, name: str) -> dict[str, Any]:
    """The filter that finds the groups to look at."""
    return place.group_filters(plain(interfaces), str(vpc or ""), str(name))


def ec2_todo(raw: Mapping[str, Any], plan: Plan, given: Mapping[str, Any]) -> dict[str, Any]:
    """What has to change in the account."""
    return core.todo(plain(raw), plain(plan), _settings(given, plan))


def ec2_undo(raw: Mapping[str, Any], plan: Plan, given: Mapping[str, Any]) -> dict[str, Any]:
    """What gives the account back."""
    return core.undo(plain(raw), plain(plan), _settings(given, plan))


def ec2_findings(
    raw: Mapping[str, Any], plan: Plan, given: Mapping[str, Any], fixed: bool = False
) -> list[dict[str, Any]]:
    """What in the account keeps the nodes from each other; ``text`` is the coded sentence.

    *fixed* leaves out what a run of the role would have put right: a dry run asks so.
    """
    found = judge.findings(plain(raw), plain(plan), _settings(given, plan))
    kept = [one for one in found if not (fixed and one.code in judge.FIXED)]
    return [{**one.as_dict(), "text": judge.text(one)} for one in kept]


def ec2_concerned(hostvars: Any, hosts: list[str]) -> str:
    """The pattern of the hosts of a diagnosis that has to ask AWS; of nobody where it has not."""
    names = [str(host) for host in hosts if host in hostvars]
    key = "__diagnose_looked"
    looked: Mapping[str, Any] = next(
        (hostvars[name][key] for name in names if key in hostvars[name]), {}
    )
    said = looked.get("answers", {})
    told = ((map(str, hostvars[name]), plain(said.get(name) or {})) for name in names)
    return pattern_of(names if place.concerned(told) else [])


def ec2_made_groups(groups: list[Any], name: str) -> list[str]:
    """Ids of the groups that Fullmesh made for the cluster *name*."""
    return place.made_groups(plain(groups), str(name))


def ec2_no_answer(result: Mapping[str, Any]) -> str:
    """The coded sentence for a question to AWS that failed."""
    return str(core.no_answer(plain(result)))


class FilterModule:
    """Filters of the role ec2_security_group."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The names under which Ansible finds them."""
        return {
            "ec2_settings_faults": ec2_settings_faults,
            "ec2_address_filters": ec2_address_filters,
            "ec2_instance_filters": ec2_instance_filters,
            "ec2_group_filters": ec2_group_filters,
            "ec2_todo": ec2_todo,
            "ec2_undo": ec2_undo,
            "ec2_findings": ec2_findings,
            "ec2_concerned": ec2_concerned,
            "ec2_made_groups": ec2_made_groups,
            "ec2_no_answer": ec2_no_answer,
        }
