"""Build the execution environment with ansible-builder, and run its image with ansible-navigator.

The base of the definition comes from a registry. The test builds the image on the lab's look-alike
of that base (environment_image.py).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import environment_image
import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEFINITION = ROOT / "execution-environment.yml"
NAVIGATOR = ["uv", "export", "--quiet", "--frozen", "--only-group", "navigator"]
QUEUES = Path("/dev/mqueue")
HOSTS = """\
torch_nodes:
  hosts:
    el1: {ansible_host: 203.0.113.1, fullmesh_address: 10.0.0.1/24}
    el2: {ansible_host: 203.0.113.2, fullmesh_address: 10.0.0.SECOND/24}
"""


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run ansible-builder. Return the folder in which it builds an image."""
    top = tmp_path_factory.mktemp("environment")
    for name in (DEFINITION.name, "requirements.txt"):
        shutil.copy(ROOT / name, top)
    subprocess.run(
        [sys.executable, "-m", "fullmesh", "collection", "--to", top],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        check=True,
        capture_output=True,
    )
    done = subprocess.run(
        ["ansible-builder", "create", "-v3"],
        cwd=top,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return top / "context"


def test_the_lock_and_the_collection_are_in_it(context: Path) -> None:
    built = context / "_build/fullmesh"
    assert (built / "requirements.txt").read_bytes() == (ROOT / "requirements.txt").read_bytes()
    assert len(list(built.glob("fullmesh-cluster-*.tar.gz"))) == 1


def test_the_image_installs_them_with_hashes_and_without_galaxy(context: Path) -> None:
    text = (context / "Containerfile").read_text()
    (install,) = [line for line in text.splitlines() if "fullmesh/requirements.txt" in line]
    assert "--require-hashes" in install
    (collection,) = [line for line in text.splitlines() if "collection install" in line]
    assert "--offline" in collection


def test_its_ansible_is_the_locks() -> None:
    """It installs one version of ansible-core, not one over another."""
    wanted = yaml.safe_load(DEFINITION.read_text())["dependencies"]["ansible_core"]["package_pip"]
    locked = re.search(r"^ansible-core==\S+", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    assert locked
    assert wanted == locked[0]


@pytest.fixture(scope="module")
def image(context: Path) -> Iterator[environment_image.Image]:
    """Build the image once, and delete it at the end."""
    if os.geteuid() != 0:
        pytest.skip("the lab's images and its podman are root's")
    made = environment_image.build_image(context)
    yield made
    made.remove()


@pytest.fixture
def hosts(tmp_path: Path) -> Path:
    """Write an inventory of two nodes that are never contacted."""
    path = tmp_path / "hosts.yml"
    path.write_text(HOSTS.replace("SECOND", "2"))
    return path


@pytest.fixture(scope="module")
def navigator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Install ansible-navigator in its own environment."""
    env = tmp_path_factory.mktemp("navigator") / "env"
    lock = env.with_name("requirements.txt")
    subprocess.run([*NAVIGATOR, "--output-file", lock], cwd=ROOT, check=True)
    install = ["uv", "pip", "install", "--quiet", "--require-hashes", "-r", lock]
    subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, env], check=True)
    subprocess.run([*install, "--python", env / "bin/python"], check=True)
    # it passes this folder to podman, and a machine without POSIX message queues lacks it
    missing_queues = not QUEUES.exists()
    if missing_queues:
        QUEUES.mkdir()
    yield env / "bin/ansible-navigator"
    if missing_queues:
        QUEUES.rmdir()


def navigated(
    navigator: Path, image: environment_image.Image, hosts: Path, playbook: str
) -> subprocess.CompletedProcess[str]:
    """Run the command of docs/collection.md, with the lab's options for the container."""
    command = [navigator, "run", playbook, "-i", hosts.name, "--eei", image.name, "--pp", "never"]
    command += ["-m", "stdout", "--ce", "podman", "--container-options=--privileged"]
    command += ["--container-options=--network=none"]
    env = {"PATH": f"{image.programs}:{navigator.parent}:{os.environ['PATH']}"}
    env |= {"HOME": str(hosts.parent), "LANG": "C.UTF-8", "NO_COLOR": "1"}
    return subprocess.run(
        command,
        cwd=hosts.parent,
        env=env,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )


@pytest.mark.rest
def test_the_image_has_the_locks_ansible_and_the_collection(
    image: environment_image.Image, hosts: Path
) -> None:
    locked = re.search(
        r"^ansible-core==(\S+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE
    )
    assert locked
    assert f"[core {locked[1]}]" in image.run(hosts, "ansible", "--version").stdout
    output = image.run(hosts, "ansible-galaxy", "collection", "list", "fullmesh.cluster").stdout
    assert re.search(r"^fullmesh\.cluster +\d", output, re.MULTILINE), output
    output = image.run(hosts, "ansible-doc", "-t", "module", "fullmesh.cluster.node_facts").stdout
    assert "node_facts" in output
    # bindep found that the system package was missing, and dnf installed it
    assert "openssh-clients" in image.run(hosts, "rpm", "-q", "openssh-clients").stdout


@pytest.mark.rest
def test_the_image_reads_the_site_and_derives_a_plan(
    image: environment_image.Image, hosts: Path
) -> None:
    inventory = ["-i", "/runner/hosts.yml"]
    done = image.run(
        hosts, "ansible-playbook", "fullmesh.cluster.site", *inventory, "--syntax-check"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "playbooks/site.yml" in done.stdout
    done = image.run(hosts, "ansible-playbook", "fullmesh.cluster.show_plan", *inventory)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"endpoint": "10.0.0.1:29400"' in done.stdout


@pytest.mark.rest
def test_navigator_runs_the_image(
    navigator: Path, image: environment_image.Image, hosts: Path
) -> None:
    done = navigated(navigator, image, hosts, "fullmesh.cluster.show_plan")
    assert done.returncode == 0, done.stdout
    assert '"endpoint": "10.0.0.1:29400"' in done.stdout


@pytest.mark.rest
def test_a_refusal_passes_through_navigator(
    navigator: Path, image: environment_image.Image, hosts: Path
) -> None:
    hosts.write_text(HOSTS.replace("SECOND", "1"))
    done = navigated(navigator, image, hosts, "fullmesh.cluster.site")
    assert done.returncode != 0
    assert re.search(r"\[PL-\d{3}\].*10\.0\.0\.1", done.stdout), done.stdout
