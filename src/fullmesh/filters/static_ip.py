"""Hands the checks of the role static_ip to Ansible."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from fullmesh import ssh, transaction
from fullmesh.faults import InvalidInputError
from fullmesh.model.types import PlanLink


def static_ip_way(variables: Mapping[str, Any], name: str, address: str) -> dict[str, Any]:
    """How to reach a node once its address is *address*; empty for where the inventory has it."""
    try:
        return transaction.find_new_connection(ssh.resolve_ssh_variables(variables), name, address)
    except (TypeError, ValueError) as error:
        raise AnsibleFilterError(f"static_ip_way: {error}") from error


def static_ip_destination(
    moves_to: Any, name: str, links: list[PlanLink], state: str = "present"
) -> str:
    """Where a node answers after its change, by what it says; in an undo *links* is not asked."""
    try:
        return transaction.check_destination(moves_to, name, links if state == "present" else None)
    except InvalidInputError as error:
        raise AnsibleFilterError(str(error)) from None


def static_ip_here(variables: Mapping[str, Any], name: str) -> dict[str, Any]:
    """How a node is reached now."""
    return transaction.find_current_connection(ssh.resolve_ssh_variables(variables), name)


def static_ip_bootstrap(variables: Mapping[str, Any], name: str) -> dict[str, Any]:
    """How the inventory reaches a node, whatever has moved since."""
    return transaction.find_first_connection(ssh.resolve_ssh_variables(variables), name)


def static_ip_told(
    failure: str, name: str, tried: str, report: Mapping[str, Any], where: str
) -> str:
    """The sentence that ends a change which could not be confirmed."""
    return transaction.describe_failed_change(str(failure), name, tried, report, where)
