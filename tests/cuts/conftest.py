"""Labs whose nodes are reached over the interface that the cuts change, and watchers that probe them all the time."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import power
import pytest
from lab_nodes import name_lab
from plays import CAPTURED

from devtools.lab.paths import find
from devtools.lab.podman import Podman
from fullmesh.settings import ROOT

LABS = {"ipv4": "cuts", "ipv6": "cuts6"}
PLAY = "tests/cuts/change.yml"
STORE = "/var/lib/fullmesh/rollback"
# An ssh banner takes milliseconds. A machine that takes a second is loaded.
KNOCK_SECONDS = 1.5
BACK_SECONDS = 120
# Everything below /etc except files that the resolver's owner rewrites with the same content.
MANIFEST = (
    "cd /etc && find . -xdev ! -name resolv.conf "
    "-printf '%p %y %m %U:%G %l ' \\( -type f -exec sha256sum {} \\; -o -printf '\\n' \\)"
)
ENGINE = """
import os, subprocess, sys, time
sys.path.insert(0, "/tmp")
import tx

def run(argv):
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout
"""
# OpenSSH 9.8 and newer refuse an address whose connections end without a login (sshd_config(5)), as the watchers' do.
KNOCKS_ARE_FREE = """
file=/etc/ssh/sshd_config.d/lab-watchers.conf
echo 'PerSourcePenalties no' > $file
if sshd -t 2> /dev/null; then systemctl reload ssh; else rm $file; fi
"""
# dhcpcd (Debian 13) adds an address of its own for as long as no server answers.
ZEROCONF = "169.254."
RESULTS: list[tuple[str, str, float]] = []


@dataclass
class Node:
    """One node, with its names in podman and ssh."""

    name: str
    container: str
    address: str
    planned: str
    podman: Podman
    family: str = ""

    def run(self, command: str, seconds: float = 60) -> str:
        """Run a shell command without ssh. Return its standard output."""
        done = self.podman.run("exec", self.container, "sh", "-c", command, timeout=seconds)
        assert done.returncode == 0, f"{self.name}: {command}: {done.stderr or done.stdout}"
        return done.stdout.strip()

    def state(self) -> dict[str, Any]:
        """Return the state that must not change: /etc, addresses, MTU, routes, rules."""
        out = self.run(
            f"{MANIFEST}; echo ---; ip -j addr; echo ---; ip route; echo ---; ip -6 route; echo ---; "
            "nft -s list ruleset 2> /dev/null || true"
        )
        etc, links, routes, routes6, rules = (out + "\n").split("---\n")
        return {
            "etc": sorted(etc.splitlines()),
            "links": [plain(one) for one in json.loads(links)],
            "routes": sorted(line.strip() for line in routes.splitlines() if ZEROCONF not in line),
            "routes6": sorted(
                re.sub(r" expires \S+", "", line).strip()
                for line in routes6.splitlines()
                # learned by the kernel before networkd was up, and lost at its next change
                if not re.search(r"proto kernel .*expires", line)
            ),
            "rules": sorted(rules.splitlines()),
        }

    def engine(self, script: str, seconds: float = 120) -> str:
        """Run Python on the node with the engine as ``tx`` and ``run``, which calls systemd for it."""
        source = (ROOT / "module_utils/fullmesh/transaction/engine.py").read_text()
        self.run(f"cat > /tmp/tx.py <<'END'\n{source}\nEND")
        return self.run(f"python3 - <<'END'\n{ENGINE}\n{script}\nEND", seconds)

    def idle(self) -> bool:
        """Return whether nothing is armed, and no module of a killed controller will arm anything."""
        # the brackets keep pgrep from finding its own shell
        modules = "pgrep -f 'BECOME-SUCCES[S]|pytho[n]3[.0-9]* && sleep 0' | wc -l"
        return self.run(f"{modules}; ls {STORE}/*/armed 2> /dev/null | wc -l").split() == ["0", "0"]

    def lease_seconds(self) -> int:
        """Return the seconds left of the interface's lease, 0 if it has none."""
        (interface,) = json.loads(self.run("ip -j -4 addr show dev eth1"))
        return max(
            (one["valid_life_time"] for one in interface["addr_info"] if one.get("dynamic")),
            default=0,
        )

    def reboot(self) -> None:
        """Power the node off and on."""
        power.reboot_node(self.podman, self.container)

    def log(self) -> str:
        """Return the transaction's log."""
        return self.run(f"cat {STORE}/log 2> /dev/null || true")


def plain(link: dict[str, Any]) -> dict[str, Any]:
    """Return a link without values that change by themselves: lifetimes, indexes."""
    addresses = [
        f"{one.get('local')}/{one.get('prefixlen')} {one.get('scope')} {one.get('dynamic', False)}"
        for one in link.get("addr_info", [])
        if not str(one.get("local")).startswith(ZEROCONF)
    ]
    flags = sorted(link.get("flags", []))
    return {
        "name": link["ifname"],
        "mtu": link["mtu"],
        "flags": flags,
        "mac": link.get("address"),
        "addresses": sorted(addresses),
    }


def knock(node: Node, source: str) -> bool:
    """Connect to the node's first address, and read sshd's banner."""
    family = socket.AF_INET6 if ":" in node.address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.settimeout(KNOCK_SECONDS)
        try:
            probe.bind((source, 0))
            probe.connect((node.address, 22))
            return probe.recv(4) == b"SSH-"
        except OSError:
            return False


class Watcher:
    """Probes a node's ssh all the time from the controller's address, and records when it answered."""

    def __init__(self, node: Node, source: str) -> None:
        self.node, self.source = node, source
        self.seen: list[tuple[float, bool]] = []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def watch(self) -> None:
        while not self.over.wait(0.15):
            begun = time.monotonic()
            self.seen.append((begun, knock(self.node, self.source)))

    def away(self) -> tuple[float, float]:
        """Return when it was first silent, and when it last returned. Both are 0 if it always answered."""
        # A busy machine may have lost the last probe. `compare` has shown by a login that the node
        # answers.
        seen = self.seen if self.seen[-1:] and self.seen[-1][1] else self.seen[:-1]
        silent = [at for at, answered in seen if not answered]
        if not silent:
            return 0.0, 0.0
        back = [at for at, answered in self.seen if answered and at > silent[-1]]
        return silent[0], back[0] if back else float("inf")


@dataclass
class Play:
    """A run of ansible-playbook whose output is read line by line."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    def until(self, pattern: str, seconds: float = 90) -> None:
        """Wait for a line."""
        end, at = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            new = self.lines[at:]
            if any(re.search(pattern, line) for line in new):
                return
            at += len(new)
            assert self.process.poll() is None or self.lines[at:], f"ended without {pattern}"
            time.sleep(0.02)
        raise AssertionError(f"no {pattern} within {seconds} s: {self.lines[-15:]}")

    def kill(self) -> None:
        """Kill the controller and all its workers at the same moment."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)

    def died(self) -> None:
        """Wait until it has killed itself."""
        self.process.wait(120)
        assert self.process.returncode == -signal.SIGKILL, self.lines[-15:]

    def end(self, seconds: float = 150) -> str:
        """Wait for the end. Return the whole output."""
        self.process.wait(seconds)
        time.sleep(0.1)
        return " ".join(" ".join(self.lines).split())


class Lab:
    """Two nodes, one of each family (FULLMESH_LAB_FAMILIES), and methods that cut them off."""

    def __init__(self, inventory: str, controller: str, nodes: list[Node]) -> None:
        self.inventory, self.controller, self.nodes = inventory, controller, nodes
        self.ipv6 = ":" in controller
        parts = nodes[0].address.split(":" if self.ipv6 else ".")
        self.index = str(int(parts[3], 16)) if self.ipv6 else parts[2]
        self.net = ":".join(parts[:4]) + ":" if self.ipv6 else ".".join(parts[:3])
        self.gateway = self.at("1")
        self.bridge = f"fmlab{self.index}c"

    def at(self, host: str) -> str:
        """Return an address of the nodes' network."""
        return f"{self.net}{':' if self.ipv6 else '.'}{host}"

    def link(self, node: Node, **change: Any) -> dict[str, Any]:
        """Return the good link of a node, or a spoiled one."""
        good = {
            "interface": "eth1",
            "mac": "",
            "addresses": [node.planned],
            "gateway": self.gateway,
            "dns": [],
            "search": [],
            "mtu": 0,
            "routes": [],
            "vlan": {},
            "bond": {},
        }
        return good | change

    def start(
        self,
        links: Callable[[Node], dict[str, Any]],
        *,
        die_at: str = "",
        only: Node | None = None,
        **variables: Any,
    ) -> Play:
        """Start a change of all nodes, or of one. With *die_at*, the controller is killed before that task."""
        known = {"cut_links": {node.name: [links(node)] for node in self.nodes}} | variables
        command = ["ansible-playbook", PLAY, "-i", self.inventory, "-e", json.dumps(known)]
        command += ["--limit", only.name] if only else []
        env = dict(os.environ, PYTHONUNBUFFERED="1", ANSIBLE_FORCE_COLOR="0", NO_COLOR="1")
        if die_at:
            folders = f"{ROOT}/callback_plugins:{ROOT}/tests/cuts/callbacks"
            env |= {"FULLMESH_DIE_AT": die_at, "ANSIBLE_CALLBACK_PLUGINS": folders}
        process = subprocess.Popen(command, **CAPTURED, env=env, start_new_session=True)
        play = Play(process)

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                play.lines.append(line.rstrip())

        threading.Thread(target=read, daemon=True).start()
        return play

    def host(self, *command: str) -> str:
        """Run a command on the controller."""
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30)
        return done.stdout

    def port(self, node: Node) -> str:
        """Return this machine's end of a node's cable."""
        index = node.run("cat /sys/class/net/eth1/iflink")
        for one in json.loads(self.host("ip", "-j", "link", "show", "master", self.bridge)):
            if str(one["ifindex"]) == index:
                return str(one["ifname"])
        raise AssertionError(f"no port of {node.name}")

    def dhcp_server(self) -> int:
        """Return the process id of the DHCP server of the nodes."""
        return int(self.host("pgrep", "-f", f"dnsmasq .*--interface={self.bridge}( |$)"))

    def ssh(self, node: Node, *options: str) -> list[str]:
        """Return the ssh options of a new connection to the node's old address."""
        folder = Path(self.inventory).parent
        command = ["ssh", "-F", "none", "-S", "none", "-b", self.controller, "-o", "BatchMode=yes"]
        command += ["-o", f"UserKnownHostsFile={folder}/known_hosts", "-o", "ConnectTimeout=5"]
        return [*command, "-i", f"{folder}/id_ed25519", *options, f"root@{node.address}"]

    def through(self, jump: Node) -> str:
        """Return ssh's option to connect through another node, as ProxyJump does, with our key and known hosts."""
        return f"ProxyCommand={shlex.join(self.ssh(jump, '-W', '[%h]:%p'))}"

    def login(self, node: Node, *options: str) -> str:
        """Log in. Return the node's view of the connection."""
        command = [*self.ssh(node, *options), "echo $SSH_CONNECTION"]
        return subprocess.run(
            command, check=True, timeout=30, capture_output=True, text=True
        ).stdout.strip()


class Cut:
    """One cut: two watchers, the state of both nodes before and after, a row of the table."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.lab, self.name = lab, name

    def __enter__(self) -> Cut:
        self.before = {node.name: node.state() for node in self.lab.nodes}
        for node in self.lab.nodes:
            node.run(f"rm -f {STORE}/log")
        self.watchers = [Watcher(node, self.lab.controller) for node in self.lab.nodes]
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.wait()
        for watcher in self.watchers:
            watcher.over.set()
            watcher.thread.join(5)
        if kind is None:
            self.compare()

    def wait(self) -> None:
        """Wait until nothing is armed and ssh has answered for a while."""
        end = time.monotonic() + BACK_SECONDS
        for watcher in self.watchers:
            while time.monotonic() < end:
                last = watcher.seen[-8:]
                calm = len(last) == 8 and all(answered for _, answered in last)
                if calm and watcher.node.idle():
                    break
                time.sleep(0.2)
            assert time.monotonic() < end, f"LOCKED OUT: {watcher.node.name}: {watcher.node.log()}"

    def compare(self) -> None:
        """Check that the node answers as before, with its old state."""
        for watcher in self.watchers:
            node = watcher.node
            self.lab.login(node)
            settle(node, self.before[node.name])
            silent, back = watcher.away()
            gone = round(back - silent, 1) if back else 0.0
            RESULTS.append((self.name, node.name, gone))
            sys.stdout.write(f"{self.name}, {node.name}: away for {gone} s\n{node.log()}\n")


UNITS = "-u systemd-networkd -u NetworkManager -u networking"
OWNERS = f"journalctl --no-pager -o short-precise -n 60 {UNITS}"


def settle(node: Node, before: dict[str, Any]) -> None:
    """Compare repeatedly. IPv6's own checks and the end of the lease may take a moment."""
    end = time.monotonic() + 60
    while node.state() != before and time.monotonic() < end:
        time.sleep(0.5)
    now = node.state()
    if now != before:  # the log would be lost with the lab
        sys.stdout.write(f"{node.name}:\n{node.log()}\n{node.run(OWNERS)}\n")
    for key, was in before.items():
        assert now[key] == was, f"{node.name}: {key} is not as before"
    units = node.run("ls /etc/systemd/system/fullmesh-rollback.service 2> /dev/null || true")
    assert units == ""


@pytest.fixture(scope="session")
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """Make two nodes with a lease on their only interface, on IPv6 if a test requests that.

    The lab of one family is deleted before that of the other is made.
    """
    family = getattr(request, "param", "ipv4")
    command, name = ["./fullmesh", "lab"], name_lab(LABS[family])
    subprocess.run([*command, "down", "--name", name], cwd=ROOT, check=False, timeout=120)
    options = ["--dhcp", *(["--ipv6"] if family == "ipv6" else [])]
    subprocess.run([*command, "up", "--name", name, *options], cwd=ROOT, check=True, timeout=900)
    out = subprocess.run(
        [*command, "status", "--json", "--name", name],
        cwd=ROOT,
        check=True,
        timeout=120,
        capture_output=True,
        text=True,
    ).stdout
    known = json.loads(out)
    podman = Podman(find())
    podman.prepare()
    nodes = [
        Node(
            one["name"],
            one["container"],
            one["management_address"],
            one["cluster_address"],
            podman,
            one["family"],
        )
        for one in known["nodes"]
    ]
    for node in nodes:
        node.run(KNOCKS_ARE_FREE)
    yield Lab(known["inventory"].rsplit("/", 1)[0], known["controller"], nodes)
    subprocess.run([*command, "down", "--name", name], cwd=ROOT, check=False, timeout=120)


@pytest.fixture
def cut(lab: Lab) -> Callable[[str], Cut]:
    """Make the cut with a name."""
    return lambda name: Cut(lab, f"{name}, IPv6" if lab.ipv6 else name)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the table: cut, node, seconds."""
    write = terminalreporter.write_line
    if not RESULTS:
        return
    write("")
    write(f"{'cut':<52} {'node':<10} {'away, s':>8}")
    for name, node, gone in RESULTS:
        write(f"{name:<52} {node:<10} {gone:>8.1f}")
    lost = len(terminalreporter.stats.get("failed", []))
    count = len({name for name, *_ in RESULTS})
    words = "0 lock-outs" if not lost else f"{lost} FAILED, see above"
    write(f"{count} cuts on {len({row[1] for row in RESULTS})} nodes, {words}")
