"""Podman with its own storage, in a mount namespace if the host's cgroups require one.

crun accepts a pure cgroup2 tree only. On a host with v1 or hybrid cgroups, every podman call therefore enters one
persistent mount namespace in which /sys/fs/cgroup is cgroup2. The containers' storage is mounted there too, so a podman
call outside of it would not find them.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from devtools.lab import host
from devtools.lab.errors import StepError
from devtools.lab.locks import held
from devtools.lab.paths import Paths

CGROUPS = Path("/sys/fs/cgroup")
QUICK_SECONDS = 180.0
UNLIMITED = 1048576

# The clock and the kernel's modules are the host's. In a node, systemd drops these two for all services
# (lab/common/harden.sh). Podman itself ignores --cap-drop with --privileged, and so does its exec.
WITHOUT_HOST_CAPABILITIES = (
    "setpriv",
    "--bounding-set=-sys_time,-sys_module",
    "--inh-caps=-sys_time,-sys_module",
    "--",
)

ENTER_CGROUP2 = """
umount -R /sys/fs/cgroup
mount -t cgroup2 -o rw,nosuid,nodev,noexec cgroup2 /sys/fs/cgroup
"""


def file_system(path: Path) -> str:
    """Return the type of the file system that holds *path*, as stat(1) names it."""
    return host.capture(["stat", "-fc", "%T", str(path)]).stdout.strip()


def hard_limits() -> dict[str, int]:
    """Return this host's hard limits under podman's names, -1 if unlimited (files: a finite number)."""
    files, processes, locked = (
        resource.getrlimit(kind)[1]
        for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_MEMLOCK)
    )
    # podman lowers its own RLIMIT_NPROC to pid_max; more needs CAP_SYS_RESOURCE
    pid_max = int(Path("/proc/sys/kernel/pid_max").read_text())
    endless = resource.RLIM_INFINITY
    return {
        "nofile": UNLIMITED if files == endless else files,
        "nproc": pid_max if processes == endless else min(processes, pid_max),
        "memlock": locked,
    }


def containers_conf(paths: Paths, cgroup_manager: str, limits: Mapping[str, int]) -> str:
    """Return containers.conf for the lab.

    The limits are this host's hard limits. By default podman requests more, and crun then fails with "setrlimit
    RLIMIT_NOFILE: Operation not permitted". tmp_dir is the lab's own: podman detects a reboot by the age of a file in
        it,
    and the user's podman would change the shared one.
    """
    own_folder = paths.run / "tmp"
    ulimits = ", ".join(f'"{name}={value}:{value}"' for name, value in limits.items())
    return f"""\
[containers]
default_ulimits = [{ulimits}]
pids_limit = 0

[engine]
cgroup_manager = "{cgroup_manager}"
events_logger = "file"
runtime = "crun"
tmp_dir = "{own_folder}"

[network]
network_backend = "netavark"
network_config_dir = "{paths.storage}/networks"
"""


def storage_conf(paths: Paths) -> str:
    """Return storage.conf: images and containers, separate from the machine's own."""
    return f"""\
[storage]
driver = "overlay"
graphroot = "{paths.storage}/graph"
runroot = "{paths.run}/storage"
"""


def settle(file: Path, text: str) -> None:
    """Write a file in one step, unless it already has this text.

    The podman of another lab may read it at the same time. If it reads half a file, it falls back to CNI and finds no
    network.
    """
    if file.exists() and file.read_text() == text:
        return
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    fresh.write_text(text)
    fresh.replace(file)


def network_config(
    name: str, bridge: str, subnet: str | None, gateway: str | None, internal: bool
) -> str:
    """Return podman's own file for a bridge network.

    `podman network create` of 4.3 cannot name the bridge, so this file replaces it. Without a subnet, podman assigns no
    addresses, not even to the host (ipam driver none).
    """
    config: dict[str, Any] = {
        "name": name,
        "id": hashlib.sha256(name.encode()).hexdigest(),
        "driver": "bridge",
        "network_interface": bridge,
        "created": "2020-01-01T00:00:00Z",
        "ipv6_enabled": False,
        "internal": internal,
        "dns_enabled": False,
        "ipam_options": {"driver": "host-local" if subnet else "none"},
    }
    if subnet:
        config["subnets"] = [{"subnet": subnet, "gateway": gateway}]
    return json.dumps(config, indent=2) + "\n"


class Podman:
    """All podman calls of one lab home."""

    def __init__(self, paths: Paths) -> None:
        """Change nothing yet; see prepare()."""
        self.paths = paths
        self.direct = file_system(CGROUPS) == "cgroup2fs"
        self.namespace = paths.run / "ns" / "mnt"

    def prepare(self) -> None:
        """Write the configuration and create the mount namespace if it is needed."""
        for folder in (self.paths.storage / "networks", self.paths.run, self.paths.logs):
            folder.mkdir(parents=True, exist_ok=True)
        with held(self.paths.run / "prepare.lock", "the lab's namespace", QUICK_SECONDS):
            self._write_configuration()
            if not self.direct and file_system(self.namespace) != "nsfs":
                self._make_namespace()

    def _write_configuration(self) -> None:
        systemd = self.direct and Path("/run/systemd/system").is_dir()
        text = containers_conf(self.paths, "systemd" if systemd else "cgroupfs", hard_limits())
        settle(self.paths.home / "containers.conf", text)
        settle(self.paths.home / "storage.conf", storage_conf(self.paths))

    def _make_namespace(self) -> None:
        """Create the persistent mount namespace; its file must be on a private mount."""
        folder = self.namespace.parent
        folder.mkdir(parents=True, exist_ok=True)
        if host.capture(["mountpoint", "-q", str(folder)]).returncode:
            self._must(["mount", "--bind", str(folder), str(folder)])
        self._must(["mount", "--make-private", str(folder)])
        self.namespace.touch()
        unshare = ["unshare", f"--mount={self.namespace}", "--propagation", "private"]
        self._must([*unshare, "sh", "-euc", ENTER_CGROUP2])

    @staticmethod
    def _must(argv: Sequence[str]) -> None:
        done = host.capture(argv)
        if done.returncode:
            raise StepError(f"{' '.join(argv)}: exit {done.returncode}: {done.stderr.strip()}")

    def drop_namespace(self) -> None:
        """Remove the mount namespace; the last container must be gone."""
        if not self.direct and self.namespace.exists():
            host.capture(["umount", str(self.namespace)])
            host.capture(["umount", str(self.namespace.parent)])

    def argv(self, *args: str) -> list[str]:
        """Return the whole command for `podman ARGS`."""
        settings = [
            f"CONTAINERS_CONF={self.paths.home}/containers.conf",
            f"CONTAINERS_STORAGE_CONF={self.paths.home}/storage.conf",
        ]
        enter = [] if self.direct else ["nsenter", f"--mount={self.namespace}", "--wd=/", "--"]
        return [*enter, "env", *settings, "podman", *args]

    def run(
        self, *args: str, stdin: str | None = None, timeout: float = QUICK_SECONDS
    ) -> subprocess.CompletedProcess[str]:
        """Run `podman ARGS` and capture its output; the caller checks the exit code."""
        try:
            return subprocess.run(  # argv is built by the lab, no shell
                self.argv(*args),
                input=stdin,
                stdin=None if stdin is not None else subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=timeout,
            )
        except subprocess.TimeoutExpired:
            raise StepError(f"podman {' '.join(args)}: no answer after {timeout:.0f} s") from None

    def must(self, *args: str, stdin: str | None = None, timeout: float = QUICK_SECONDS) -> str:
        """Run `podman ARGS` and return its output; StepError with its output if it fails."""
        done = self.run(*args, stdin=stdin, timeout=timeout)
        if done.returncode:
            words = (done.stderr or done.stdout).strip()[-1500:]
            raise StepError(f"podman {' '.join(args)}: exit {done.returncode}: {words}")
        return done.stdout

    def has_image(self, reference: str) -> bool:
        """Return whether the image is in the lab's storage."""
        return self.run("image", "exists", reference).returncode == 0

    def containers(self) -> dict[str, str]:
        """Return the state (running, exited ...) of every lab container by name."""
        found = json.loads(self.must("ps", "--all", "--format", "json") or "[]")
        return {entry["Names"][0]: str(entry["State"]) for entry in found}

    def passthrough(self, container: str, command: Sequence[str]) -> int:
        """Run *command* in a container with this process's standard streams; return its exit code."""
        flags = "-it" if sys.stdin.isatty() and sys.stdout.isatty() else "-i"
        argv = self.argv("exec", flags, container, *WITHOUT_HOST_CAPABILITIES, *command)
        return subprocess.run(argv, check=False).returncode  # the user's own command

    def write_network(self, text: str) -> None:
        """Record a network for podman; a reader never sees half a file."""
        file = self.paths.storage / "networks" / f"{json.loads(text)['name']}.json"
        fresh = file.with_suffix(".new")
        fresh.write_text(text)
        os.replace(fresh, file)

    def remove_network(self, name: str) -> None:
        """Remove a network's file; podman removes its bridge with the last container."""
        self.run("network", "rm", "-f", name)
        (self.paths.storage / "networks" / f"{name}.json").unlink(missing_ok=True)
