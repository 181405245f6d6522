"""What ladder_gloo collects of two ranks that get to the top, for tests/unit/recorded/ladder (``*-gpus.json.gz``).

    unshare --net python tests/support/record_ranks.py PYTHON_WITH_TORCH tests/unit/recorded/ladder

Both ranks run on this machine, in a network of their own with the addresses of the recorded nodes, started and
collected by the module's own functions. Processors and Gloo stand in the place of GPUs and NCCL, as in
molecule/verify_cluster (``__verify_cluster_gpu``), so all steps have something to say. The lab's nodes, which have no
GPU, are recorded by record_ladder.yml.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from pathlib import Path
from subprocess import run
from typing import Any

import ansible.module_utils
from record_files import write_record

ROOT = Path(__file__).parents[2]
FILES = ROOT / "roles/verify_cluster/files"
ADDRESSES = {"el1": "10.78.2.11", "ubuntu1": "10.78.2.12"}
CARDS = dict(zip(ADDRESSES, ("here", "there"), strict=True))
PORTS = "50000 54095"
DEADLINE = 500


def make_interfaces() -> None:
    """Two interfaces with the nodes' addresses, in the network that ``unshare`` gave to this process alone."""
    if len(Path("/proc/net/dev").read_text().splitlines()) != 3:  # two lines of headings, and lo
        raise SystemExit("start it with unshare --net: it gives addresses to a network of its own")
    run(["ip", "link", "set", "lo", "up"], check=True)
    run(["ip", "link", "add", "here", "type", "veth", "peer", "name", "there"], check=True)
    for name, card in CARDS.items():
        run(["ip", "address", "add", f"{ADDRESSES[name]}/24", "dev", card], check=True)
        run(["ip", "link", "set", card, "up"], check=True)
    Path("/proc/sys/net/ipv4/ip_local_port_range").write_text(PORTS)


def build_arguments(name: str, rank: int, python: str, steps: list[str]) -> dict[str, Any]:
    """Return the arguments of the role's query (roles/verify_cluster/tasks/job.yml)."""
    return {
        "run": name,
        "ranks": [rank],
        "python": python,
        "script": (FILES / "gloo_ladder.py").read_text(),
        "modules": {path.name: path.read_text() for path in FILES.glob("ladder_*.py")},
        "environment": {
            "MASTER_ADDR": ADDRESSES["el1"],
            "MASTER_PORT": 29500,
            "WORLD_SIZE": len(ADDRESSES),
            "LOCAL_WORLD_SIZE": 1,
            "GLOO_SOCKET_IFNAME": CARDS[name],
            "OMP_NUM_THREADS": 1,
            "PYTHONWARNINGS": "ignore",
        },
        "settings": {
            "deadline": DEADLINE,
            "init_timeout": 60,
            "bandwidth_mib": 16,
            "rendezvous_port": 29400,
            "steps": steps,
            "environment_file": "/nonexistent",
            "gpu": {"device": "cpu", "backend": "gloo"},
        },
        "deadline": DEADLINE,
    }


def main(python: str, folder: str) -> None:
    """Run the job and write a file for each node."""
    ansible.module_utils.__path__.append(str(ROOT / "module_utils"))
    sys.path.insert(0, str(ROOT / "src"))
    ranks = importlib.import_module("ansible.module_utils.fullmesh.probe.ranks")
    detach = importlib.import_module("ansible.module_utils.fullmesh.detach")
    steps = list(importlib.import_module("fullmesh.verify.rank_ends").STEPS)
    ranks.pick = lambda: None  # the interpreter may be where only this account may go
    make_interfaces()
    with tempfile.TemporaryDirectory() as base:
        for rank, name in enumerate(ADDRESSES):
            detach.make_run_directory(name, base)
            ranks.start_ranks(build_arguments(name, rank, python, steps), base)
        for name in ADDRESSES:
            found = ranks.collect_ranks(name, base, DEADLINE + 15)
            text = json.dumps(found, indent=1, sort_keys=True) + "\n"
            write_record(Path(folder) / f"{name}-gpus.json", text)
            detach.remove_run_directory(name, base)


if __name__ == "__main__":
    main(*sys.argv[1:])
