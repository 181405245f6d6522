"""Build the execution environment's image without a registry, on the lab's look-alike of CentOS Stream 9.

ansible-builder, its build and the installed packages are real. This machine's own pip downloads the
Python packages, and the build uses these files without an index. The one system package of the
definition is made like the lab's packages. ``as_in_the_lab`` has the differences from the tree's
definition.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from devtools.lab import lifecycle
from devtools.lab.build import Builder
from devtools.lab.paths import find
from devtools.lab.podman import Podman

# An entry like those of lab/repo/el.list: the image has the files, and this adds them to the
# package database.
SSH_PACKAGE = "openssh-clients | 8.7p1-45.el9 | | |"
PACKAGES, WHEELS = "/srv/environment", "/srv/wheels"
BASE = f"""\
ARG BASE
FROM $BASE
RUN printf '[environment]\\nname=environment\\nbaseurl=file://{PACKAGES}\\ngpgcheck=0\\n' \\
      > /etc/yum.repos.d/environment.repo \\
 && printf '[global]\\nno-index = true\\nfind-links = {WHEELS}\\n' > /etc/pip.conf
"""
BUILD_SECONDS = 1500.0


def run_successfully(command: Sequence[str | Path], where: Path, seconds: float = 300.0) -> str:
    """Run a command. Return its output, which an assertion shows if it fails."""
    done = subprocess.run(
        list(command),
        cwd=where,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-6000:]}"
    return done.stdout


def adapt_definition(definition: Path, base: str, python: str) -> dict[str, Any]:
    """Return the definition with the lab's image and its Python instead of the registry's, otherwise unchanged."""
    found: dict[str, Any] = yaml.safe_load(definition.read_text())
    found["images"]["base_image"]["name"] = base
    found["dependencies"]["python_interpreter"] = {
        "package_system": "python3.11",
        "python_path": f"/usr/bin/python{python}",
    }
    # the look-alike's Python is Debian's, whose pip is a package and whose ensurepip refuses to run
    found["options"] = {"skip_pip_install": True}
    return found


def list_requested_packages(containerfile: str, definition: dict[str, Any]) -> list[str]:
    """List the packages that its build requests from pip by name. The lock has its own hashes."""
    found = [
        definition["dependencies"][name]["package_pip"]
        for name in ("ansible_core", "ansible_runner")
    ]
    for words in re.findall(r"-m pip install --no-cache-dir (?![$-])(.+)", containerfile):
        found += [word.strip("'") for word in words.split()]
    return found


@dataclass(frozen=True)
class Image:
    """A built image.

    Attributes:
        name: of the image.
        programs: a folder with the lab's ``podman``.
        podman: the lab's.
    """

    name: str
    programs: Path
    podman: Podman

    def run(self, hosts: Path, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command in it, without any network. *hosts* becomes ``/runner/hosts.yml``."""
        # otherwise crun raises a limit that the root of a restricted host may not raise, as for the
        # lab's nodes
        options = ["--rm", "--privileged", "--network=none", "-v", f"{hosts}:/runner/hosts.yml:ro"]
        return self.podman.run("run", *options, self.name, *words)

    def remove(self) -> None:
        """Delete the image."""
        self.podman.run("rmi", "--force", self.name, f"{self.name}-base")


def write_podman(folder: Path, podman: Podman) -> None:
    """Write a ``podman`` that ansible-builder and ansible-navigator find in PATH."""
    *enter, _ = podman.argv()
    words = ['"--wd=$PWD"' if word.startswith("--wd=") else word for word in enter]
    program = folder / "podman"
    program.write_text(f'#!/bin/sh\nexec {" ".join(words)} {shutil.which("podman")} "$@"\n')
    program.chmod(0o755)


def build_image(context: Path) -> Image:
    """Build it from the folder that ansible-builder made. *context* is next to its definition."""
    top = context.parent
    paths = find()
    podman = lifecycle.open_podman(paths)
    builder = Builder(paths, podman, "lookalike")
    builder.ensure()
    image = Image(f"localhost/fullmesh-environment:{os.getpid()}", top / "programs", podman)
    for name in ("programs", "packages", "wheels"):
        (top / name).mkdir()
    write_podman(image.programs, podman)
    python = podman.must(
        *("run", "--rm", "--privileged", "--network=none", builder.image("el9")),
        *("python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"),
    ).strip()
    definition = adapt_definition(top / "execution-environment.yml", f"{image.name}-base", python)
    (top / "lab.yml").write_text(yaml.safe_dump(definition))

    script = f"echo '{SSH_PACKAGE}' | python3 /lab/repo/deb2rpm.py /out; createrepo_c -q /out"
    podman.must(
        *("run", "--rm", "--privileged", "--network=none", "-v", f"{top}/packages:/out"),
        *("-v", f"{paths.sources}:/lab:ro", builder.builder(), "sh", "-ec", script),
    )
    fetch = [sys.executable, "-m", "pip", "download", "-q", "--only-binary=:all:", "-d", "wheels"]
    fetch += ["--python-version", python]
    run_successfully(
        [*fetch, *list_requested_packages((context / "Containerfile").read_text(), definition)], top
    )
    run_successfully([*fetch, "--require-hashes", "-r", "requirements.txt"], top)

    # the lab's own images are built the same way
    options = "--isolation=chroot --network=host --pull=never --layers=false"
    (top / "Containerfile.base").write_text(BASE)
    base = ["--build-arg", f"BASE={builder.image('el9')}", "-t", f"{image.name}-base"]
    podman.must("build", *options.split(), *base, "-f", f"{top}/Containerfile.base", str(top))
    mounts = {
        top / "wheels": WHEELS,
        top / "packages": PACKAGES,
        builder.folder("repo"): "/srv/repo",
    }
    options += "".join(f" -v {here}:{there}:ro" for here, there in mounts.items())
    command = ["ansible-builder", "build", "-v3", "-f", "lab.yml", "-t", image.name]
    path = f"{image.programs}:{os.environ['PATH']}"
    with suppress(FileNotFoundError):
        shutil.rmtree(context)
    run_successfully(
        ["env", f"PATH={path}", *command, "--extra-build-cli-args", options], top, BUILD_SECONDS
    )
    return image
