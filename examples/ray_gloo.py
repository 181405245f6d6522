"""A Gloo group whose ranks are Ray actors, one on each node of a cluster that ``fullmesh-ray start`` made.

    /opt/ray/bin/python ray_gloo.py        # on any of its nodes, with Ray's own Python

Ray starts the actors and transports their return values. torch's data uses the interface and the ports that the cluster
plan assigns to jobs. Each rank checks its data.
"""

from __future__ import annotations

import os
import socket

import ray
import torch
import torch.distributed as dist
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

PORT = int(os.environ.get("MASTER_PORT", "29500"))
SIZE = 1 << 20


@ray.remote(num_cpus=1)
class Rank:
    """One rank."""

    def address(self) -> str:
        """Return the node's address in the cluster's network."""
        return str(ray.util.get_node_ip_address())

    def join(self, rank: int, world: int, master: str) -> str:
        """Join the group, sum a tensor over it, and return the host name."""
        store = dist.TCPStore(master, PORT, world, is_master=rank == 0)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
        data = torch.full((SIZE,), float(rank + 1))
        dist.all_reduce(data)
        wanted = world * (world + 1) / 2
        if not bool((data == wanted).all()):
            raise RuntimeError(f"rank {rank} got {data[0]}, expected {wanted}")
        dist.barrier()
        dist.destroy_process_group()
        return socket.gethostname()


@ray.remote(num_cpus=1)
def fill(size: int) -> torch.Tensor:
    """Make an object that moves between nodes."""
    return torch.arange(size, dtype=torch.float32)


def on(node: str) -> NodeAffinitySchedulingStrategy:
    """Require this node."""
    return NodeAffinitySchedulingStrategy(node_id=node, soft=False)


def main() -> None:
    """Run the example."""
    ray.init(address="auto", log_to_driver=False)
    nodes = [one for one in ray.nodes() if one["Alive"]]
    ranks = [Rank.options(scheduling_strategy=on(one["NodeID"])).remote() for one in nodes]
    master = ray.get(ranks[0].address.remote())
    world = len(ranks)
    hosts = ray.get(
        [one.join.remote(at, world, master) for at, one in enumerate(ranks)], timeout=120
    )
    made = [fill.options(scheduling_strategy=on(one["NodeID"])).remote(SIZE) for one in nodes]
    for one in ray.get(made, timeout=120):
        if float(one[-1]) != SIZE - 1:
            raise RuntimeError("an object came back changed")
    print(f"ray: {world} nodes, sums and objects as expected, {' '.join(sorted(hosts))}")  # noqa: T201 (what it is run for)


if __name__ == "__main__":
    main()
