"""Run a job in containers on both nodes with the firewall on: real podman, real docker, the nodes' torch.

Both are Debian's packages (devtools.lab.neighbours). The image only has links: /usr and torch are mounted from the
node, because no image can be pulled. In a lab's container, podman has no cgroup of its own, and the storage of both
programs copies files (tests/e2e/test_real_neighbours.py).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from plays import read_output, run

from fullmesh.settings import ROOT

from .conftest import COUNT_PACKETS, site

LAB = "e2e-containers"
MAKE_IMAGE_FOLDER = """
set -eu
mkdir -p /root/frame/tmp /root/frame/etc /srv/jobs
for one in bin lib lib64; do ln -sfn usr/$one /root/frame/$one; done
"""
IMPORT_FOR_PODMAN = """
mkdir -p /etc/containers
cat > /etc/containers/storage.conf <<'END'
[storage]
driver = "vfs"
runroot = "/run/containers/storage"
graphroot = "/var/lib/containers/storage"
END
policy=/etc/containers/policy.json
[ -e $policy ] || echo '{"default":[{"type":"insecureAcceptAnything"}]}' > $policy
tar -C /root/frame -c . | podman import - localhost/frame
"""
IMPORT_FOR_DOCKER = """
systemctl start docker
tar -C /root/frame -c . | docker import - localhost/frame
"""
MOUNTS = "-v /usr:/usr:ro -v /opt/fullmesh:/opt/fullmesh:ro -v /srv/jobs:/srv/jobs:ro"
RUN = f"/opt/fullmesh/bin/fullmesh-podman --cgroups=disabled {MOUNTS}"
RUN_DOCKER = f"/opt/fullmesh/bin/fullmesh-docker {MOUNTS}"
TORCHRUN = "/opt/fullmesh/venv/bin/torchrun"


class Lab:
    """Two nodes with podman."""

    def __init__(self) -> None:
        run("./fullmesh", "lab", "down", "--name", LAB)
        assert run("./fullmesh", "lab", "up", "--name", LAB).code == 0
        status: dict[str, Any] = json.loads(
            read_output("./fullmesh", "lab", "status", "--json", "--name", LAB)
        )
        if status["image_source"] != "lookalike":
            pytest.skip("the packages are made for look-alikes")
        self.inventory: str = status["inventory"].rsplit("/", 1)[0]
        self.names = sorted(one["name"] for one in status["nodes"])
        packages = run(sys.executable, "-m", "devtools.lab.neighbours", "--name", LAB, seconds=1800)
        assert packages.code == 0, packages.output
        # an NFS server was installed with podman, and must stay reachable
        options = ("--skip-tags", "verify", "-e", "peer_firewall_existing_services=open")
        done = site(*options, inventory=self.inventory)
        assert done.code == 0, done.output[-3000:]
        for name in self.names:
            self.on(name, MAKE_IMAGE_FOLDER + IMPORT_FOR_PODMAN)
            pack = f"tar -C examples -cf - ddp.py | ./fullmesh lab exec --name {LAB} {name} -- tar -C /srv/jobs -xf -"
            subprocess.run(["/bin/sh", "-c", pack], cwd=ROOT, check=True, timeout=60)

    def on(self, name: str, command: str) -> str:
        """Run a shell command on a node. Return its output."""
        enter = ("./fullmesh", "lab", "exec", "--name", LAB, name, "--", "sh", "-c")
        return read_output(*enter, command, seconds=240)

    def run_on_both(self, command: str) -> str:
        """Run a command on both nodes at the same time. Return both outputs."""
        with ThreadPoolExecutor() as pool:
            return "".join(pool.map(lambda name: self.on(name, command), self.names))


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    yield Lab()
    run("./fullmesh", "lab", "down", "--name", LAB)


def test_containers_form_one_job_on_the_cluster_network_only(lab: Lab) -> None:
    lab.run_on_both(COUNT_PACKETS)
    output = lab.run_on_both(f"{RUN} localhost/frame {TORCHRUN} /srv/jobs/ddp.py 1 2>&1")
    assert "ddp: 2 ranks on cpu, loss " in output
    leftover_packets = lab.run_on_both(
        "nft list counter inet lab_test left; nft delete table inet lab_test"
    )
    assert leftover_packets.count("packets 0 bytes 0") == 2


def test_docker_containers_form_one_job_on_the_cluster_network_only(lab: Lab) -> None:
    """Docker starts after the firewall, and adds a bridge, rules and a zone of firewalld."""
    lab.run_on_both(
        'mkdir -p /etc/docker && echo \'{"storage-driver": "vfs"}\' > /etc/docker/daemon.json'
    )
    command = (sys.executable, "-m", "devtools.lab.neighbours", "--name", LAB, "--kind", "docker")
    packages = run(*command, seconds=1800)
    assert packages.code == 0, packages.output
    lab.run_on_both(IMPORT_FOR_DOCKER)
    assert lab.run_on_both("docker network ls --format '{{.Driver}}'").count("bridge") == 2
    lab.run_on_both(COUNT_PACKETS)
    output = lab.run_on_both(f"{RUN_DOCKER} localhost/frame {TORCHRUN} /srv/jobs/ddp.py 1 2>&1")
    assert "ddp: 2 ranks on cpu, loss " in output
    leftover_packets = lab.run_on_both(
        "nft list counter inet lab_test left; nft delete table inet lab_test"
    )
    assert leftover_packets.count("packets 0 bytes 0") == 2


def test_container_network_is_rejected_with_its_reason(lab: Lab) -> None:
    output = lab.on(lab.names[0], f"{RUN} --network=none localhost/frame true 2>&1 || true")
    assert "[LA-122] network none" in output
