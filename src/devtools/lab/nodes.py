"""Create, start, provision, check and remove the containers of one lab."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from devtools.lab import host, inventory
from devtools.lab.console import EVERY, say
from devtools.lab.errors import StepError
from devtools.lab.plan import Node
from devtools.lab.podman import Podman, network_config
from devtools.lab.state import Lab, Store, replace
from devtools.lab.subnets import networks

# Seconds. A node boots in 2 to 5 s, but a busy machine takes longer.
BOOT_SECONDS = 300.0
POLL_SECONDS = 0.3
AT_ONCE = 4
# Removed nodes have nothing to save, so systemd is killed at once.
STOP_SECONDS = "0"
READY = ("running", "degraded")
T = TypeVar("T")


def for_each(nodes: Sequence[Node], job: Callable[[Node], T]) -> list[T]:
    """Run *job* for several nodes at once; the first failure is raised after all have ended."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        futures = [pool.submit(job, node) for node in nodes]
    return [future.result() for future in futures]


def ensure_networks(podman: Podman, lab: Lab) -> None:
    """Record both networks for podman. They are internal unless real images need their archives."""
    management, cluster = lab.bridges
    internal = lab.image_source != "registry"
    subnet = f"10.77.{lab.index}.0/24"
    podman.write_network(
        network_config(lab.management_network, management, subnet, lab.controller, internal)
    )
    podman.write_network(network_config(lab.cluster_network, cluster, None, None, True))


def network_arguments(lab: Lab, node: Node) -> list[str]:
    """Return podman's arguments for the node's interfaces: two of them, or the one that gets a lease."""
    if lab.dhcp:
        return [f"--network={lab.cluster_network}:interface_name=eth1,mac={node.mac}"]
    return [
        f"--network={lab.management_network}:ip={node.management_address},interface_name=eth0",
        f"--network={lab.cluster_network}:interface_name=eth1",
    ]


def create_arguments(lab: Lab, node: Node, image: str, volumes: Mapping[Path, str]) -> list[str]:
    """Return podman's arguments for a node. *volumes* maps folders of this machine to their paths on the node.

    The hosts file is the image's own, so roles can replace it as on a real host. Look-alikes also have their own
    resolver file. Nodes of real images need this host's resolvers to reach their archives. With the restart policy
    `always`, `reboot` works in a node as on a machine.
    """
    return [
        "create",
        "--name",
        node.container,
        "--hostname",
        node.hostname,
        "--systemd=always",
        # as on a machine: podman's own has mode 1777, and modules refuse to write as root below such a folder
        "--tmpfs=/run:rw,nosuid,nodev,mode=755",
        "--privileged",
        "--restart=always",
        "--no-hosts",
        *([] if lab.image_source == "registry" else ["--dns=none"]),
        *network_arguments(lab, node),
        *(f"--volume={folder}:{place}" for folder, place in volumes.items()),
        f"--label=fullmesh-lab={lab.name}",
        image,
        "/sbin/init",
    ]


def ensure_running(
    podman: Podman, lab: Lab, images: dict[str, str], volumes: Mapping[Path, str]
) -> list[str]:
    """Create missing nodes and start stopped ones; return the names of both."""
    states = podman.containers()
    touched = [node for node in lab.nodes if states.get(node.container) != "running"]
    host.require_inotify(len(touched))
    for node in touched:
        if node.container not in states:
            image = images[lab.images[node.family]]
            podman.must(*create_arguments(lab, node, image, volumes))
    for_each(touched, lambda node: podman.must("start", node.container))
    if touched:
        fix_macs(lab)
        say(f"started {', '.join(node.name for node in touched)}")
    if not lab.dhcp:
        no_host_address(lab)
    return [node.name for node in touched]


def fix_macs(lab: Lab) -> None:
    """Give this machine a fixed hardware address on each of the lab's bridges.

    Without one, a bridge takes the lowest address of its ports (net/bridge/br_stp_if.c). If a port comes or goes, the
    address changes, and nodes that know the old one do not answer for 40 s.
    """
    for number, bridge in enumerate(lab.bridges, 1):
        mac = f"02:fd:00:{lab.index:02x}:00:{number:02x}"
        done = host.capture(["ip", "link", "set", "dev", bridge, "address", mac])
        if done.returncode and Path("/sys/class/net", bridge).exists():
            raise StepError(f"{bridge}: {done.stderr.strip()}")


def no_host_address(lab: Lab) -> None:
    """Keep the host out of the cluster network, because it is not a peer.

    Without this route, its packets to a cluster address would use the default route, towards another network's
    10.78.N.0/24. A transparent proxy there may even answer.
    """
    switch = Path("/proc/sys/net/ipv6/conf") / lab.bridges[1] / "disable_ipv6"
    if switch.exists():
        switch.write_text("1\n")
    for network in networks(lab.index)[1:]:
        host.route("replace", "unreachable", str(network))


def until(what: str, ready: Callable[[], str | None]) -> str:
    """Call *ready* until it returns None; StepError with its last message after BOOT_SECONDS.

    A node that does not answer in time counts as not ready.
    """
    begun = said = time.monotonic()
    while True:
        try:
            words = ready()
        except (StepError, subprocess.TimeoutExpired) as error:
            words = str(error)
        now = time.monotonic()
        if words is None:
            return f"{now - begun:.1f}"
        if now - begun > BOOT_SECONDS:
            raise StepError(f"{what}: not ready after {BOOT_SECONDS:.0f} s, last: {words}")
        if now - said > EVERY:
            said = now
            say(f"waiting for {what}: {now - begun:.0f} s, {words}")
        time.sleep(POLL_SECONDS)


def wait_for_systemd(podman: Podman, node: Node) -> None:
    """Wait until systemd has started everything, failed units or not."""

    def ready() -> str | None:
        words = podman.run("exec", node.container, "systemctl", "is-system-running").stdout.strip()
        return None if words in READY else words or "no answer from systemd"

    until(f"{node.name}: systemd", ready)


def provision(podman: Podman, node: Node, public_key: str, lease: str = "") -> str:
    """Give the node its hosts file and the lab's key; return its host key, read through podman.

    *lease*: 4 or 6 for an interface with DHCP, else empty.
    """
    script = (Path(__file__).parent / "provision.sh").read_text()
    address = node.cluster_address if node.outsider else ""
    argv = ["exec", "-i", node.container, "sh", "-s", "--"]
    argv += [node.hostname, node.family, public_key, address, lease]
    said = podman.must(*argv, stdin=script).strip().splitlines()
    return said[-1]


def ensure_key(store: Store) -> str:
    """Return the lab's public key, which is created at the first call."""
    store.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not store.key.exists():
        comment = f"fullmesh-lab-{store.name}"
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(store.key)]
        done = host.capture(argv)
        if done.returncode:
            raise StepError(f"ssh-keygen: exit {done.returncode}: {done.stderr.strip()}")
    return store.key.with_name(f"{store.key.name}.pub").read_text().strip()


def wait_for_ssh(store: Store, node: Node) -> None:
    """Wait until a login over ssh works with the lab's key and the recorded host key only."""
    arguments = " ".join(inventory.ssh_options(store.known_hosts)).split()
    argv = ["ssh", "-F", "none", *arguments, "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"]
    argv += ["-i", str(store.key), f"root@{node.management_address}", "true"]

    def ready() -> str | None:
        done = host.capture(argv)
        return None if done.returncode == 0 else done.stderr.strip()[-200:] or "no words"

    until(f"{node.name}: ssh", ready)


def ensure_ready(podman: Podman, store: Store, lab: Lab) -> None:
    """Wait for every node, provision it, record the host keys, log in once over ssh."""
    public_key = ensure_key(store)
    lease = ("6" if lab.ipv6 else "4") if lab.dhcp else ""

    def first(node: Node) -> str:
        wait_for_systemd(podman, node)
        return inventory.known_hosts_line(
            node.management_address, provision(podman, node, public_key, lease)
        )

    replace(store.known_hosts, "\n".join(for_each(lab.nodes, first)) + "\n")
    for_each(lab.nodes, lambda node: wait_for_ssh(store, node))


def remove(podman: Podman, lab: Lab) -> None:
    """Remove the lab's containers and networks.

    sshd is ended first. Its sockets close, so the controller's multiplexed connections end at once. Otherwise they hang
    on an address that the next lab's node may get.
    """
    states = podman.containers()
    present = [node for node in lab.nodes if node.container in states]

    def take_down(node: Node) -> None:
        if states[node.container] == "running":
            podman.run("exec", node.container, "pkill", "-KILL", "sshd")
        podman.must("rm", "--force", "--volumes", "--time", STOP_SECONDS, node.container)

    for_each(present, take_down)
    podman.remove_network(lab.management_network)
    podman.remove_network(lab.cluster_network)
    for network in networks(lab.index)[1:]:
        host.route("del", "unreachable", str(network))
