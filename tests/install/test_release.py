"""The commands of the release workflow, run twice: the same files, complete checksums, and the versions of the lock."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml
from checkout import copy_checkout

from fullmesh import __version__

ROOT = Path(__file__).parents[2]
JOBS = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]
COMMANDS = [step["run"] for step in JOBS["build"]["steps"] if "run" in step]
NAMES = [
    f"fullmesh-{__version__}-py3-none-any.whl",
    f"fullmesh-cluster-{__version__}.tar.gz",
    "sbom.cdx.json",
]


def run_build(tree: Path, tag: str, mask: int = 0o022) -> subprocess.CompletedProcess[str]:
    """Run the build job's commands in a copy of the checkout, as the runner's shell does."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"GITHUB_REF_NAME": tag, "FULLMESH_VENV": sys.prefix}
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", "\n".join(f"({one})" for one in COMMANDS)],
        cwd=tree,
        env=env,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        umask=mask,
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Build a release in two copies whose files have other times and modes."""
    if not shutil.which("jq"):
        pytest.skip("the workflow's runner has jq, and this machine has none")
    top = tmp_path_factory.mktemp("release")
    for name, mask in (("one", 0o022), ("two", 0o077)):
        copy_checkout(top / name)
        for path in (top / name).rglob("*.py"):
            os.utime(path, (1e9 + mask, 1e9 + mask))
        done = run_build(top / name, f"v{__version__}", mask)
        assert done.returncode == 0, done.stdout[-4000:]
    return [top / "one/dist", top / "two/dist"]


def test_the_same_commit_makes_the_same_files(built: list[Path]) -> None:
    first, second = ({one.name: one.read_bytes() for one in dist.iterdir()} for dist in built)
    assert sorted(first) == sorted([*NAMES, "SHA256SUMS"])
    assert {name for name in first if first[name] != second[name]} == set()


def test_every_file_has_its_checksum(built: list[Path], tmp_path: Path) -> None:
    """The workflow signs the lines of this file, which have the form of shasum."""
    dist = tmp_path / "dist"
    shutil.copytree(built[0], dist)
    lines = (dist / "SHA256SUMS").read_text().splitlines()
    assert lines == [
        f"{hashlib.sha256((dist / name).read_bytes()).hexdigest()}  {name}" for name in NAMES
    ]
    check = ["sha256sum", "--check", "--quiet", "SHA256SUMS"]
    assert subprocess.run(check, cwd=dist, check=False).returncode == 0
    with (dist / NAMES[0]).open("ab") as wheel:
        wheel.write(b"!")
    done = subprocess.run(check, cwd=dist, check=False, capture_output=True, text=True)
    assert (done.returncode, f"{NAMES[0]}: FAILED" in done.stdout) == (1, True)


def test_the_list_of_packages_has_those_of_the_lock(built: list[Path]) -> None:
    found = json.loads((built[0] / "sbom.cdx.json").read_text())
    assert found["metadata"]["component"]["name"] == "fullmesh"
    assert found["metadata"]["component"]["version"] == __version__
    text = (ROOT / "requirements.txt").read_text()
    locked = set(re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE))
    assert {(one["name"], one["version"]) for one in found["components"]} == locked


def test_the_wheel_has_no_file_of_the_machine_that_built_it(built: list[Path]) -> None:
    with zipfile.ZipFile(built[0] / NAMES[0]) as wheel:
        texts = {name: wheel.read(name) for name in wheel.namelist()}
    assert not [name for name, text in texts.items() if str(built[0].parent).encode() in text]
    assert not [name for name in texts if "__pycache__" in name or name.startswith("devtools")]


@pytest.mark.parametrize("tag", ["v0.0.1", f"v{__version__}rc1"])
def test_a_tag_of_another_version_is_refused(tag: str) -> None:
    done = run_build(ROOT, tag)
    assert done.returncode == 1, done.stdout
    assert not (ROOT / "dist").exists()
