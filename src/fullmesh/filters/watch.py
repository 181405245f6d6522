"""Hands the nodes of an inventory to the watch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible import constants  # type: ignore[attr-defined]  # ansible ships no types
from ansible.errors import AnsibleFilterError
from ansible.plugins.loader import connection_loader

from fullmesh.diagnose import inventory
from fullmesh.plain import plain
from fullmesh.watch import remote as watch_remote


def ssh_options(variables: Mapping[str, Any]) -> dict[str, Any]:
    """What Ansible's ssh plugin would take for a host: from its variables, the environment or ansible.cfg."""
    connection_loader.get("ssh", class_only=True)  # its options are known once it is loaded
    return {
        name: constants.config.get_config_value(
            name, plugin_type="connection", plugin_name="ssh", variables=variables
        )
        for name in watch_remote.SSH_OPTIONS
    }


def watch_nodes(hostvars: Any, hosts: list[str]) -> watch_remote.TakesPart:
    """The plan of *hosts* and how each of them is reached."""
    try:
        plan = inventory.tolerant(hostvars, hosts)
        reach = {
            str(host): watch_remote.reached_by(hostvars[host], ssh_options(hostvars[host]))
            for host in hosts
        }
    except (ValueError, KeyError, IndexError) as error:
        raise AnsibleFilterError(f"watch_nodes: {error}") from error
    found: watch_remote.TakesPart = plain({"plan": plan, "hosts": reach})
    return found


class FilterModule:
    """Filters of the watch."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """The names under which Ansible finds them."""
        return {"watch_nodes": watch_nodes}
