"""Names of settings: unknown and derived ones are refused, and the tree's own files agree."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError

from fullmesh import settings
from fullmesh.filters import late
from fullmesh.filters.role_faults import role_faults

ROLES = sorted(path.parent for path in (settings.ROOT / "roles").glob("*/tasks"))
NAMES = settings.SettingNames(
    settable=frozenset({"fullmesh_master_port", "peer_firewall_mode", "selinux_mode"}),
    wired={"peer_firewall_peers": "{{ fullmesh_plan['peers'] }}"},
    prefixes=("fullmesh_", "peer_firewall_", "selinux_mode_"),
    roles=frozenset({"peer_firewall", "selinux_mode"}),
)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("fullmesh_mastr_port", "PL-101"),
        ("peer_firewall_mod", "PL-101"),
        ("peer_firewall", "PL-101"),
        ("selinux_mode_x", "PL-101"),
        ("peer_firewall_peers", "PL-102"),
    ],
)
def test_unknown_and_derived_names_are_refused(name: str, code: str) -> None:
    faults = settings.find_setting_faults("a", [name, "ansible_host", "my_own"], NAMES)
    assert [fault.code for fault in faults] == [code]
    assert name in faults[0].text


def test_a_misspelled_name_is_answered_with_the_right_one() -> None:
    assert "fullmesh_master_port" in str(
        settings.find_setting_faults("a", ["fullmesh_mastr_port"], NAMES)[0]
    )


@pytest.mark.parametrize("name", settings.RENAMED)
def test_an_old_name_is_an_error_with_the_new_name(name: str) -> None:
    new, names = settings.RENAMED[name], settings.load_setting_names()
    assert new in names.settable
    assert name not in names.settable
    assert set(settings.RENAMED_VALUES) <= set(settings.RENAMED)
    (fault,) = settings.find_setting_faults("a", [name], names)
    assert fault.code == "PL-136"
    assert f"{name} was replaced" in fault.text
    assert f"Fix: use {new}" in fault.step
    row = rf"^ *\| `{name}(: \w+)?` \| `{new}\b"
    assert re.search(row, (settings.ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_an_old_value_is_named_with_the_new_one() -> None:
    assert settings.describe_new_name("peer_firewall_start") == (
        "peer_firewall_existing_services: open instead of carry, block instead of cut"
    )


def test_good_names_and_facts_pass() -> None:
    good = ["fullmesh_master_port", "selinux_mode", "fullmesh_plan", "fullmesh_owned", "nccl"]
    assert settings.find_setting_faults("a", good, NAMES) == []


def _yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text()) or {}


def _options(role: Path) -> dict[str, Any]:
    return dict(
        _yaml(role / "meta/argument_specs.yml")["argument_specs"]["main"].get("options") or {}
    )


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_defaults_equal_argument_specs(role: Path) -> None:
    defaults, options = _yaml(role / "defaults/main.yml"), _options(role)
    assert defaults.keys() == {
        name for name, option in options.items() if not option.get("required")
    }
    assert defaults == {
        name: o.get("default") for name, o in options.items() if not o.get("required")
    }


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_public_names_start_with_the_role_and_are_few(role: Path) -> None:
    options = _options(role)
    # the plan's names are refused in an inventory (PL-102), so users need not know them
    assert len(options.keys() - settings.load_setting_names().wired.keys()) <= 12
    assert all(name == role.name or name.startswith(role.name + "_") for name in options)
    assert all(option.get("description") for option in options.values())


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_required_variables_are_wired(role: Path) -> None:
    wired = settings.load_setting_names().wired
    required = {name for name, option in _options(role).items() if option.get("required")}
    assert required <= wired.keys()


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_task_files_are_short(role: Path) -> None:
    long = {p.name for p in (role / "tasks").glob("*.yml") if len(p.read_text().splitlines()) > 80}
    assert not long


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_role_is_documented_and_can_be_undone(role: Path) -> None:
    assert (role / "README.md").exists()
    reads_only = role.name in ("preflight", "verify_cluster")
    assert reads_only or (role / "tasks/undo.yml").exists()


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_role_loads_its_platform_variables_by_one_file(role: Path) -> None:
    platforms = {path.name for path in (role / "vars").iterdir()} - {"main.yml"}
    own = role / "tasks/set_vars.yml"
    assert own.is_symlink() == bool(platforms)
    if platforms:
        assert own.resolve() == settings.ROOT / "playbooks/tasks/set_vars.yml"


def test_wired_names_are_role_variables() -> None:
    options = {name for role in ROLES for name in _options(role)}
    assert settings.load_setting_names().wired.keys() <= options


def test_every_role_is_checked_before_any_node_changes() -> None:
    """Preflight checks itself earlier, and the EC2 side is not part of site.yml."""
    (play,) = _yaml(settings.ROOT / "playbooks/settings.yml")
    own = {role.name for role in ROLES if _options(role)} - {"preflight", "ec2_security_group"}
    assert set(play["tasks"][0]["loop"]) == own


def test_a_role_checks_itself_as_the_preflight_does() -> None:
    """The condition of a check is part of the check, so role and preflight evaluate the same one."""
    (play,) = _yaml(settings.ROOT / "playbooks/settings.yml")
    for name in play["tasks"][0]["loop"]:
        (asked,) = [
            task
            for task in _yaml(settings.ROOT / f"roles/{name}/tasks/main.yml")
            if task.get("ansible.builtin.import_tasks") == "assert.yml"
        ]
        assert "when" not in asked, name


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_check_argument_is_a_variable_of_the_role(role: Path) -> None:
    own = role / "tasks/assert.yml"
    assert own.exists() == (role.name in late.SETTING_CHECKS)
    if not own.exists():
        return
    (task,) = [one for one in _yaml(own) if "check_settings" in str(one)]
    more = task.get("vars", {}).get("__more", {}).keys()
    variables = {name.removeprefix(f"{role.name}_") for name in _options(role)}
    check = late.load_function(late.SETTING_CHECKS[role.name])
    taken = inspect.signature(check).parameters.keys()
    assert more <= taken <= variables | more | {"settings", "options"}


def test_a_check_gets_its_arguments_by_name() -> None:
    given = {"node_ssh_user": "root", "node_ssh_port": "22", "node_ssh_plan": {}}
    assert [text[:8] for text in role_faults("node_ssh", given, {})] == ["[NS-101]"]
    assert role_faults("node_ssh", given, {"user": "train"}) == []
    assert role_faults(
        "selinux_mode", {"selinux_mode": "x", "selinux_mode_rollback_seconds": 0}, {}
    )


@pytest.mark.parametrize(
    ("role", "given"),
    [
        ("node_ssh", {"user": "fullmesh"}),
        ("name_resolution", {"hosts": [{}], "address": "", "names": []}),
        ("no_such_role", {}),
    ],
)
def test_settings_of_another_form_are_an_error_of_the_filter(
    role: str, given: dict[str, Any]
) -> None:
    variables = {f"{role}_{name}": value for name, value in given.items()}
    with pytest.raises(AnsibleFilterError, match=rf"role_faults\('{role}'\): "):
        role_faults(role, variables, {})


TYPED = {"bool": "bool", "int": "int|float", "float": "float"}


def _typed() -> dict[str, str]:
    """Return the kind of every setting of a role that is not text."""
    return {
        name: option["type"]
        for role in ROLES
        for name, option in _options(role).items()
        if option.get("type") in TYPED
    }


def _counted_on(text: str, name: str, kind: str) -> list[str]:
    """Return the places where a setting is used as a value, not only printed or passed to a module."""
    found = []
    for line in text.splitlines():
        code = "" if line.lstrip().startswith("#") else line
        for match in re.finditer(rf"(?<![\w.]){name}(?!\w)", code):
            before, after = code[: match.start()], code[match.end() :]
            cast = re.match(rf"(?:'\])?(\s*\|\s*default\([^)]*\))?\s*\|\s*({TYPED[kind]})\b", after)
            key = not before.strip() and after.startswith(":")
            alone = before.endswith("{{ ") and after.startswith(" }}")
            said = before.endswith("~ ") and after.startswith(" ~")
            if not (cast or key or alone or said):
                found.append(line.strip())
    return found


def test_command_line_text_is_read_by_meaning() -> None:
    """``-e static_ip_manage=false`` and an INI inventory give the text ``false``, which is true in Jinja."""
    # Filters that validate or count their input accept texts.
    trees = ("roles/*/tasks", "roles/*/vars", "roles/*/handlers", "playbooks")
    files = [path for tree in trees for path in settings.ROOT.glob(f"{tree}/**/*.yml")]
    texts = {
        path: re.sub(
            r"\{\{[^{]*?_(faults|settings)\(.*?\}\}", "", path.read_text(), flags=re.DOTALL
        )
        for path in [*files, settings.ROOT / "site.yml"]
    }
    typed = _typed()
    wrong = {
        f"{path.relative_to(settings.ROOT)}: {line}"
        for path, text in texts.items()
        for name, kind in typed.items()
        for line in _counted_on(text, name, kind)
    }
    assert not wrong


@pytest.mark.parametrize(
    "line",
    ["when: x_on", "when: x_on and y", "a: \"{{ 'b' if x_on else 'c' }}\"", "{{ x_on + 1 }}"],
)
def test_a_setting_used_without_a_cast_is_found(line: str) -> None:
    assert _counted_on(line, "x_on", "bool")


@pytest.mark.parametrize(
    "line",
    ["when: x_on | bool", 'on: "{{ x_on }}"', "x_on: true", "# x_on and y", "x_on_not and y"],
)
def test_a_setting_that_is_cast_or_passed_on_is_accepted(line: str) -> None:
    assert not _counted_on(line, "x_on", "bool")


def test_each_default_of_the_plan_is_defined_once() -> None:
    """A role's own default for the same setting is equal, and the wiring uses its name."""
    wiring = (settings.ROOT / "playbooks/vars/wiring.yml").read_text()
    for name, wired in re.findall(
        r"^(\w+): .*\{\{ (fullmesh_\w+) \| default", wiring, re.MULTILINE
    ):
        role = next(path.name for path in ROLES if name.startswith(path.name + "_"))
        own = yaml.safe_load((settings.ROOT / f"roles/{role}/defaults/main.yml").read_text())
        assert own[name] == settings.PLAN_SETTINGS[wired]
        assert f"default('{wired}' | plan_default)" in wiring
