"""Hands the cluster's key and the nodes' host keys to Ansible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError

from fullmesh.filters.pattern import pattern_of
from fullmesh.model.faults import RefusedError
from fullmesh.model.types import Plan
from fullmesh.plain import truth
from fullmesh.roles import node_ssh as core

SEEN = "__node_ssh_seen"


def node_ssh_faults(user: Any, port: Any) -> list[str]:
    """Coded sentences: what is wrong with the settings."""
    return [str(fault) for fault in core.faults(user, port)]


def _seen(hostvars: Mapping[str, Any], hosts: Sequence[str], key: str) -> dict[str, Any]:
    try:
        return {host: hostvars[host][SEEN][key] for host in hosts}
    except KeyError as error:
        raise AnsibleFilterError(
            f"{error} is missing: the role looks at every node first"
        ) from error


def node_ssh_key(plan: Plan, hostvars: Any, hosts: Sequence[str]) -> str:
    """The private key for all nodes, a new one where none has any. A secret: use no_log."""
    return core.choose(plan, _seen(hostvars, hosts, "private_key"))


def node_ssh_known_hosts(plan: Plan, hostvars: Any, hosts: Sequence[str], port: int) -> str:
    """known_hosts with every node's real host keys."""
    try:
        return core.known_hosts(plan, _seen(hostvars, hosts, "host_keys"), int(port))
    except RefusedError as error:
        raise AnsibleFilterError(str(error)) from None


def node_ssh_pattern(hostvars: Any, hosts: Sequence[str]) -> str:
    """The pattern of the hosts whose ``node_ssh_manage`` is on, for a play that the others cost nothing."""
    wanted = [
        str(host)
        for host in hosts
        if host in hostvars and truth(hostvars[host].get("node_ssh_manage", False))
    ]
    return pattern_of(wanted)


class FilterModule:
    """Filters of the role node_ssh."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The names under which Ansible finds them."""
        return {
            "node_ssh_authorized": core.authorized,
            "node_ssh_pattern": node_ssh_pattern,
            "node_ssh_faults": node_ssh_faults,
            "node_ssh_key": node_ssh_key,
            "node_ssh_known_hosts": node_ssh_known_hosts,
            "node_ssh_next": core.next_node,
            "node_ssh_public": core.public,
        }
