"""Install the collection into an empty folder: Ansible finds everything in it, without the checkout."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# the page's own example
INVENTORY = (ROOT / "docs/collection.md").read_text().partition("```yaml\n")[2].partition("```")[0]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with the installed collection and a ``work`` folder that only has an inventory."""
    top = tmp_path_factory.mktemp("collection")
    (top / "home").mkdir()
    (top / "work").mkdir()
    (top / "work/hosts.yml").write_text(INVENTORY)
    made = subprocess.run(
        [sys.executable, "-m", "fullmesh", "collection", "--to", top],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        check=True,
        capture_output=True,
        text=True,
    )
    assert str(archive_of(top)) in made.stdout
    install(top, "installed")
    return top


def archive_of(place: Path) -> Path:
    """Return the archive."""
    (archive,) = place.glob("fullmesh-cluster-*.tar.gz")
    return archive


def install(place: Path, where: str) -> None:
    """Install the collection into a folder."""
    command = ("ansible-galaxy", "collection", "install", "--offline")
    said = play(place, *command, archive_of(place), "-p", place / where, where=where)
    assert "was installed successfully" in said


def play(place: Path, *command: str | Path, where: str = "installed") -> str:
    """Run an Ansible command in the empty folder, without this checkout's settings and paths."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("ANSIBLE_", "PYTHONPATH"))}
    env |= {"HOME": str(place / "home"), "ANSIBLE_COLLECTIONS_PATH": str(place / where)}
    done = subprocess.run(
        command,
        cwd=place / "work",
        env=env,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert "error occurred" not in done.stdout, done.stdout[-4000:]
    return done.stdout


def test_the_collection_has_the_whole_site(place: Path) -> None:
    """Every role and module of the site is found in the collection by its short name."""
    said = play(
        place, "ansible-playbook", "fullmesh.cluster.site", "-i", "hosts.yml", "--list-tasks"
    )
    for role in ("preflight", "verify_cluster"):
        assert f"fullmesh.cluster.{role} : " in said
    # Ansible does not list content that is included at run time
    installed = place / "installed/ansible_collections/fullmesh/cluster"
    phases = "".join(one.read_text() for one in (installed / "playbooks/phases").glob("*.yml"))
    included = set(re.findall(r"include_role:\n +name: (\w+)\n", phases))
    assert included >= {"static_ip", "peer_firewall", "torch_runtime", "launchers"}
    assert {role for role in included if not (installed / "roles" / role).is_dir()} == set()


def test_the_plan_is_derived_in_it(place: Path) -> None:
    """The filters run, and the core finds the roles' settings next to them."""
    said = play(place, "ansible-playbook", "fullmesh.cluster.show_plan", "-i", "hosts.yml")
    assert '"endpoint": "10.0.0.1:29400"' in said


def test_a_module_brings_its_module_utils(place: Path) -> None:
    said = play(place, "ansible", "localhost", "-c", "local", "-m", "fullmesh.cluster.node_facts")
    assert "localhost | SUCCESS" in said
    assert '"distribution_version"' in said


def test_runs_are_stored_where_ansible_was_started(place: Path) -> None:
    kept = "{{ 'runs' | fullmesh.cluster.kept_path }}"
    said = play(place, "ansible", "localhost", "-m", "debug", "-a", f"msg={kept}")
    assert f'"msg": "{(place / "work").resolve()}/runs"' in said


@pytest.mark.rest
def test_every_module_has_its_page(place: Path) -> None:
    names = sorted(f"fullmesh.cluster.{one.stem}" for one in (ROOT / "library").glob("*.py"))
    said = play(place, "ansible-doc", "-t", "module", *names)
    for name in names:
        assert name in said


@pytest.mark.rest
def test_ansible_verifies_the_collection(place: Path) -> None:
    """Its checksums, its settings, and the syntax of every playbook."""
    # a used collection has Python's __pycache__, which ansible-galaxy regards as modified content
    install(place, "unused")
    check = ("ansible-galaxy", "collection", "verify", "--offline", "fullmesh.cluster")
    assert "modified content" not in play(place, *check, where="unused")
    installed = place / "installed/ansible_collections/fullmesh/cluster"
    names = [f"fullmesh.cluster.{one.stem}" for one in (installed / "playbooks").glob("*.yml")]
    assert len(names) > 10
    (place / "work/ansible.cfg").write_bytes((installed / "ansible.cfg").read_bytes())
    try:
        play(place, "ansible-playbook", *names, "-i", "hosts.yml", "--syntax-check")
    finally:
        (place / "work/ansible.cfg").unlink()


PROBE = """\
import hashlib
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.fullmesh.cluster.plugins.module_utils.fullmesh.transaction import engine

module = AnsibleModule(argument_spec={})
module.exit_json(digest=hashlib.sha256(engine.source()).hexdigest())
"""


@pytest.mark.rest
def test_a_transaction_finds_its_own_text(place: Path) -> None:
    """A node keeps the engine as a program that restores it without Ansible, and its text comes from the archive."""
    (place / "work/library").mkdir()
    (place / "work/library/probe.py").write_text(PROBE)
    said = play(place, "ansible", "localhost", "-M", "library", "-m", "probe")
    engine = ROOT / "module_utils/fullmesh/transaction/engine.py"
    assert hashlib.sha256(engine.read_bytes()).hexdigest() in said
