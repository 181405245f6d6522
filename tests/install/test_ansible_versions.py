"""Other releases of ansible-core than the lock's: those that the plan takes work, an older one is refused.

Each is installed into an environment of its own, with the oldest Python of this machine that it and Fullmesh run with.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
import pythons

from fullmesh.model.plan import HIGHEST_ANSIBLE, LOWEST_ANSIBLE

ROOT = Path(__file__).parents[2]
# A release -> the Pythons that it runs with, of those that run Fullmesh (Ansible's support matrix).
PYTHONS = {
    (2, 15): ("3.11",),
    (2, 16): ("3.11", "3.12"),
    (2, 18): ("3.11", "3.12", "3.13"),
    (2, 20): ("3.12", "3.13", "3.14"),
    (2, 21): ("3.12", "3.13", "3.14"),
    (2, 22): ("3.13", "3.14"),
}
# A release that has only candidates so far: the requirement names one, or pip would not take it.
CANDIDATES = {(2, 22): "rc1"}
# what reads modules' answers and reports, and the tests' own
BESIDE = ("jinja2", "jsonschema", "msgspec", "rich", "hypothesis", "pytest")
TOLD_WITHIN = 60


def environment(release: tuple[int, int], place: Path) -> Path:
    """A virtual environment with that release; its folder of programs."""
    python = next(filter(None, map(pythons.find_interpreter, PYTHONS[release])), "")
    if not python:
        pytest.skip(f"no Python {' or '.join(PYTHONS[release])} on this machine")
    subprocess.run(["uv", "venv", "--quiet", "--python", python, place / "env"], check=True)
    wanted = f"ansible-core~={release[0]}.{release[1]}.0{CANDIDATES.get(release, '')}"
    install = ["uv", "pip", "install", "--quiet", "--python", place / "env/bin/python"]
    subprocess.run([*install, wanted, *BESIDE], check=True)
    return place / "env/bin"


def test_the_oldest_and_newest_ansible_versions_are_tested() -> None:
    tried = [list(one) for one in sorted(PYTHONS)]
    assert tried[0] < LOWEST_ANSIBLE
    assert (tried[1], tried[-1]) == (LOWEST_ANSIBLE, HIGHEST_ANSIBLE)


@pytest.mark.rest
def test_an_old_one_is_refused_in_a_sentence(tmp_path: Path) -> None:
    programs = environment((2, 15), tmp_path)
    begun = time.monotonic()
    done = subprocess.run(
        [programs / "ansible-playbook", "site.yml", "-i", "inventory/prod"],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "COLUMNS": "500"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert time.monotonic() - begun < TOLD_WITHIN
    assert done.returncode != 0
    told = " ".join(done.stdout.split())
    assert "[PL-121] ansible-core 2.15" in told
    assert "pip install -r requirements.txt" in told


@pytest.mark.rest
@pytest.mark.parametrize(
    "release", sorted(PYTHONS)[1:], ids=lambda release: ".".join(map(str, release))
)
def test_code_that_uses_private_ansible_names_works(
    release: tuple[int, int], tmp_path: Path
) -> None:
    """Private names, the callback that loads filters before the fork, and the plan of an inventory."""
    programs = environment(release, tmp_path)
    env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    own = [programs / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*own, "tests/unit/test_preload.py", "tests/unit/test_ansible_private.py"],
        cwd=ROOT,
        env=env,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    done = subprocess.run(
        [programs / "ansible-playbook", "playbooks/show_plan.yml", "-i", "inventory/prod"],
        cwd=ROOT,
        env=env,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "world_size" in done.stdout
