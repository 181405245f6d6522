"""Measure how long the wheels take to reach N nodes: from the controller to each, and from node to node.

    .venv/bin/python benchmarks/handover.py [--nodes 2 4 8] [--rounds 3] [--mib 32] [--mbit 200] [--fan-out 2 1]

This runs the node code of the role torch_runtime, without Ansible and ssh. Every node and the controller is a network
namespace whose cable carries ``--mbit`` in each direction (tbf). So the cable is the limit, and not the CPUs of this
machine, which all nodes share. ``controller``: all nodes download from the controller at once. ``tree K``: the
controller sends the wheels to the first node, then every node to at most K others. The ways are interleaved; medians
count. Needs root. Everything happens in its own network namespace, which is removed at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import ansible.module_utils

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(ROOT / "library"))
ansible.module_utils.__path__.append(str(ROOT / "module_utils"))

import wheel_share  # noqa: E402 (the path is set above)
from ansible.module_utils.fullmesh.wheel_share import SharedFile, fetch_pieces  # noqa: E402 (the path is set above)

from fullmesh.roles import torch_runtime  # noqa: E402 (the path is set above)

CLONE_NEWNET = 0x40000000
SECRET, NAME = "benchmark" * 8, "bundle.tar"
PIECE = 4 << 20
Order = dict[str, Any]


def ip(lines: list[str], program: str = "ip") -> None:
    """Pass many commands to one ip or tc."""
    subprocess.run([program, "-batch", "-"], input="\n".join(lines) + "\n", text=True, check=True)


class Host:
    """A process in its own network namespace, which gets orders over a pipe. Host 0 is the controller."""

    def __init__(self, number: int, folder: Path, manifest: Order) -> None:
        self.number, self.address = number, f"10.99.0.{number + 1}"
        self.folder, self.manifest = folder / f"h{number}", manifest
        self.folder.mkdir()
        self.path = str(self.folder / NAME)
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
        self.reader, self.writer = os.fdopen(self.answers), os.fdopen(self.orders, "w")

    def tell(self, **order: Any) -> None:
        """Send an order; ask() returns its answer."""
        self.writer.write(json.dumps(order) + "\n")
        self.writer.flush()

    def ask(self) -> Any:
        """Return the answer to the last order."""
        return json.loads(self.reader.readline())

    def live(self) -> None:
        """Run in the child: leave the network, then execute orders."""
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
            os._exit(2)
        steps = {"wire": self.wire, "start": self.start, "fetch": self.fetch, "stop": self.stop}
        answers = os.fdopen(self.up, "w")
        for line in os.fdopen(self.down):
            order = json.loads(line)
            if order["do"] == "go":
                os._exit(0)
            answers.write(json.dumps(steps[order["do"]](order)) + "\n")
            answers.flush()
        os._exit(0)

    def wire(self, order: Order) -> int:
        """Set address and speed of this end of the cable. The first call only returns the process id."""
        if order["mbit"]:
            ip(["link set lo up", f"address add {self.address}/24 dev eth0", "link set eth0 up"])
            ip([shape("eth0", order["mbit"])], "tc")
        return os.getpid()

    def start(self, order: Order) -> Order:
        """Offer the wheels of this host, as the role does."""
        known = {
            "path": self.path,
            "manifest": self.manifest,
            "address": self.address,
            "secret": SECRET,
        }
        return wheel_share.start_sharing(known | {"first": 50000, "last": 54095, "seconds": 600})

    def fetch(self, order: Order) -> Order:
        """Download the wheels from the given nodes."""
        return dict(
            fetch_pieces(SharedFile(self.path, self.manifest), order["sources"], SECRET, 600.0)
        )

    def stop(self, order: Order) -> Order:
        """End the helper and delete the downloaded wheels."""
        wheel_share.stop_sharing({"path": self.path})
        if self.number:
            for path in self.folder.iterdir():
                path.unlink()
        return {}

    def end(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError):
            self.tell(do="go")
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        self.writer.close()
        self.reader.close()


def shape(device: str, mbit: int) -> str:
    """Return tc's line that limits the rate of a cable."""
    return f"qdisc add dev {device} root tbf rate {mbit}mbit burst 64kb latency 100ms"


def cable(hosts: list[Host], mbit: int) -> None:
    """Make one bridge, and one cable per host, limited at both ends."""
    lines = ["link add mesh type bridge", "link set mesh up"]
    for host in hosts:
        host.tell(do="wire", mbit=0)
        lines += [
            f"link add v{host.number} type veth peer name eth0 netns {host.ask()}",
            f"link set v{host.number} master mesh up",
        ]
    ip(lines)
    ip([shape(f"v{host.number}", mbit) for host in hosts], "tc")
    for host in hosts:
        host.tell(do="wire", mbit=mbit)
        host.ask()


def draw(host: Host, hosts: list[Host], ports: list[int], asked: list[int]) -> None:
    """Order a host to download from others."""
    names = [
        {"name": f"h{n}", "address": hosts[n].address, "port": ports[n]}
        for n in asked
        if n != host.number
    ]
    host.tell(do="fetch", sources=names)


def once(hosts: list[Host], fan_out: int) -> tuple[float, int]:
    """Return the seconds until the last node is done, and the controller's copies; fan_out 0: all come from it."""
    for host in hosts:
        host.tell(do="start")
    ports = [host.ask()["port"] for host in hosts]
    nodes = hosts[1:]
    begun = time.monotonic()
    if fan_out:
        torch_runtime.FAN_OUT = fan_out
        draw(nodes[0], hosts, ports, [0])
        reports = [nodes[0].ask()]
        for place, host in enumerate(nodes[1:], 1):
            draw(
                host,
                hosts,
                ports,
                [n + 1 for n in torch_runtime.order_bundle_sources(place, len(nodes))],
            )
        reports += [host.ask() for host in nodes[1:]]
    else:
        for host in nodes:
            draw(host, hosts, ports, [0])
        reports = [host.ask() for host in nodes]
    seconds = time.monotonic() - begun
    for host in hosts:
        host.tell(do="stop")
        host.ask()
    time.sleep(1)  # helpers read their control file twice a second
    if not all(report["complete"] and not report["reasons"] for report in reports):
        sys.exit(f"not every node has it: {reports}")
    return seconds, sum("h0" in report["from"] for report in reports)


def measure(args: argparse.Namespace) -> None:
    """Print one line for each number of nodes and way."""
    data = os.urandom(args.mib << 20)
    hashes = [
        hashlib.sha256(data[at : at + PIECE]).hexdigest() for at in range(0, len(data), PIECE)
    ]
    manifest = {"size": len(data), "piece": PIECE, "pieces": hashes}
    print(
        f"{args.mib} MiB, {args.mbit} Mbit/s a cable, one copy takes {args.mib * 8.39 / args.mbit:.2f} s at best"
    )
    print("nodes  way         copies from the controller   median s   (all rounds)")
    for count in args.nodes:
        with tempfile.TemporaryDirectory() as folder:
            hosts = [Host(number, Path(folder), manifest) for number in range(count + 1)]
            Path(hosts[0].path).write_bytes(data)
            try:
                cable(hosts, args.mbit)
                rounds = [
                    {way: once(hosts, way) for way in (0, *args.fan_out)}
                    for _ in range(args.rounds)
                ]
            finally:
                words = [f"link del v{host.number}" for host in hosts] + ["link del mesh"]
                ip(words)
                for host in hosts:
                    host.end()
        for way in (0, *args.fan_out):
            walls = sorted(found[way][0] for found in rounds)
            name = f"tree {way}" if way else "controller"
            shown = " ".join(f"{wall:.2f}" for wall in walls)
            print(
                f"{count:>5}  {name:<10}  {rounds[0][way][1]:>26}  {statistics.median(walls):>9.2f}   ({shown})",
                flush=True,
            )


def main() -> None:
    """Enter a new network namespace first."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mib", type=int, default=32)
    parser.add_argument("--mbit", type=int, default=200)
    parser.add_argument("--fan-out", type=int, nargs="+", default=[torch_runtime.FAN_OUT])
    args = parser.parse_args()
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
        sys.exit("this needs root")
    measure(args)


if __name__ == "__main__":
    main()
