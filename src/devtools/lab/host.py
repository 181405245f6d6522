"""Check and prepare the machine that runs the lab."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from devtools.lab import subnets
from devtools.lab.console import say, step
from devtools.lab.errors import LabError, StepError
from devtools.lab.paths import Paths

# Debian package -> a program that it installs. netavark and conmon are podman's helpers outside PATH.
PACKAGES: Mapping[str, str] = {
    "podman": "podman",
    "crun": "crun",
    "conmon": "conmon",
    "netavark": "/usr/lib/podman/netavark",
    # netavark sets up its firewall driver even for internal networks
    "iptables": "iptables",
    "mmdebstrap": "mmdebstrap",
    "debian-archive-keyring": "/usr/share/keyrings/debian-archive-keyring.gpg",
    "iproute2": "ip",
    "util-linux": "nsenter",
    "openssh-client": "ssh",
    "python3-pip": "pip3",
}
INSTALL_SECONDS = 600.0
SHORT_SECONDS = 30.0
# Measured on an idle node with firewalld and NetworkManager, and rounded up.
INOTIFY_PER_NODE = 10


def capture(
    argv: Sequence[str], timeout: float = SHORT_SECONDS
) -> subprocess.CompletedProcess[str]:
    """Run a short command on the host; never raises on a bad exit code."""
    return subprocess.run(  # argv is built by the lab, no shell
        argv, capture_output=True, text=True, check=False, timeout=timeout
    )


def require_root() -> None:
    """Raise LB-120 if this is not Linux, LB-101 if the user is not root: namespaces and bridges need both."""
    if sys.platform != "linux":
        raise LabError(
            "LB-120",
            f"the lab's nodes are containers of Linux, and this is {sys.platform}",
            "Try it in a virtual machine; apply, verify and diagnose reach your own nodes from here.",
        )
    if os.geteuid() != 0:
        raise LabError(
            "LB-101",
            f"the lab needs root, and this is user id {os.geteuid()}",
            "Run it with sudo, or in a virtual machine of your own.",
        )


def os_release(text: str) -> dict[str, str]:
    """Read /etc/os-release into a dictionary without the quotes."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip().strip("\"'") for key, value in pairs}


def missing(packages: Mapping[str, str] = PACKAGES) -> list[str]:
    """Return the packages whose program, or file where a path is given, is not on this machine."""
    there = {
        name: Path(sign).exists() if sign.startswith("/") else bool(shutil.which(sign))
        for name, sign in packages.items()
    }
    return [name for name, found in there.items() if not found]


def require_debian(needed: Sequence[str], release: Mapping[str, str]) -> None:
    """Raise LB-102 if packages are missing and this system has no apt-get."""
    family = {release.get("ID", ""), *release.get("ID_LIKE", "").split()}
    if not family & {"debian", "ubuntu"}:
        raise LabError(
            "LB-102",
            f"{', '.join(needed)} not found, and {release.get('PRETTY_NAME', 'this system')} "
            "is neither Debian nor Ubuntu",
            "Install the counterparts of `fullmesh lab packages` yourself, or use Debian 12.",
        )


def ensure_packages(paths: Paths, packages: Mapping[str, str] = PACKAGES) -> None:
    """Install those of *packages* that this machine lacks; LB-103 if apt fails."""
    needed = missing(packages)
    if not needed:
        return
    require_debian(needed, os_release(Path("/etc/os-release").read_text()))
    apt = ["apt-get", "-o", "DPkg::Lock::Timeout=300", "-q", "-y"]
    env = ["env", "DEBIAN_FRONTEND=noninteractive"]
    log = paths.logs / "host-packages.log"
    try:
        step("apt-get update", [*env, *apt, "update"], log, INSTALL_SECONDS)
        install = [*env, *apt, "install", "--no-install-recommends", *needed]
        step(f"install on this machine: {' '.join(needed)}", install, log, INSTALL_SECONDS)
    except StepError as error:
        say(str(error))
        raise LabError(
            "LB-103",
            f"apt-get could not install {', '.join(needed)}",
            f"Look at {log}; a release with podman 4.3 or newer is needed (Debian 12, Ubuntu 24.04).",
        ) from error


def inotify_left(wanted: int) -> int:
    """Return how many of *wanted* inotify instances this user can still get.

    The function tries it, because the kernel's own count is not readable.
    """
    inotify_init = ctypes.CDLL(None).inotify_init1
    opened: list[int] = []
    try:
        while len(opened) < wanted:
            descriptor = inotify_init(os.O_CLOEXEC)
            if descriptor < 0:
                break
            opened.append(descriptor)
        return len(opened)
    finally:
        for descriptor in opened:
            os.close(descriptor)


def require_inotify(new_nodes: int) -> None:
    """Raise LB-117 if the new nodes' systemds would start without their file watches.

    The limit is a setting of this machine, so only the user raises it.
    """
    wanted = new_nodes * INOTIFY_PER_NODE
    left = inotify_left(wanted)
    if left < wanted:
        limit = Path("/proc/sys/fs/inotify/max_user_instances").read_text().strip()
        raise LabError(
            "LB-117",
            f"{new_nodes} more node(s) need {wanted} inotify instances, and {left} are left of the "
            f"{limit} that this machine allows (fs.inotify.max_user_instances)",
            "Take labs down that you no longer need (fullmesh lab status), or raise the limit: "
            "sysctl -w fs.inotify.max_user_instances=1024",
        )


def networks_in_use() -> list[tuple[subnets.Network, str]]:
    """Return the networks of this host's routing tables, with their interfaces."""
    found = []
    for version in ("-4", "-6"):
        argv = ["ip", version, "-j", "route", "show", "table", "all"]
        found += subnets.read_routes(capture(argv).stdout)
    return found


def link_names() -> set[str]:
    """Return the names of this host's network interfaces."""
    text = capture(["ip", "-j", "link"]).stdout
    return {str(link["ifname"]) for link in json.loads(text or "[]")}


def route(*words: str) -> None:
    """Run ``ip route WORDS``. If the route to delete is already gone, this is not an error."""
    family = "-6" if ":" in words[-1] else "-4"
    capture(["ip", family, "route", *words])
