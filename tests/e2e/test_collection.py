"""Run ``fullmesh.cluster.site`` on two bare lab nodes from an installed collection, without the checkout.

As on its page: an empty folder with an inventory and the collection's own ansible.cfg. The site, a
second run that changes nothing, a diagnosis, and undo.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from plays import read_output, run

from fullmesh.settings import ROOT

LAB = "e2e-collection"
SECONDS = 1500
RECAP = re.compile(r"^(\S+) +: ok=\d+ +changed=(\d+) +unreachable=0 +failed=0 ", re.MULTILINE)


class Place:
    """The folder of a user without a checkout."""

    def __init__(self, folder: Path, inventory: Path) -> None:
        self.work, self.installed = folder / "work", folder / "installed"
        self.work.mkdir()
        (folder / "home").mkdir()
        # the lab's inventory has absolute paths of keys, and its settings are links into the
        # checkout
        shutil.copytree(inventory, self.work / "inventory")
        env = {k: v for k, v in os.environ.items() if not k.startswith(("ANSIBLE_", "PYTHONPATH"))}
        paths = {"HOME": str(folder / "home"), "ANSIBLE_COLLECTIONS_PATH": str(self.installed)}
        self.env = {**env, **paths}
        read_output("./fullmesh", "collection", "--to", str(folder))
        (archive,) = folder.glob("fullmesh-cluster-*.tar.gz")
        install = ["ansible-galaxy", "collection", "install", "--offline", str(archive), "-p"]
        self.call(*install, str(self.installed))
        collection = self.installed / "ansible_collections/fullmesh/cluster"
        shutil.copy(collection / "ansible.cfg", self.work)

    def call(self, *command: str) -> str:
        """Run a command there. Return its output."""
        done = subprocess.run(
            command,
            cwd=self.work,
            env=self.env,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stdout[-5000:]
        return done.stdout

    def play(self, name: str) -> dict[str, int]:
        """Run a playbook of the collection. Return the number of changes on each node."""
        output = self.call("ansible-playbook", f"fullmesh.cluster.{name}", "-i", "inventory")
        return {
            host: int(changed) for host, changed in RECAP.findall(output) if host != "localhost"
        }

    def verdict(self) -> str:
        """Return the result of the newest result.json below this folder."""
        newest = max(self.work.glob("runs/*/result.json"), key=lambda path: path.stat().st_mtime)
        result: dict[str, Any] = json.loads(newest.read_text())
        return str(result["verdict"])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    run("./fullmesh", "lab", "down", "--name", LAB)
    assert run("./fullmesh", "lab", "up", "--name", LAB).code == 0
    status: dict[str, Any] = json.loads(
        read_output("./fullmesh", "lab", "status", "--json", "--name", LAB)
    )
    inventory = (ROOT / status["inventory"]).parent
    yield Place(tmp_path_factory.mktemp("collection"), inventory)
    run("./fullmesh", "lab", "down", "--name", LAB)


def test_the_site_succeeds_and_is_undone(place: Place) -> None:
    first = place.play("site")
    assert len(first) == 2
    assert all(first.values())
    assert place.verdict() == "ok"
    assert place.play("site") == dict.fromkeys(first, 0)
    assert place.verdict() == "ok"
    place.play("diagnose")
    assert place.verdict() == "ok"
    assert all(place.play("undo").values())
    # results and downloads are in the folder where Ansible was started
    assert {path.name for path in place.work.iterdir()} >= {"runs", "inventory", "ansible.cfg"}
    installed = place.installed / "ansible_collections/fullmesh/cluster"
    assert not (installed / "runs").exists()
