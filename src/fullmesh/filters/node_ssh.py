"""Provide the cluster's key and the nodes' host keys to Ansible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError

from fullmesh.faults import InvalidInputError
from fullmesh.filters.pattern import build_host_pattern
from fullmesh.model.types import ClusterPlan
from fullmesh.plain import parse_switch
from fullmesh.roles import node_ssh

SEEN = "__node_ssh_seen"


def _collect_ssh_values(
    hostvars: Mapping[str, Any], hosts: Sequence[str], key: str
) -> dict[str, Any]:
    try:
        return {host: hostvars[host][SEEN][key] for host in hosts}
    except KeyError as error:
        raise AnsibleFilterError(
            f"{error} is missing: the role surveys every node first"
        ) from error


def node_ssh_key(plan: ClusterPlan, hostvars: Any, hosts: Sequence[str]) -> str:
    """Return the private key for all nodes, or a new one if no node has any. A secret: use no_log."""
    return node_ssh.choose_private_key(plan, _collect_ssh_values(hostvars, hosts, "private_key"))


def node_ssh_known_hosts(plan: ClusterPlan, hostvars: Any, hosts: Sequence[str], port: int) -> str:
    """Render known_hosts with every node's real host keys."""
    try:
        return node_ssh.render_known_hosts(
            plan, _collect_ssh_values(hostvars, hosts, "host_keys"), int(port)
        )
    except InvalidInputError as error:
        raise AnsibleFilterError(str(error)) from None


def node_ssh_pattern(hostvars: Any, hosts: Sequence[str]) -> str:
    """Return the pattern of the hosts whose ``node_ssh_manage`` is on, so that a play does not include the others."""
    wanted = [
        str(host)
        for host in hosts
        if host in hostvars and parse_switch(hostvars[host].get("node_ssh_manage", False))
    ]
    return build_host_pattern(wanted)
