"""Install other programs on a lab's nodes: ``python3 -m devtools.lab.neighbours --name LAB [--kind docker]``.

The lab's repositories do not have Podman with netavark, fail2ban, keepalived, bird and an NFS server. This module
builds real packages of them once, in the same way (docs/development/lab.md), and apt and dnf install them. Docker is a
kind of its own, because its daemon starts with its package. The nodes must be look-alikes, because the programs are
Debian's.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from devtools.lab import digest, lifecycle, plan
from devtools.lab.build import STAGE_SECONDS, Builder
from devtools.lab.console import say, step
from devtools.lab.errors import LabError, StepError
from devtools.lab.once import built
from devtools.lab.paths import Paths, find
from devtools.lab.podman import Podman
from devtools.lab.state import Store

PLACE = "/root/neighbours"
# Folders of lab/ that have lists of packages.
KINDS = ("neighbours", "docker")
LOCK_SECONDS = 1800.0
INSTALL_SECONDS = 300.0
INSTALL = {
    "el": f"dnf -q -y install {PLACE}/*.rpm && ldconfig",
    "ubuntu": "apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "
    f"{PLACE}/*.deb",
}


def folder(builder: Builder, kind: str) -> Path:
    """Return the folder of the built packages."""
    root = builder.paths.sources
    inputs = [root / "neighbours/make.sh", root / kind, root / "repo/deb2rpm.py"]
    return (
        builder.paths.cache / f"{kind}-{digest.stage(root, inputs, [builder.digests['builder']])}"
    )


def ensure(builder: Builder, kind: str) -> Path:
    """Build the packages once."""
    podman, paths = builder.podman, builder.paths

    def make(work: Path) -> None:
        argv = podman.argv("run", "--rm", "--network=host", "--privileged")
        argv += ["-v", f"{work}/out:/out", "-v", f"{paths.sources}:/lab:ro", builder.builder()]
        argv += ["bash", "/lab/neighbours/make.sh", kind]
        step("packages of others", argv, paths.logs / f"{kind}.log", STAGE_SECONDS)

    return built(paths, folder(builder, kind), "packages of others", make, LOCK_SECONDS)


def install(podman: Podman, node: plan.Node, packages: Path) -> None:
    """Install the packages on a running node."""
    podman.must("cp", f"{packages}/{node.family}", f"{node.container}:{PLACE}")
    script = f"{INSTALL[node.family]} && rm -r {PLACE}"
    podman.must("exec", node.container, "sh", "-ec", script, timeout=INSTALL_SECONDS)


def main() -> int:
    """Install the packages on all nodes of a running lab."""
    parser = argparse.ArgumentParser(prog="python3 -m devtools.lab.neighbours", description=__doc__)
    parser.add_argument("--name", default="demo", help="lab, default: demo")
    parser.add_argument("--kind", choices=KINDS, default=KINDS[0], help="default: all but docker")
    args = parser.parse_args()
    paths: Paths = find()
    try:
        lab = lifecycle.require(Store(paths, plan.check_name(args.name)))
        podman = lifecycle.open_podman(paths)
        packages = ensure(Builder(paths, podman, lab.image_source), args.kind)
        for node in lab.nodes:
            install(podman, node, packages)
    except (LabError, StepError) as error:
        say(str(error))
        return 2
    say(f"lab {lab.name}: its nodes have the packages of others")
    return 0


if __name__ == "__main__":
    sys.exit(main())
