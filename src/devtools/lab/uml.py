"""Boot the nodes of a lab as User-mode Linux, for features that this machine's kernel does not have.

A container has the host's kernel, which may have no bonds and VLANs. This module keeps the lab's containers for image,
inventory, key and host keys. It copies each node's root file system and boots the copy with Debian's package
user-mode-linux: a whole Linux 6.1 as an ordinary process, with systemd, at the node's management address. Its cluster
interfaces eth1 and eth2 are connected to those of the other node, as by two cables.

For a lab of two nodes, run `python3 -m devtools.lab.uml up --name LAB` after `fullmesh lab up`, and `down` before
`fullmesh lab down`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from devtools.lab import host
from devtools.lab import plan as lab_plan
from devtools.lab.console import say, step
from devtools.lab.errors import LabError, StepError
from devtools.lab.paths import Paths, find
from devtools.lab.plan import Node
from devtools.lab.podman import Podman
from devtools.lab.state import Lab, Store

PACKAGE = "user-mode-linux"
COMPILER = {"gcc": "gcc", "libc6-dev": "gencat"}
DOWNLOAD_SECONDS = 300.0
COPY_SECONDS = 120.0
# Systemd and sshd start within 10 s on an idle machine. On two cores with a load of 6, 180 s were once too few.
BOOT_SECONDS = 300.0
CONSOLE_LINES = 8
MEMORY = "512M"
NODES = 2
# Loopback ports of the simulated cables: base + 16 x lab index + 4 x cable + end
PORTS = 42000
CABLES = (1, 2)
MODULES = "ipv6 bonding 8021q veth sch_ingress act_mirred cls_matchall"

# Runs first in a booted node. The drivers of the cables report no speed, and 802.3ad ignores interfaces without one.
# So each cable ends in a veth, which has a speed, and tc passes every frame on unchanged (a bridge would drop LACP).
# The cables are in their own network namespace, so the node shows only the interfaces of a real node.
CARDS = """\
#!/bin/sh
set -e
ip link set vec0 down
ip link set vec0 name eth0
ip addr add {address} dev eth0
ip link set eth0 up
modprobe -a {modules}
ip netns add cables
in="ip netns exec cables"
for n in {cables}; do
  ip link set vec$n netns cables
  ip link add eth$n address {mac}$n type veth peer name port$n netns cables
  for one in vec$n port$n; do
    $in sh -c "echo 1 > /proc/sys/net/ipv6/conf/$one/disable_ipv6"
    ip -n cables link set $one promisc on up
    $in tc qdisc add dev $one ingress
  done
  $in tc filter add dev vec$n parent ffff: matchall action mirred egress redirect dev port$n
  $in tc filter add dev port$n parent ffff: matchall action mirred egress redirect dev vec$n
done
"""
UNIT = """\
[Unit]
DefaultDependencies=no
After=systemd-udevd.service
Before=network-pre.target NetworkManager.service systemd-networkd.service
Wants=network-pre.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/lab-cards
"""


def cached_kernel(paths: Paths) -> Path:
    """Return the folder with linux.uml and its modules, which is downloaded once with apt-get."""
    folder = paths.cache / "uml"
    if (folder / "usr/bin/linux.uml").is_file():
        return folder
    work = paths.cache / "uml.work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    script = f"cd {work} && apt-get -q download {PACKAGE} && dpkg-deb -x {PACKAGE}_*.deb . && rm {PACKAGE}_*.deb"
    log = paths.logs / "uml.log"
    step("fetching a kernel that is a program", ["sh", "-ec", script], log, DOWNLOAD_SECONDS)
    work.rename(folder)
    return folder


def preloaded(paths: Paths, kernel: Path, cpuinfo: str) -> dict[str, str]:
    """Return the environment that linux.uml needs on this CPU. With AMX, that is a library built from lab/uml/xstate.c.

    The library is built here, because few machines have a compiler or AMX. All others run the package unchanged.
    """
    if not re.search(r"^flags\b.*\bamx_tile\b", cpuinfo, re.MULTILINE):
        return {}
    library = kernel / "xstate.so"
    if not library.is_file():
        host.ensure_packages(paths, COMPILER)
        work = library.with_suffix(".part")
        argv = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(work)]
        step(
            "building the library that a CPU with AMX needs",
            [*argv, str(paths.sources / "uml/xstate.c")],
            paths.logs / "uml.log",
            COPY_SECONDS,
        )
        work.rename(library)
    return {"LD_PRELOAD": str(library)}


def folder_of(store: Store, node: Node) -> Path:
    """Return the folder of a node's root, log and process id."""
    return store.folder / "uml" / node.name


def tap(lab: Lab, number: int) -> str:
    """Return the host's end of a node's management interface; names are limited to 15 bytes."""
    return f"fmlab{lab.index}u{number}"


def build_cable_argument(lab: Lab, number: int, cable: int) -> str:
    """Return the kernel's argument for one end of a cable: frames in UDP between two processes of this machine."""
    base = PORTS + 16 * lab.index + 4 * cable
    ends = f"srcport={base + number},dstport={base + (number + 1) % NODES}"
    link = f"transport=l2tpv3,udp=1,src=127.0.0.1,dst=127.0.0.1,{ends}"
    return f"vec{cable}:{link},rx_session={cable},tx_session={cable}"


def kernel_argv(kernel: Path, lab: Lab, number: int, root: Path) -> list[str]:
    """Return the whole command of one node."""
    mac = f"02:00:00:{lab.index:02x}:{number:02x}:0a"
    return [
        str(kernel / "usr/bin/linux.uml"),
        f"umid=fm-{lab.index}-{number}",
        f"mem={MEMORY}",
        "root=/dev/root",
        "rootfstype=hostfs",
        f"rootflags={root}",
        "rw",
        "init=/lib/systemd/systemd",
        "systemd.unified_cgroup_hierarchy=1",
        "net.ifnames=0",
        "con0=null,fd:1",
        "con=null",
        "ssl=null",
        f"vec0:transport=tap,ifname={tap(lab, number)},mac={mac},gro=1",
        *(build_cable_argument(lab, number, cable) for cable in CABLES),
    ]


def copy_root(podman: Podman, paths: Paths, node: Node, root: Path) -> None:
    """Copy the container's root file system as it is now."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    export = " ".join(podman.argv("export", node.container))
    script = f"{export} | tar -x -C {root}"
    log = paths.logs / f"uml-{node.container}.log"
    step(f"copying {node.name}", ["bash", "-ec", f"set -o pipefail; {script}"], log, COPY_SECONDS)


def prepare_root(kernel: Path, lab: Lab, number: int, root: Path) -> None:
    """Make a container's root bootable: interfaces, modules, and the rights that a container must not have."""
    node = lab.nodes[number]
    modules = next((kernel / "usr/lib/uml/modules").iterdir())
    shutil.copytree(modules, root / "usr/lib/modules" / modules.name, symlinks=True)
    (root / "etc/fstab").write_text("")
    # These protect the host's kernel from a container. Here the kernel is the node's own.
    (root / "etc/systemd/system.conf.d/10-lab.conf").unlink(missing_ok=True)
    units = root / "etc/systemd/system"
    # With a pattern, because rglob skips dangling links if it gets the whole name.
    for left in units.rglob("lab-procsys.*"):
        left.unlink()
    (root / "etc/modprobe.d/lab.conf").write_text("options bonding max_bonds=0\n")
    script = root / "usr/local/sbin/lab-cards"
    script.write_text(
        CARDS.format(
            address=f"{node.management_address}/24",
            modules=MODULES,
            cables=" ".join(str(cable) for cable in CABLES),
            mac=f"02:00:00:{lab.index:02x}:{number:02x}:1",
        )
    )
    script.chmod(0o755)
    (units / "lab-cards.service").write_text(UNIT)
    wanted = units / "sysinit.target.wants"
    wanted.mkdir(exist_ok=True)
    (wanted / "lab-cards.service").symlink_to("../lab-cards.service")


def must(argv: Sequence[str]) -> str:
    """Run a short command on the host, which must succeed."""
    done = host.capture(argv)
    if done.returncode:
        raise StepError(f"{' '.join(argv)}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def take_over(podman: Podman, lab: Lab, number: int) -> None:
    """Move the node's management interface to the lab's bridge, and disconnect the container's."""
    name = tap(lab, number)
    host.capture(["ip", "link", "delete", name])
    must(["ip", "tuntap", "add", name, "mode", "tap"])
    must(["ip", "link", "set", name, "master", lab.bridges[0], "up"])
    podman.must("exec", lab.nodes[number].container, "ip", "link", "set", "eth0", "down")


def boot(kernel: Path, lab: Lab, number: int, folder: Path, own: Mapping[str, str]) -> None:
    """Start one node in a session of its own, with *own* in its environment; its console goes to console.log."""
    with (folder / "console.log").open("wb") as log:
        process = subprocess.Popen(  # argv is built here, no shell
            kernel_argv(kernel, lab, number, folder / "root"),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=folder,
            env={**os.environ, "HOME": str(folder), "TMPDIR": "/dev/shm", **own},  # noqa: S108 (UML's memory file)
        )
    (folder / "pid").write_text(f"{process.pid}\n")


def answers(store: Store, node: Node) -> bool:
    """Ask systemd in the node over ssh, with the recorded host key, whether it has started."""
    argv = ["ssh", "-i", str(store.key), "-o", f"UserKnownHostsFile={store.folder / 'known_hosts'}"]
    argv += ["-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=3", "-o", "BatchMode=yes"]
    argv += [f"root@{node.management_address}", "systemctl is-system-running --wait; uname -r"]
    try:
        return "\n6." in "\n" + host.capture(argv, timeout=20).stdout
    except subprocess.TimeoutExpired:
        return False


def wait_for(store: Store, node: Node) -> None:
    """Wait until the node answers."""
    begun = time.monotonic()
    while not answers(store, node):
        if time.monotonic() - begun > BOOT_SECONDS:
            console = folder_of(store, node) / "console.log"
            said = console.read_text(errors="replace").splitlines() if console.exists() else []
            last = " | ".join(line.strip() for line in said[-CONSOLE_LINES:])
            raise StepError(
                f"{node.name} did not boot within {BOOT_SECONDS:.0f} s; {console} ends with: {last or 'nothing'}"
            )
        time.sleep(1)
    say(f"{node.name} runs a kernel of its own after {time.monotonic() - begun:.0f} s")


def up(name: str) -> None:
    """Boot both nodes of a lab that is up."""
    paths = find()
    store, podman = Store(paths, name), Podman(paths)
    lab = store.load()
    if lab is None or len(lab.nodes) != NODES:
        raise LabError(
            "LB-107",
            f"there is no lab {name!r} of {NODES} nodes",
            f"Bring it up first: fullmesh lab up --name {name} --nodes {NODES}.",
        )
    kernel = cached_kernel(paths)
    own = preloaded(paths, kernel, Path("/proc/cpuinfo").read_text())
    stop(store, lab)
    for number, node in enumerate(lab.nodes):
        folder = folder_of(store, node)
        copy_root(podman, paths, node, folder / "root")
        prepare_root(kernel, lab, number, folder / "root")
        take_over(podman, lab, number)
        boot(kernel, lab, number, folder, own)
    for node in lab.nodes:
        wait_for(store, node)


def stop(store: Store, lab: Lab) -> None:
    """End the nodes' processes. If a recorded process id now belongs to another program, leave it alone."""
    for number, node in enumerate(lab.nodes):
        file = folder_of(store, node) / "pid"
        pid = int(file.read_text()) if file.is_file() else 0
        line = Path(f"/proc/{pid}/cmdline")
        if pid and line.exists() and f"umid=fm-{lab.index}-{number}".encode() in line.read_bytes():
            os.killpg(pid, signal.SIGKILL)
        file.unlink(missing_ok=True)
        host.capture(["ip", "link", "delete", tap(lab, number)])


def down(name: str) -> None:
    """End the nodes and remove their file systems; the lab's containers stay."""
    store = Store(find(), name)
    lab = store.load()
    if lab is not None:
        stop(store, lab)
    shutil.rmtree(store.folder / "uml", ignore_errors=True)


def main() -> int:
    """Run ``up`` or ``down``."""
    parser = argparse.ArgumentParser(prog="python3 -m devtools.lab.uml", description=__doc__)
    parser.add_argument("verb", choices=["up", "down"])
    parser.add_argument("--name", default=lab_plan.DEFAULT_NAME)
    args = parser.parse_args()
    try:
        host.require_root()
        (up if args.verb == "up" else down)(lab_plan.check_name(args.name))
    except (LabError, StepError) as error:
        sys.stderr.write(f"lab: {error}\n")
        return 2 if isinstance(error, LabError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
