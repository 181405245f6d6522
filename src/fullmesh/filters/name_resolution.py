"""Hands the checks of the role name_resolution to Ansible."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleFilterError

from fullmesh.roles import name_resolution


def name_resolution_faults(
    hosts: list[dict[str, Any]], address: str, own_names: list[str]
) -> list[str]:
    """Coded sentences: what is wrong with the names."""
    try:
        return [
            str(fault)
            for fault in name_resolution.find_hosts_file_faults(hosts, address, own_names)
        ]
    except (AttributeError, KeyError, TypeError) as error:
        raise AnsibleFilterError(f"name_resolution_faults: {error!r}") from error
