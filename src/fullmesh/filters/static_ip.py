"""Provide the checks of role static_ip to Ansible."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from fullmesh import ssh, transaction
from fullmesh.faults import InvalidInputError
from fullmesh.model.types import PlanLink


def static_ip_way(variables: Mapping[str, Any], name: str, address: str) -> dict[str, Any]:
    """Return the connection to a node once its address is *address*. Empty: the inventory's."""
    try:
        return transaction.find_new_connection(ssh.resolve_ssh_variables(variables), name, address)
    except (TypeError, ValueError) as error:
        raise AnsibleFilterError(f"static_ip_way: {error}") from error


def static_ip_destination(
    moves_to: Any, name: str, links: list[PlanLink], state: str = "present"
) -> str:
    """Return the address of a node after its change, from its answer. An undo does not check it against *links*."""
    try:
        return transaction.check_destination(moves_to, name, links if state == "present" else None)
    except InvalidInputError as error:
        raise AnsibleFilterError(str(error)) from None


def static_ip_here(variables: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the current connection to a node."""
    return transaction.find_current_connection(ssh.resolve_ssh_variables(variables), name)


def static_ip_bootstrap(variables: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return how the inventory reaches a node, even if the node has moved since."""
    return transaction.find_first_connection(ssh.resolve_ssh_variables(variables), name)


def static_ip_told(
    failure: str, name: str, tried: str, report: Mapping[str, Any], where: str
) -> str:
    """Describe a change that could not be confirmed."""
    return transaction.describe_failed_change(str(failure), name, tried, report, where)
