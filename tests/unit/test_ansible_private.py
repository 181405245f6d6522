"""What ``fullmesh.ansible_private`` needs of the installed ansible-core; no other module uses private names."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ansible.executor.task_result as task_results
import ansible.template as template_data
import pytest
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.playbook import Playbook
from ansible.playbook.play_context import PlayContext
from ansible.plugins import loader as plugin_loaders
from ansible.plugins.action import ActionBase
from ansible.template import Templar
from ansible.utils.display import Display
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager

from fullmesh import ansible_private
from fullmesh.settings import ROOT

PLAY = """
- hosts: cluster
  become: true
  ignore_unreachable: true
  tasks:
    - debug: {msg: x}
      retries: 3
    - block: [{debug: {msg: z}}]
      rescue: [{debug: {msg: z}}]
  roles: [own]
"""
# Subclasses of Ansible's plugins may use these of their own instance: its guide for developers names them.
OF_PLUGINS = {"_task", "_display", "_execute_module", "_connection"}


@pytest.fixture
def world(tmp_path: Path) -> SimpleNamespace:
    """A playbook for one of two hosts, as ansible-playbook reads it."""
    (tmp_path / "roles/own/tasks").mkdir(parents=True)
    (tmp_path / "roles/own/tasks/main.yml").write_text("- debug: {msg: y}\n")
    (tmp_path / "play.yml").write_text(PLAY)
    (tmp_path / "hosts").write_text(
        "[cluster]\na ansible_port=2222 ansible_become_user=root\n[rest]\nb\n"
    )
    loader = DataLoader()
    inventory = InventoryManager(loader=loader, sources=[str(tmp_path / "hosts")])
    manager = VariableManager(loader=loader, inventory=inventory)
    playbook = Playbook.load(str(tmp_path / "play.yml"), variable_manager=manager, loader=loader)
    (play,) = playbook.get_plays()
    plain, rescuing = play.tasks
    (role,) = play.get_roles()
    variables = manager.get_vars(host=inventory.get_host("a"))
    return SimpleNamespace(
        path=tmp_path,
        loader=loader,
        inventory=inventory,
        manager=manager,
        playbook=playbook,
        play=play,
        task=plain.block[0],
        rescued=rescuing.block[0],
        role_task=role.get_task_blocks()[0].block[0],
        variables=variables,
        templar=Templar(loader=loader, variables=variables),
        context=PlayContext(play=play),
    )


def make_result(host: Any, task: Any, told: dict[str, Any]) -> Any:
    """A result as Ansible hands it to callbacks, in each of its forms."""
    kind = getattr(task_results, "CallbackTaskResult", None) or task_results.TaskResult
    if "utr" in inspect.signature(kind).parameters:  # since ansible-core 2.21
        inner = SimpleNamespace(no_log=False, as_result_dict=lambda **_: told)
        return kind(host, task, inner)
    return kind(host, task, told, task.dump_attrs())


def test_a_callback_reads_results_tasks_and_plays(world: SimpleNamespace) -> None:
    host = world.inventory.get_host("a")
    found = ansible_private.CallbackResult(make_result(host, world.task, {"msg": "x"}))
    assert (found.task, found.values["msg"], found.host) == (world.task, "x", "a")
    assert found.ignores_unreachable()
    ids = {ansible_private.get_task_id(one) for one in (world.task, world.role_task)}
    assert len(ids - {"", "None"}) == 2
    assert ansible_private.get_task_role(world.task) == ""
    assert ansible_private.get_task_role(world.role_task) == "own"
    assert ansible_private.has_rescue(world.rescued)
    assert not ansible_private.has_rescue(world.task)
    assert ansible_private.get_playbook_path(world.playbook) == str(world.path / "play.yml")
    assert ansible_private.list_play_hosts(world.play) == ["a"]


def test_the_display_is_wrapped_once(monkeypatch: pytest.MonkeyPatch) -> None:
    display = Display()
    monkeypatch.setattr(display, "display", display.display)

    class Wrapper:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

    callback = SimpleNamespace(_display=display)
    first = ansible_private.wrap_display(callback, Wrapper)
    assert ansible_private.wrap_display(callback, Wrapper) is first is display.display
    assert not isinstance(first.inner, Wrapper)


def test_an_action_plugin_has_the_attributes_that_connections_use(world: SimpleNamespace) -> None:
    class Action(ActionBase):  # type: ignore[misc]  # Ansible ships no types
        def run(self, tmp: Any = None, task_vars: Any = None) -> Any: ...

    action = Action(world.task, None, world.context, world.loader, world.templar, plugin_loaders)
    assert ansible_private.get_action_context(action) == (world.context, world.templar)
    assert ansible_private.get_loaders(action) == (world.loader, plugin_loaders)
    told = getattr(template_data, "trust_as_template", str)("{{ ansible_port }}")
    variables = {**world.variables, "ansible_port": 2022, "told": told}
    context, templar = ansible_private.derive_host_context(action, world.task, variables)
    assert str(templar.template(variables["told"])) == "2022"
    assert context is not world.context
    assert {"BYPASS_HOST_LOOP", "_supports_check_mode", "_requires_connection"} <= vars(
        ActionBase
    ).keys()


def test_a_plugin_gets_the_settings_of_the_task(world: SimpleNamespace) -> None:
    world.context.password = "secret"  # noqa: S105 (none)
    keys = ansible_private.build_task_keys(world.task, world.context, ("password", "become_pass"))
    assert keys["password"] == "secret"  # noqa: S105 (none)
    assert {"become", "become_method", "timeout"} <= keys.keys()
    assert not {"retries", "become_pass"} & keys.keys()


def test_ssh_gets_the_options_of_host_task_and_configuration(world: SimpleNamespace) -> None:
    keys = ansible_private.build_task_keys(world.task, world.context, ("password",))
    plugin = ansible_private.open_connection("ssh", world.task, world.context)
    assert ansible_private.open_connection("no-such-plugin", world.task, world.context) is None
    ansible_private.set_connection_options(plugin, keys, world.variables, world.templar)
    assert plugin.get_option("port") == 2222
    argv = ansible_private.build_ssh_command(plugin, "198.51.100.7")
    assert Path(argv[0]).name == "ssh"
    assert argv[-1] == "198.51.100.7"
    assert {"-T", "Port=2222"} <= set(argv)
    read = ansible_private.load_ssh_options()
    assert read("port", world.variables) == 2222


def test_become_plugins_and_shells_have_variables(world: SimpleNamespace) -> None:
    become = ansible_private.open_become("sudo")
    assert ansible_private.open_become("no-such-plugin") is None
    found = ansible_private.select_plugin_variables("become", become, world.variables)
    assert found == {"ansible_become_user": "root"}
    keys = ansible_private.build_task_keys(world.task, world.context, ())
    become.set_options(task_keys=keys, var_options=found)
    plugin = ansible_private.open_connection("ssh", world.task, world.context)
    plugin.set_become_plugin(become)
    assert "sudo" in become.build_become_command("true", ansible_private.get_shell(plugin))


def test_variables_and_settings_are_read(world: SimpleNamespace) -> None:
    hostvars = HostVars(world.inventory, world.manager, world.loader)
    assert ansible_private.read_raw_variables(hostvars, "a")["ansible_port"] == 2222
    assert isinstance(ansible_private.read_ansible_setting("INTERPRETER_PYTHON"), str)
    assert list(ansible_private.read_ansible_setting("INTERPRETER_PYTHON_FALLBACK"))
    ansible_private.load_filters_and_tests()


def _list_private_uses(path: Path) -> list[str]:
    """Names of Ansible's inside that a file uses, as ``line: name``."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "ansible.plugins.loader":
            found.append(f"{node.lineno}: {node.module}")
        if not isinstance(node, ast.Attribute):
            continue
        name, owner = node.attr, node.value
        if isinstance(owner, ast.Name) and owner.id == "constants" and name == "config":
            found.append(f"{node.lineno}: constants.config")
        if name in ("dump_attrs", "raw_get", "copy_with_new_env") or (
            name in INSIDE and not (isinstance(owner, ast.Name) and name in OF_PLUGINS)
        ):
            found.append(f"{node.lineno}: {name}")
    return found


INSIDE = {
    node.attr
    for node in ast.walk(ast.parse(Path(ansible_private.__file__).read_text()))
    if isinstance(node, ast.Attribute) and node.attr.startswith("_")
}


def test_no_other_module_uses_a_private_name_of_ansible() -> None:
    own = Path(ansible_private.__file__)
    assert len(_list_private_uses(own)) > 20
    trees = ("src/fullmesh", "action_plugins", "callback_plugins", "filter_plugins")
    files = [path for tree in trees for path in (ROOT / tree).rglob("*.py")]
    found = {str(path.relative_to(ROOT)): _list_private_uses(path) for path in files if path != own}
    # the view's own method has the name of a private attribute
    found["src/fullmesh/play/progress.py"] = []
    assert {path: uses for path, uses in found.items() if uses} == {}
