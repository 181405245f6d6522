"""Every use of a name that Ansible does not document, with its reason.

No other module uses one. ``tests/unit/test_ansible_private.py`` checks each of them on the installed ansible-core, and
the tests of the installation run it with every supported release.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible import constants  # type: ignore[attr-defined]  # ansible ships no types
from ansible.plugins.loader import become_loader, connection_loader, filter_loader, test_loader

SSH_EXECUTABLE = "ssh_executable"


def get_result_host(result: Any) -> str:
    """Return the host of a result, without the cost of reading the result itself."""
    return str((result.host if hasattr(result, "host") else result._host).get_name())


class CallbackResult:
    """The result that a callback gets. Its names are public since ansible-core 2.19, and private before."""

    def __init__(self, result: Any) -> None:
        public = hasattr(result, "task")
        self.result = result
        self.task: Any = result.task if public else result._task
        self.values: Any = result.result if public else result._result
        self.host = get_result_host(result)

    def ignores_unreachable(self) -> bool:
        """Return whether the task continues without the host. The public name warns in ansible-core 2.21."""
        return bool(self.result._task_fields.get("ignore_unreachable"))


def get_task_id(task: Any) -> str:
    """Return the id of a task for callbacks and connections. It has no public name."""
    return str(task._uuid)


def get_task_role(task: Any) -> str:
    """Return the name of a task's role, or "". The public name of the task contains it as text only."""
    return str(task._role.get_name()) if getattr(task, "_role", None) else ""


def has_rescue(task: Any) -> bool:
    """Return whether a block around the task rescues its failure. Only the parents of a task lead to its blocks."""
    parent = getattr(task, "_parent", None)
    while parent is not None:
        if getattr(parent, "rescue", None):
            return True
        parent = getattr(parent, "_parent", None)
    return False


def get_playbook_path(playbook: Any) -> str:
    """Return the path of a playbook, which a callback cannot get otherwise."""
    return str(playbook._file_name)


def list_play_hosts(play: Any) -> list[str]:
    """List the hosts of a play before its first task. Its public ``hosts`` are patterns."""
    found = play.get_variable_manager()._inventory.get_hosts(play.hosts)
    return [host.get_name() for host in found]


def wrap_display(callback: Any, wrapper: type) -> Any:
    """Wrap the process's one display, once: warnings and errors pass no callback. Return the wrapper."""
    display = callback._display
    if not isinstance(display.display, wrapper):
        display.display = wrapper(display.display)
    return display.display


def load_filters_and_tests() -> None:
    """Load all filter and test plugins, which Ansible would load in each worker."""
    for loader in (filter_loader, test_loader):
        list(loader.all())


def get_action_context(action: Any) -> tuple[Any, Any]:
    """Return (play context, templar) of an action plugin, which Ansible's executor gives to connections."""
    return action._play_context, action._templar


def derive_host_context(action: Any, task: Any, variables: dict[str, Any]) -> tuple[Any, Any]:
    """Return (play context, templar) for another host, as Ansible's executor makes them for a task."""
    templar = action._templar.copy_with_new_env(available_variables=variables)
    context = action._play_context.set_task_and_variable_override(
        task=task, variables=variables, templar=templar
    )
    return context, templar


def get_loaders(action: Any) -> tuple[Any, Any]:
    """Return the loaders that another action plugin is made with."""
    return action._loader, action._shared_loader_obj


def read_raw_variables(hostvars: Any, host: str) -> dict[str, Any]:
    """Read the variables of a host without evaluating them."""
    return dict(hostvars.raw_get(host))


def build_task_keys(task: Any, play_context: Any, secrets: Sequence[str]) -> dict[str, Any]:
    """Return the task's own settings as Ansible's executor passes them to a plugin, with the *secrets* that are set."""
    keys: dict[str, Any] = {**task.dump_attrs(), "timeout": play_context.timeout}
    keys.pop("retries", None)
    keys.update({name: value for name in secrets if (value := getattr(play_context, name, None))})
    return keys


def open_connection(kind: str, task: Any, play_context: Any) -> Any:
    """Return a connection plugin, or None if the name is unknown. The plugin needs the id of its task."""
    return connection_loader.get(kind, play_context, task_uuid=get_task_id(task))


def open_become(name: str) -> Any:
    """Return a become plugin, or None if there is none of this name."""
    return become_loader.get(name)


def set_connection_options(
    plugin: Any, keys: Mapping[str, Any], variables: Mapping[str, Any], templar: Any
) -> None:
    """Set the options of a connection from the task and the host's variables, with Ansible's own precedence."""
    if hasattr(plugin, "_resolve_option_variables"):
        values = plugin._resolve_option_variables(variables, templar)
    else:  # before ansible-core 2.17 its executor does the same
        found = select_plugin_variables("connection", plugin, variables)
        values = {"_extras": {}, **{name: templar.template(found[name]) for name in found}}
    plugin.set_options(task_keys=keys, var_options=values)


def select_plugin_variables(kind: str, plugin: Any, variables: Mapping[str, Any]) -> dict[str, Any]:
    """Select the variables of a host that a plugin has options for. Ansible's configuration uses its loaded name."""
    known = constants.config.get_plugin_vars(kind, plugin._load_name)
    return {one: variables[one] for one in known if one in variables}


def get_shell(plugin: Any) -> Any:
    """Return the shell plugin of a connection, which quotes and which has options of its own."""
    return plugin._shell


def build_ssh_command(plugin: Any, host: str) -> list[str]:
    """Build the ssh command line for *host* with all options of Ansible's plugin."""
    # as its exec_command does: the kept connection is named after it
    plugin.host = host
    built = plugin._build_command(plugin.get_option(SSH_EXECUTABLE), "ssh", "-T", host)
    return [one.decode() for one in built]


def load_ssh_options() -> Callable[[str, Mapping[str, Any]], Any]:
    """Return the reader of an option of the ssh plugin for the variables of a host, before any connection."""
    connection_loader.get("ssh", class_only=True)  # its options are known once it is loaded

    def read(option: str, variables: Mapping[str, Any]) -> Any:
        return constants.config.get_config_value(
            option, plugin_type="connection", plugin_name="ssh", variables=variables
        )

    return read


def read_ansible_setting(name: str) -> Any:
    """Read a setting of ansible.cfg that ``ansible.constants`` does not have as a name."""
    return constants.config.get_config_value(name)
