"""Find out how Ansible's ssh plugin would reach a host, wherever that is set."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from typing import Any

from fullmesh import ansible_private

# Options of the plugin (``ansible-doc -t connection ssh``) and the variable of a host that sets each.
OPTIONS = {
    "port": "ansible_port",
    "remote_user": "ansible_user",
    "private_key_file": "ansible_ssh_private_key_file",
    "ssh_args": "ansible_ssh_args",
    "ssh_common_args": "ansible_ssh_common_args",
    "ssh_extra_args": "ansible_ssh_extra_args",
}


def resolve_ssh_variables(variables: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add the ssh settings of the environment (``ANSIBLE_SSH_COMMON_ARGS``) and ansible.cfg to a host's variables."""
    read_option = ansible_private.load_ssh_options()
    found: dict[str, Any] = {}
    for option, variable in OPTIONS.items():
        value = read_option(option, variables)
        if value not in (None, ""):
            found[variable] = value
    # a view, because a host's variables are evaluated lazily and need no copy
    return ChainMap(found, variables)  # type: ignore[arg-type]
