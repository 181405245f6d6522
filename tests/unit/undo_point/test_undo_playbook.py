"""The undo playbook undoes every role."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.module_utils.fullmesh.state import observe

from fullmesh.settings import ROOT


def load_undo_play() -> dict[str, Any]:
    (play,) = yaml.safe_load((ROOT / "playbooks/undo.yml").read_text())
    return dict(play)


def test_roles_are_undone_by_their_undo_points() -> None:
    """Settings describe the next run: with nvidia_driver_manage false, driver, hold and nouveau were left behind."""
    found = {
        task["ansible.builtin.include_role"]["name"]: task
        for task in load_undo_play()["tasks"]
        if task.get("ansible.builtin.include_role", {}).get("tasks_from") == "undo"
    }
    roles = {path.parent.parent.name for path in ROOT.glob("roles/*/tasks/undo.yml")}
    # the account has its own playbook, and a verification leaves nothing behind
    assert roles - found.keys() == {"ec2_security_group", "verify_cluster"}
    assert not found.keys() - roles
    for role, task in found.items():
        assert task["when"] == f"'{role}' in __changed_by"
        assert task["tags"] == [role]


def find_undo_points(tree: object) -> set[str]:
    """Return the roles whose undo points a YAML tree makes."""
    if isinstance(tree, list):
        return {role for one in tree for role in find_undo_points(one)}
    if not isinstance(tree, dict):
        return set()
    arguments = tree.get("undo_point", {})
    return {arguments["role"]} if arguments else find_undo_points(list(tree.values()))


def test_every_undo_point_belongs_to_an_undo() -> None:
    paths = [*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("playbooks/**/*.yml")]
    made = {role for path in paths for role in find_undo_points(yaml.safe_load(path.read_text()))}
    undone = {path.parent.parent.name for path in ROOT.glob("roles/*/tasks/undo.yml")}
    # tasks/bundle_undo.yml always runs, because its packages have no undo point
    assert made - undone == {"bundle"}


@pytest.mark.parametrize("remaining", [[], ["nvidia_driver", "peer_firewall"]])
@pytest.mark.parametrize("check", [False, True])
def test_state_is_kept_until_all_roles_are_undone(
    tmp_path: Path, remaining: list[str], check: bool
) -> None:
    """Run the tasks of undo.yml with the tag state in a temporary folder."""
    state = tmp_path / "state"
    (state / "undo").mkdir(parents=True)
    (state / "manifest.json").write_text("{}")
    for name in remaining:
        (state / "undo" / name).mkdir()
    play = load_undo_play()
    tasks = [task for task in play["tasks"] if task.get("tags") == ["state"]]
    part = [{"hosts": "localhost", "gather_facts": False, "vars": play["vars"], "tasks": tasks}]
    text = yaml.safe_dump(part, width=1000).replace("/var/lib/fullmesh", str(state))
    (tmp_path / "play.yml").write_text(text.replace("/run/fullmesh/ask", str(tmp_path / "ask")))
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    interpreter = f"ansible_python_interpreter={sys.executable}"
    command = [program, "-i", "localhost,", "-c", "local", "-e", interpreter]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
    environment["ANSIBLE_BECOME"] = "false"
    done = subprocess.run(
        [*command, str(tmp_path / "play.yml"), *["--check"] * check],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert state.exists() == bool(remaining or check)
    assert (done.returncode != 0) == ("UN-110" in done.stdout) == bool(remaining and not check)
    for name in remaining if not check else []:
        assert name in done.stdout


def test_unit_without_its_file_is_not_found(tmp_path: Path) -> None:
    fragment = tmp_path / "firewalld.service"
    unit = {
        "LoadState": "loaded",
        "ActiveState": "inactive",
        "UnitFileState": "disabled",
        "FragmentPath": str(fragment),
    }
    assert not observe.describe_unit(unit)["found"]
    fragment.write_text("[Unit]\n")
    assert observe.describe_unit(unit)["found"]
    assert not observe.describe_unit({**unit, "LoadState": "not-found"})["found"]
