"""Measure how long the whole mesh takes: N hosts in network namespaces, every host to every listener of every other.

    .venv/bin/python benchmarks/probe_mesh.py [--hosts 8 16 32 64] [--rounds 3] [--broken 0] [--ways all sweep]

This runs the node code of ``./fullmesh diagnose`` (listeners, handshake, probe), without Ansible and ssh. On real
nodes, each node has its own CPUs. Here all share the CPUs of this machine, which is the worst case. Needs root.
Everything happens in its own network namespace, which is not visible outside and is removed at the end.

``all`` connects to every listener of every peer. ``sweep`` connects to one listener of each peer in the rounds of a
schedule, as Fullmesh does with many nodes. Both are interleaved. The output has for both the seconds, the CPU time and
the bytes of a node's answer.

``--broken K`` gives K hosts a neighbor entry with a wrong hardware address: packets to one peer are lost. Exactly both
directions of that pair must be reported.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ansible.module_utils

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))
ansible.module_utils.__path__.append(str(ROOT / "module_utils"))

from ansible.module_utils.fullmesh.detach import make_run_directory  # noqa: E402 (the path is set above)
from ansible.module_utils.fullmesh.probe.bound import choose_spread_ports  # noqa: E402
from ansible.module_utils.fullmesh.probe.listeners import start_listeners, stop_listeners  # noqa: E402
from ansible.module_utils.fullmesh.probe.pairs import probe_links  # noqa: E402
from ansible.module_utils.fullmesh.probe.sweep import condense_sweep, sweep_peers  # noqa: E402

from fullmesh.diagnose import inventory  # noqa: E402
from fullmesh.verify import probe_wants, schedule  # noqa: E402

CLONE_NEWNET = 0x40000000
INSIDE = "FULLMESH_BENCH_INSIDE"
RUN, TOKEN = "bench", secrets.token_hex(16)
SAMPLES, PAYLOAD, SECONDS, WINDOW = (
    3,
    65536,
    3.0,
    8192,
)  # the options of playbooks/diagnosis/tasks/diagnose.yml
FIRST, LAST = 50000, 54095
AT_ONCE, BUDGET = (
    16,
    60.0,
)  # the options of roles/verify_cluster/tasks/mesh.yml for library/ladder_links.py
NOWHERE = "02:ff:ff:ff:ff:ff"


def address(host: int) -> str:
    """Return the address of a host; counted from 0."""
    return f"10.99.{host // 250}.{host % 250 + 1}"


def mac(host: int) -> str:
    """Return the hardware address of a host."""
    return f"02:00:00:00:{host // 256:02x}:{host % 256:02x}"


def ip(lines: list[str]) -> None:
    """Pass many commands to one ip."""
    subprocess.run(["ip", "-batch", "-"], input="\n".join(lines) + "\n", text=True, check=True)


def plan(count: int) -> dict[str, Any]:
    """Return the part of a cluster plan that the targets need."""
    nodes = {
        f"h{host}": {
            "name": f"h{host}",
            "address": address(host),
            "local_ranks": 1,
            "interface": "eth0",
        }
        for host in range(count)
    }
    return {
        "nodes": nodes,
        "master": {"node": "h0", "address": address(0), "port": 29500},
        "rendezvous": {"port": 29400},
        "data_ports": {"first": FIRST, "last": LAST},
    }


class Host:
    """A process in its own network namespace, which gets orders over a pipe."""

    def __init__(self, number: int, count: int, base: str) -> None:
        self.number, self.count, self.base = number, count, base
        self.down, self.orders = os.pipe()
        self.answers, self.up = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            try:
                self.live()
            finally:
                os._exit(1)
        os.close(self.down)
        os.close(self.up)
        self.reader = os.fdopen(self.answers)
        self.writer = os.fdopen(self.orders, "w")

    def tell(self, order: dict[str, Any]) -> None:
        """Send an order; ask() returns its answer."""
        self.writer.write(json.dumps(order) + "\n")
        self.writer.flush()

    def ask(self) -> Any:
        """Return the answer to the last order."""
        return json.loads(self.reader.readline())

    def live(self) -> None:
        """Run in the child: leave the network, then execute orders."""
        os.close(self.orders)
        os.close(self.answers)
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
            os._exit(2)
        answers = os.fdopen(self.up, "w")
        steps: dict[str, Callable[[dict[str, Any]], Any]] = {
            "here": lambda order: os.getpid(),
            "wire": self.wire,
            "listen": self.listen,
            "probe": self.probe,
            "stop": lambda order: stop_listeners(RUN, self.base),
        }
        for line in os.fdopen(self.down):
            order = json.loads(line)
            if order["do"] == "go":
                os._exit(0)
            answers.write(json.dumps(steps[order["do"]](order)) + "\n")
            answers.flush()
        os._exit(0)

    def wire(self, order: dict[str, Any]) -> bool:
        """Set the address and permanent neighbors: the kernel has one table for all, with 1024 entries."""
        Path("/proc/sys/net/ipv6/conf/all/disable_ipv6").write_text("1")
        Path("/proc/sys/net/ipv4/ip_local_port_range").write_text(f"{FIRST} {LAST}")
        ip(
            [
                "link set lo up",
                f"address add {address(self.number)}/16 dev eth0",
                "link set eth0 up",
                *(
                    f"neigh replace {address(peer)} lladdr "
                    f"{NOWHERE if peer == order['nowhere'] else mac(peer)} dev eth0 nud permanent"
                    for peer in range(self.count)
                    if peer != self.number
                ),
            ]
        )
        return True

    def listen(self, order: dict[str, Any]) -> list[dict[str, Any]]:
        """Open the listeners as ladder_node does."""
        made = plan(self.count)
        want = inventory.build_node_request(made, f"h{self.number}", {})
        make_run_directory(RUN, self.base)
        opened = start_listeners(
            {
                "run": RUN,
                "base": self.base,
                "token": TOKEN,
                "node": f"h{self.number}",
                "address": address(self.number),
                "interface": "eth0",
                "samples": SAMPLES,
                "named": want["named"],
                "outside": False,
                "allowed": [],
                "lifetime": 120,
                "leased": False,
                "spread": choose_spread_ports(FIRST, LAST, want["spread"], []),
                "peers": [address(peer) for peer in range(self.count)],
                "rails": [],
            }
        )
        found: list[dict[str, Any]] = opened["ports"]
        return found

    def probe(self, order: dict[str, Any]) -> dict[str, Any]:
        """Connect to every listener of every peer as ladder_links does."""
        name = f"h{self.number}"
        made, opened = plan(self.count), order["opened"]
        me = {"node": name, "address": address(self.number), "token": TOKEN, "payload": PAYLOAD}
        if order["way"] == "sweep":
            scope: schedule.ProbeScope = {"sweep": True, "new": [], "few": False, "run": RUN}
            rows = schedule.build_sweep(made, opened, name, scope)
            links, tried = sweep_peers(rows, me, SECONDS, AT_ONCE, BUDGET)
            told, said = condense_sweep(rows, tried, links, "h0")
            answer: Any = {"links": told, "swept": said}
        else:
            links = probe_links(
                probe_wants.list_probe_targets(made, opened, name), me, SECONDS, WINDOW
            )
            answer = {"links": links}
        return {
            "connections": len(links),
            "bytes": len(json.dumps(answer)),
            "verdicts": Counter(link["verdict"] for link in links),
            "bad": sorted({link["node"] for link in links if link["verdict"] != "open"}),
            "why": [link for link in links if link["verdict"] != "open"][:1],
        }

    def end(self) -> None:
        """End the process. It waits for an order, because the other hosts hold ends of its pipe as well."""
        with contextlib.suppress(OSError):
            self.tell({"do": "go"})
        self.writer.close()
        self.reader.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def all_at_once(hosts: list[Host], order: dict[str, Any]) -> tuple[list[Any], float]:
    """Return the answers of all hosts, and the seconds until the last one."""
    begun = time.monotonic()
    for host in hosts:
        host.tell(order)
    answers = [host.ask() for host in hosts]
    return answers, time.monotonic() - begun


def measure_cpu_seconds() -> float:
    """Return the CPU seconds of all processes of this program, with the listeners, which are no longer its children."""
    mine = Path("/proc/self/cmdline").read_bytes()
    ticks = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (folder / "cmdline").read_bytes() == mine:
                words = (folder / "stat").read_text().rpartition(")")[2].split()
                ticks += int(words[11]) + int(words[12])
    return ticks / float(os.sysconf("SC_CLK_TCK"))


def cable(hosts: list[Host], broken: int) -> None:
    """Make one bridge, and one cable per host. The first ``broken`` hosts get a wrong entry for their neighbor."""
    lines = ["link add mesh type bridge", "link set mesh up"]
    for host in hosts:
        host.tell({"do": "here"})
        pid = host.ask()
        lines += [
            f"link add v{host.number} type veth peer name eth0 address {mac(host.number)} netns {pid}",
            f"link set v{host.number} master mesh up",
        ]
    ip(lines)
    for host in hosts:
        host.tell(
            {
                "do": "wire",
                "nowhere": host.number + 1
                if host.number < 2 * broken and not host.number % 2
                else -1,
            }
        )
    for host in hosts:
        host.ask()


def uncable(hosts: list[Host]) -> None:
    """Remove all cables now: the kernel clears a namespace some time after its last process has ended."""
    lines = [f"link del v{host.number}" for host in hosts] + ["link del mesh"]
    words = ["ip", "-force", "-batch", "-"]
    subprocess.run(words, input="\n".join(lines) + "\n", text=True, check=False)


def once(count: int, broken: int, way: str) -> dict[str, Any]:
    """Build, probe and remove a mesh; only the probe is timed."""
    with tempfile.TemporaryDirectory() as base:
        hosts = [Host(number, count, f"{base}/h{number}") for number in range(count)]
        try:
            cable(hosts, broken)
            before = measure_cpu_seconds()
            opened, listen = all_at_once(hosts, {"do": "listen"})
            names = {f"h{number}": ports for number, ports in enumerate(opened)}
            said, connect = all_at_once(hosts, {"do": "probe", "opened": names, "way": way})
            spent = measure_cpu_seconds() - before
            seen, stop = all_at_once(hosts, {"do": "stop"})
        finally:
            uncable(hosts)
            for host in hosts:
                host.end()
    verdicts: Counter[str] = Counter()
    for one in said:
        verdicts.update(one["verdicts"])
    bad = {(f"h{number}", peer) for number, one in enumerate(said) for peer in one["bad"]}
    wrong = {
        pair
        for k in range(broken)
        for pair in ((f"h{2 * k}", f"h{2 * k + 1}"), (f"h{2 * k + 1}", f"h{2 * k}"))
    }
    if bad != wrong:
        why: dict[str, Any] = next((one["why"][0] for one in said if one["why"]), {})
        sys.exit(
            f"{count} hosts: {len(bad)} pairs are not open, {len(wrong)} are meant to be: {dict(verdicts)},"
            f" such as {why} (connect: {connect:.1f} s)"
        )
    proved = sum(sum(one["proved"].values()) for one in seen)
    if proved != verdicts["open"]:
        sys.exit(
            f"{count} hosts: {verdicts['open']} connections open, {proved} proved at their listeners"
        )
    return {
        "connections": sum(one["connections"] for one in said),
        "bytes": max(one["bytes"] for one in said),
        "wall": listen + connect + stop,
        "parts": (listen, connect, stop),
        "cpu": spent,
    }


def measure(counts: list[int], rounds: int, broken: int, ways: list[str]) -> None:
    """Print one line for each size."""
    cpus = len(os.sched_getaffinity(0))
    print(
        f"{cpus} CPUs, load average {os.getloadavg()[0]:.1f}, {rounds} rounds, {broken} broken pairs"
    )
    print(
        "way    hosts  links  connections   median s   (all rounds)            "
        "listen/connect/stop    CPU seconds   CPU ms a link   answer bytes"
    )
    for count in counts:
        held: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
        for _ in range(rounds):
            for way in ways:
                held[way].append(once(count, broken, way))
        for way in ways:
            show(way, count, held[way])


def show(way: str, count: int, found: list[dict[str, Any]]) -> None:
    """Print one line."""
    walls = sorted(one["wall"] for one in found)
    middle = min(found, key=lambda one: abs(one["wall"] - statistics.median(walls)))
    links = count * (count - 1)
    shown = " ".join(f"{wall:.2f}" for wall in walls)
    parts = "/".join(f"{part:.2f}" for part in middle["parts"])
    print(
        f"{way:<5} {count:>5}  {links:>5}  {middle['connections']:>11}  {middle['wall']:>9.2f}   ({shown:<20}) "
        f"{parts:>22} {middle['cpu']:>14.2f} {middle['cpu'] / links * 1000:>15.2f} {middle['bytes']:>14}",
        flush=True,
    )


def main() -> None:
    """Enter a new network namespace first."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, nargs="+", default=[8, 16, 32, 64])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--broken", type=int, default=0)
    parser.add_argument("--ways", nargs="+", choices=["all", "sweep"], default=["all", "sweep"])
    args = parser.parse_args()
    if os.geteuid():
        sys.exit("probe_mesh: needs root, for the network namespaces")
    if INSIDE not in os.environ:
        os.environ[INSIDE] = "1"
        os.execvp("unshare", ["unshare", "--net", "--", sys.executable, *sys.argv])  # noqa: S606 (no shell is meant)
    measure(args.hosts, args.rounds, args.broken, args.ways)


if __name__ == "__main__":
    main()
