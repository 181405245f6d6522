"""Find out how Ansible would reach each node, with its own ssh plugin and every variable, file and option it honours.

If a node needs Ansible's own task, this module gives the reason: passwords that are typed at a prompt, connections
other than ssh, or other shells.
"""

from __future__ import annotations

import getpass
import itertools
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible import constants  # type: ignore[attr-defined]  # ansible ships no types
from ansible.module_utils.parsing.convert_bool import boolean

from fullmesh import ansible_private
from fullmesh.ask import program
from fullmesh.ask.channel import ConnectionSpec

SSH = ("ssh", "ansible.builtin.ssh", "smart")
# If the controller is itself a node, a local shell is its connection.
LOCAL = ("local", "ansible.builtin.local")
# They work without a terminal, and print nothing if no password is needed.
BECOME = ("sudo", "doas", "dzdo", "pfexec", "pbrun")
ROOT = "root"
# ssh_config(5), "TOKENS": ssh expands these by itself
PERCENT = "%"


class AnsibleTaskNeededError(Exception):
    """The reason why a node has to be queried with Ansible's own task."""


@dataclass(frozen=True)
class QueryTask:
    """The task that queries, with its values for all nodes (``become``, options of the command line)."""

    task: Any
    play_context: Any
    templar: Any

    def keys(self) -> dict[str, Any]:
        """Return the task's own settings as Ansible's executor passes them to a plugin."""
        secrets = ("password", "become_pass")
        return ansible_private.build_task_keys(self.task, self.play_context, secrets)


def load_become_plugin(asker: QueryTask, variables: Mapping[str, Any]) -> Any:
    """Load the plugin with which the task becomes another user. Return None if it does not.

    Raises:
        AnsibleTaskNeededError: it needs a typed password, or the plugin is not supported here.
    """
    wanted = variables.get("ansible_become")
    if not boolean(asker.task.become if wanted is None else wanted, strict=False):
        return None
    name = str(variables.get("ansible_become_method") or asker.task.become_method or "sudo")
    if name.removeprefix("ansible.builtin.") not in BECOME:
        raise AnsibleTaskNeededError(f"it becomes root by {name}")
    plugin = ansible_private.open_become(name)
    if plugin is None:
        raise AnsibleTaskNeededError(f"there is no plugin {name} to become root by")
    values = ansible_private.select_plugin_variables("become", plugin, variables)
    plugin.set_options(task_keys=asker.keys(), var_options=values)
    if plugin.get_option("become_pass"):
        raise AnsibleTaskNeededError("it becomes root with a password")
    return plugin


def list_interpreters(variables: Mapping[str, Any]) -> list[str]:
    """List the Pythons to try on the node, best first: the named one, or those that Ansible looks for."""
    facts = variables.get("ansible_facts") or {}
    named = str(
        variables.get("ansible_python_interpreter")
        or ansible_private.read_ansible_setting("INTERPRETER_PYTHON")
    )
    if not named.startswith("auto"):
        return [named]
    found = facts.get("discovered_interpreter_python")
    return (
        [str(found)]
        if found
        else [
            str(one) for one in ansible_private.read_ansible_setting("INTERPRETER_PYTHON_FALLBACK")
        ]
    )


def find_control_path(argv: Sequence[str]) -> Path | None:
    """Return the socket of the kept connection from the command. None: only ssh could expand it."""
    for before, option in itertools.pairwise(argv):
        if before.startswith("-S"):
            return None
        name, _, value = option.partition("=")
        if before == "-o" and name == "ControlPath":
            value = value.strip('"')
            return None if PERCENT in value or value == "none" else Path(value).expanduser()
    return None


def load_connection_plugin(asker: QueryTask, variables: Mapping[str, Any]) -> Any:
    """Set up Ansible's plugin for ssh, or for the controller itself, for a host.

    Raises:
        AnsibleTaskNeededError: it is another plugin or shell, or ssh with a password.
    """
    kind = str(variables.get("ansible_connection") or asker.task.connection or "ssh")
    if kind not in (*SSH, *LOCAL):
        raise AnsibleTaskNeededError(f"its connection is {kind}")
    shell = str(variables.get("ansible_shell_type") or "sh")
    if shell != "sh":
        raise AnsibleTaskNeededError(f"its shell is {shell}")
    plugin = ansible_private.open_connection(
        "local" if kind in LOCAL else "ssh", asker.task, asker.play_context
    )
    ansible_private.set_connection_options(plugin, asker.keys(), variables, asker.templar)
    if kind in LOCAL:
        return plugin
    if plugin.get_option("password") or asker.play_context.password:
        raise AnsibleTaskNeededError("ssh logs in with a password")
    return plugin


def build_login_command(plugin: Any) -> tuple[list[str], str, str]:
    """Return the command prefix for a host, and the host and user for messages. The controller itself has no host."""
    if plugin.transport == "local":
        return ["/bin/sh", "-c"], "", getpass.getuser()
    host = str(plugin.get_option("host"))
    argv = ansible_private.build_ssh_command(plugin, host)
    return argv, host, str(plugin.get_option("remote_user") or "")


def build_connection_spec(asker: QueryTask, variables: Mapping[str, Any]) -> ConnectionSpec:
    """Build the connection of a host from its variables.

    Raises:
        AnsibleTaskNeededError: the host has to be queried with Ansible's own task.
    """
    plugin, become = load_connection_plugin(asker, variables), load_become_plugin(asker, variables)
    argv, host, user = build_login_command(plugin)
    pythons = list_interpreters(variables)
    text = program.build_query_command(pythons)
    target = str(become.get_option("become_user") or ROOT) if become else user
    # as Ansible does: skip become if the user is already the target
    if become and (constants.BECOME_ALLOW_SAME_USER or target != user):
        plugin.set_become_plugin(become)
        text = become.build_become_command(text, ansible_private.get_shell(plugin))
    shell = str(variables.get("ansible_shell_executable") or "/bin/sh")
    return ConnectionSpec(
        argv=argv,
        control=find_control_path(argv),
        command=f"{shlex.quote(shell)} -c {shlex.quote(text)}",
        root=target == ROOT,
        found=len(pythons) > 1,
        address=host,
        user=user,
    )


def build_connection_specs(
    asker: QueryTask, hostvars: Mapping[str, Mapping[str, Any]], hosts: Sequence[str]
) -> tuple[dict[str, ConnectionSpec], dict[str, str]]:
    """Return (host -> its connection, host -> why it has none). Every host is in one of the two."""
    found: dict[str, ConnectionSpec] = {}
    ordinary: dict[str, str] = {}
    for host in hosts:
        try:
            found[host] = build_connection_spec(asker, hostvars[host])
        except AnsibleTaskNeededError as why:
            ordinary[host] = str(why)
        except Exception as error:
            # Ansible's own task will report the same error for this host only
            ordinary[host] = f"its connection is unknown: {error}"
    return found, ordinary
