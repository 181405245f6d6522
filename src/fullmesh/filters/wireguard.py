"""Provide the tunnel of role wireguard to Ansible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError

from fullmesh.faults import InvalidInputError
from fullmesh.filters.pattern import build_host_pattern
from fullmesh.model.types import ClusterPlan
from fullmesh.plain import parse_switch
from fullmesh.roles import wireguard

PUBLIC = "__wireguard_public"


def wireguard_node_settings(
    plan: ClusterPlan, hostvars: Mapping[str, Any], hosts: Sequence[str], host: str
) -> wireguard.TunnelSettings:
    """Return the tunnel of *host*, with the public keys of the nodes in this run as its peers."""
    try:
        keys = {str(one): hostvars[one][PUBLIC] for one in hosts}
        return wireguard.build_tunnel_settings(plan, keys, str(host))
    except KeyError as error:
        raise AnsibleFilterError(
            f"{error} is missing: the role reads every node's key first"
        ) from error
    except InvalidInputError as error:
        raise AnsibleFilterError(str(error)) from None


def wireguard_pattern(hostvars: Any, hosts: Sequence[str]) -> str:
    """Return the pattern of the hosts whose ``wireguard_manage`` is on, so that a play does not include the others."""
    wanted = [
        str(host)
        for host in hosts
        if host in hostvars and parse_switch(hostvars[host].get("wireguard_manage", False))
    ]
    return build_host_pattern(wanted)
