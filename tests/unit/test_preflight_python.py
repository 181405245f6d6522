"""Nodes that a module can't answer from: Ansible itself, with interpreters that are too old or missing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pythons import find_interpreter

from fullmesh.model import plan

ROOT = Path(__file__).parents[2]
# The first two fail in ansible-core's wrapper, each in its own way; the third in what is ours.
OLD = ("3.6", "3.7", "3.8")
PLAY = """
- hosts: all
  gather_facts: false
  vars: {ansible_become: false}
  tasks:
    - ansible.builtin.include_role: {name: preflight, tasks_from: observe}
"""


def list_refusals(
    folder: Path, interpreters: dict[str, str], search: str = os.environ["PATH"]
) -> str:
    """What preflight says of hosts that are this machine, each with its interpreter ('' has Ansible look for one)."""
    hosts = {
        host: {"fullmesh_address": f"10.0.0.{at}/24"} for at, host in enumerate(interpreters, 11)
    }
    named = {
        host: {"ansible_python_interpreter": path} for host, path in interpreters.items() if path
    }
    inventory = {
        "all": {
            "hosts": {
                host: {"ansible_connection": "local", **named.get(host, {})} for host in hosts
            }
        }
    }
    (folder / "play.yml").write_text(PLAY)
    (folder / "hosts.json").write_text(json.dumps(inventory))
    (folder / "plan.json").write_text(json.dumps({"fullmesh_plan": plan.derive_plan(hosts)}))
    command = [
        str(Path(sys.executable).with_name("ansible-playbook")),
        *(
            "-i",
            str(folder / "hosts.json"),
            "-e",
            f"@{folder / 'plan.json'}",
            str(folder / "play.yml"),
        ),
    ]
    env = {
        **os.environ,
        "PATH": search,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_NOCOLOR": "1",
    }
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode, done.stdout
    return done.stdout + done.stderr


def test_old_ones_are_named_with_their_version_all_at_once(tmp_path: Path) -> None:
    found = {version: find_interpreter(version) for version in OLD}
    if not all(found.values()):
        pytest.skip(f"this machine lacks one of Python {', '.join(OLD)}")
    said = list_refusals(
        tmp_path, {f"py{version.replace('.', '')}": path for version, path in found.items()}
    )
    for version in OLD:
        host = f"py{version.replace('.', '')}"
        sentence = rf"\[PR-113\] {host}: Python {re.escape(version)}\.\d+ is older than 3\.9"
        assert re.search(sentence, said), said
    assert "PR-102" not in said


def test_no_python(tmp_path: Path) -> None:
    said = list_refusals(tmp_path, {"bare": "/nowhere/python3"})
    assert "[PR-102] bare: cannot be observed" in said, said
    assert "PR-113" not in said


def test_one_that_ansible_found_by_itself(tmp_path: Path) -> None:
    """Its name comes back as a fact of the failed module, which is no observation."""
    old = find_interpreter(OLD[-1])
    if not old:
        pytest.skip(f"this machine lacks Python {OLD[-1]}")
    only = tmp_path / "bin"
    only.mkdir()
    (only / f"python{OLD[-1]}").symlink_to(old)
    said = list_refusals(tmp_path, {"auto": ""}, search=str(only))
    assert f"[PR-113] auto: Python {OLD[-1]}." in said, said
