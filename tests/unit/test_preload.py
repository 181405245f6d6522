"""The preload callback: filters are read before Ansible forks its workers, and stay out of the workers' collector."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
from pathlib import Path

from fullmesh.settings import ROOT

# says where it was read, and how many objects the collector of the process that uses it leaves alone
FILTER = """
import gc, os
HERE = os.getpid()
class FilterModule:
    def filters(self):
        return {"told": lambda _: f"read in {HERE}, used in {os.getpid()}, frozen {gc.get_freeze_count()}"}
"""
PLAY = """
- hosts: [a, b]
  gather_facts: false
  tasks:
    - ansible.builtin.debug: {msg: "{{ 1 | told }}"}
- hosts: a
  gather_facts: false
  roles: [own]
"""
ROLE = """
- ansible.builtin.debug: {msg: "{{ 1 | told }}"}
- ansible.builtin.include_role: {name: late}
"""
LATE = """
- ansible.builtin.debug: {msg: "late: {{ 1 | only_late }}, {{ 1 | told }}"}
"""
ONLY_LATE = FILTER.replace('"told"', '"only_late"')


def run_play(folder: Path, callbacks: str) -> str:
    for name, text in {
        "filter_plugins/told.py": FILTER,
        "roles/own/tasks/main.yml": ROLE,
        "roles/late/tasks/main.yml": LATE,
        "roles/late/filter_plugins/only_late.py": ONLY_LATE,
        "play.yml": PLAY,
        "ansible.cfg": "[defaults]\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    env = {
        **os.environ,
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
        "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "callback_plugins"),
        "ANSIBLE_CALLBACKS_ENABLED": callbacks,
        "ANSIBLE_NOCOLOR": "1",
    }
    command = [Path(sys.executable).with_name("ansible-playbook"), "-i", "a,b,", "play.yml"]
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def from_the_start() -> int:
    """What Python leaves alone without being asked: hundreds of objects in 3.12, none in the others."""
    command = [sys.executable, "-c", "import gc; print(gc.get_freeze_count())"]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_filters_are_read_once_and_before_the_fork(tmp_path: Path) -> None:
    out = run_play(tmp_path, "fullmesh_progress,fullmesh_preload")
    told = re.findall(r'"read in (\d+), used in (\d+), frozen (\d+)"', out)
    assert len(told) == 3
    assert len({read for read, _, _ in told}) == 1
    assert not {read for read, _, _ in told} & {used for _, used, _ in told}
    assert all(int(frozen) > from_the_start() for _, _, frozen in told)


def test_a_filter_that_a_role_brings_later_is_found(tmp_path: Path) -> None:
    assert re.search(
        r"late: read in \d+, used in \d+", run_play(tmp_path, "fullmesh_progress,fullmesh_preload")
    )


def test_without_it_every_worker_reads_them(tmp_path: Path) -> None:
    """The purpose of the callback. If Ansible does this itself, the callback is not needed."""
    told = re.findall(
        r'"read in (\d+), used in (\d+), frozen (\d+)"', run_play(tmp_path, "fullmesh_progress")
    )
    assert len(told) == 3
    assert all(read == used and int(frozen) <= from_the_start() for read, used, frozen in told)


def test_a_diff_is_shown_on_request() -> None:
    """A first run on eight nodes printed 18,000 unneeded lines."""
    settings = configparser.ConfigParser()
    settings.read(ROOT / "ansible.cfg")
    assert not settings.getboolean("diff", "always", fallback=False)


def test_the_projects_configuration_enables_it() -> None:
    line = next(
        line
        for line in (ROOT / "ansible.cfg").read_text().splitlines()
        if "callbacks_enabled" in line
    )
    assert "fullmesh_preload" in line
