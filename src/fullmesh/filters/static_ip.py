"""Hands the checks of the role static_ip to Ansible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from fullmesh import ssh, transaction
from fullmesh.model.faults import RefusedError
from fullmesh.model.types import PlanLink
from fullmesh.roles import static_ip as core


def static_ip_faults(
    links: list[PlanLink], wait_seconds: int, rollback_seconds: int = 60
) -> list[str]:
    """Coded sentences: what is wrong with the links of a node."""
    try:
        found = core.faults(links, int(wait_seconds), int(rollback_seconds))
        return [str(fault) for fault in found]
    except (KeyError, TypeError, ValueError) as error:
        raise AnsibleFilterError(f"static_ip_faults: {error!r}") from error


def static_ip_addresses(links: list[PlanLink]) -> list[core.Watched]:
    """What the manifest watches of the links."""
    return core.addresses(links)


def static_ip_way(variables: Mapping[str, Any], name: str, address: str) -> dict[str, Any]:
    """How to reach a node once its address is *address*; empty for where the inventory has it."""
    try:
        return transaction.way(ssh.resolved(variables), name, address)
    except (TypeError, ValueError) as error:
        raise AnsibleFilterError(f"static_ip_way: {error}") from error


def static_ip_destination(
    moves_to: Any, name: str, links: list[PlanLink], state: str = "present"
) -> str:
    """Where a node answers after its change, by what it says; in an undo *links* is not asked."""
    try:
        return transaction.check_destination(moves_to, name, links if state == "present" else None)
    except RefusedError as error:
        raise AnsibleFilterError(str(error)) from None


def static_ip_here(variables: Mapping[str, Any], name: str) -> dict[str, Any]:
    """How a node is reached now."""
    return transaction.here(ssh.resolved(variables), name)


def static_ip_bootstrap(variables: Mapping[str, Any], name: str) -> dict[str, Any]:
    """How the inventory reaches a node, whatever has moved since."""
    return transaction.bootstrap(ssh.resolved(variables), name)


def static_ip_told(
    failure: str, name: str, tried: str, report: Mapping[str, Any], where: str
) -> str:
    """The sentence that ends a change which could not be confirmed."""
    return transaction.told(str(failure), name, tried, report, where)


class FilterModule:
    """Filters of the role static_ip."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The names under which Ansible finds them."""
        return {
            "static_ip_faults": static_ip_faults,
            "static_ip_addresses": static_ip_addresses,
            "static_ip_way": static_ip_way,
            "static_ip_destination": static_ip_destination,
            "static_ip_bootstrap": static_ip_bootstrap,
            "static_ip_here": static_ip_here,
            "static_ip_moved": transaction.moved,
            "static_ip_up": transaction.up,
            "static_ip_witnesses": transaction.witnesses,
            "static_ip_told": static_ip_told,
            # of all changes that a node puts back by itself, the other roles' as well
            "change_token": transaction.token,
        }
