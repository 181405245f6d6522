"""Measure the cost of role wireguard on a lab: all-reduces of Gloo with and without the tunnel, in turn.

Configure a lab of two nodes with ``wireguard_manage: true`` and torch, then run this as root with the lab's name. It
opens the firewall for the network outside of the tunnel, and closes it again.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests/support"))
from lab_nodes import Node, list_lab_nodes

ROUNDS = 5
LARGE, SMALL = 16 << 20, 4 << 10  # bytes
PYTHON = "/opt/fullmesh/venv/bin/python"
RANK = f"""
import json, os, sys, time
import torch, torch.distributed as dist
dist.init_process_group("gloo")
def measure_all_reduce(size, count):
    data = torch.ones(size // 4)
    for _ in range(3):
        dist.all_reduce(data)
        data.fill_(1)
    took = []
    for _ in range(count):
        start = time.monotonic()
        dist.all_reduce(data)
        took.append(time.monotonic() - start)
        data.fill_(1)
    return sorted(took)[count // 2]
small = measure_all_reduce({SMALL}, 300)
before = sum(os.times()[:2])
large = measure_all_reduce({LARGE}, 30)
print(json.dumps({{"small": small, "large": large, "cpu": sum(os.times()[:2]) - before}}))
dist.destroy_process_group()
"""
# CPU seconds of wireguard-go
USED = (
    "p=$(cat /sys/fs/cgroup/system.slice/*wg*fullmesh*/cgroup.procs 2>/dev/null || pgrep -x wireguard-go);"
    "for one in $p; do cut -d' ' -f14,15 /proc/$one/stat; done"
)


def count_tunnel_seconds(nodes: list[Node]) -> float:
    """Return the CPU seconds that wireguard-go has used on all nodes."""
    ticks = [int(word) for node in nodes for word in node.on(USED).split()]
    return sum(ticks) / 100


def run_ranks(nodes: list[Node], addresses: list[str], interface: str) -> dict[str, float]:
    """Run a rank on each node. Return the times of rank 0, and the CPU seconds of all."""
    before = count_tunnel_seconds(nodes)
    ranks = []
    for rank, node in enumerate(nodes):
        values = {
            "MASTER_ADDR": addresses[0],
            "MASTER_PORT": "29500",
            "WORLD_SIZE": str(len(nodes)),
            "RANK": str(rank),
            "GLOO_SOCKET_IFNAME": interface,
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        }
        words = [*node.enter, "env", "-i", *(f"{name}={value}" for name, value in values.items())]
        ranks.append(
            subprocess.Popen([*words, PYTHON, "-c", RANK], stdout=subprocess.PIPE, text=True)
        )
    found = [json.loads(rank.communicate(timeout=300)[0]) for rank in ranks]
    cpu = sum(one["cpu"] for one in found) + count_tunnel_seconds(nodes) - before
    return {"small": found[0]["small"], "large": found[0]["large"], "cpu": cpu}


def main() -> int:
    """Measure both ways in turn and print the medians."""
    nodes = list(list_lab_nodes(sys.argv[1]).values())
    plain = [node.address for node in nodes]
    tunnel = ["10.86.0." + address.rpartition(".")[2] for address in plain]
    network = plain[0].rpartition(".")[0] + ".0/24"
    found: dict[str, list[dict[str, float]]] = {"plain": [], "tunnel": []}
    for node in nodes:
        node.on(f"firewall-cmd -q --zone=trusted --add-source={network}")
    try:
        for _ in range(ROUNDS):
            found["plain"].append(run_ranks(nodes, plain, "eth1"))
            found["tunnel"].append(run_ranks(nodes, tunnel, "fullmesh-wg"))
    finally:
        for node in nodes:
            node.on(f"firewall-cmd -q --zone=trusted --remove-source={network}")
    for name, rows in found.items():
        middle = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
        spread = {
            key: (min(row[key] for row in rows), max(row[key] for row in rows)) for key in rows[0]
        }
        print(
            f"{name}: {LARGE / middle['large'] / 1e6:.0f} MB/s, {middle['small'] * 1e6:.0f} us, "
            f"{middle['cpu']:.2f} CPU s; min and max: {spread}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
