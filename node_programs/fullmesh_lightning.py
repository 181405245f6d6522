# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Connect PyTorch Lightning to the cluster plan: its ranks and sizes.

A Trainer with other sizes is refused.

``Trainer(plugins=[FullmeshEnvironment()], num_nodes=…, devices=…)``. Lightning computes sizes from num_nodes and
devices, and ranks from the environment. If these differ, NCCL fails with ``Invalid rank requested : 7/4`` or ranks wait
forever.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

try:
    from lightning.fabric.plugins.environments import ClusterEnvironment
except ImportError:
    try:
        from lightning_fabric.plugins.environments import ClusterEnvironment
    except ImportError:
        raise ImportError(
            "[LA-107] PyTorch Lightning is not in this environment. "
            "Fix: put lightning or pytorch-lightning into your lock."
        ) from None

if TYPE_CHECKING:
    from collections.abc import Mapping

NEEDED = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
LAUNCHERS = "fullmesh-torchrun, fullmesh-mpirun, fullmesh-srun or fullmesh-sbatch"


class FullmeshEnvironment(ClusterEnvironment):  # type: ignore[misc]
    """Describes processes that Fullmesh's launchers have started with their ranks."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        """Read the environment. *env* replaces the process environment in tests."""
        super().__init__()
        self._env = os.environ if env is None else env
        missing = [name for name in NEEDED if name not in self._env]
        if missing:
            raise RuntimeError(
                "[LA-112] {} not set: no launcher started this process. Start it with {}.".format(
                    " and ".join(missing), LAUNCHERS
                )
            )

    def _number(self, name: str) -> int:
        return int(self._env[name])

    @staticmethod
    def detect() -> bool:
        """Return whether one of Fullmesh's launchers started this process."""
        return "FULLMESH_ADDRESS" in os.environ and all(name in os.environ for name in NEEDED)

    @property
    def creates_processes_externally(self) -> bool:
        """Return True, because Lightning must not start any processes itself."""
        return True

    @property
    def main_address(self) -> str:
        """Return rank 0's cluster address."""
        return self._env["MASTER_ADDR"]

    @property
    def main_port(self) -> int:
        """Return the store's port."""
        return self._number("MASTER_PORT")

    def world_size(self) -> int:
        """Return the number of processes on all nodes."""
        return self._number("WORLD_SIZE")

    def set_world_size(self, size: int) -> None:
        """Check Lightning's num_nodes times devices: it must equal the job's size."""
        if size != self.world_size():
            raise self._refusal(f"num_nodes times devices is {size}")

    def global_rank(self) -> int:
        """Return this process's rank in the job."""
        return self._number("RANK")

    def set_global_rank(self, rank: int) -> None:
        """Check Lightning's node_rank times devices plus local_rank: it must equal the launcher's rank."""
        if rank != self.global_rank():
            raise self._refusal(f"Lightning makes this process rank {rank}")

    def local_rank(self) -> int:
        """Return this process's rank on its node."""
        return self._number("LOCAL_RANK")

    def node_rank(self) -> int:
        """Return the launcher's rank of this node. torchrun numbers nodes in the order of their arrival."""
        return self.global_rank() // self._number("LOCAL_WORLD_SIZE")

    def validate_settings(self, num_devices: int, num_nodes: int) -> None:
        """Check the Trainer's settings before anything starts."""
        local = self._number("LOCAL_WORLD_SIZE")
        if num_devices != local or num_devices * num_nodes != self.world_size():
            raise self._refusal(f"the Trainer has devices={num_devices}, num_nodes={num_nodes}")

    def _refusal(self, seen: str) -> RuntimeError:
        world, local = self.world_size(), self._number("LOCAL_WORLD_SIZE")
        right = f"Trainer(devices={local}, num_nodes={world // local})"
        if world % local:
            right = "as many ranks on every node (fullmesh_local_ranks), because Lightning supports no other numbers"
        return RuntimeError(
            f"[LA-112] {seen}, but the job has {world} ranks, {local} on this node, and this is "
            f"rank {self.global_rank()}. Write {right}."
        )
