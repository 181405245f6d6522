"""PyTorch Lightning over several nodes with FSDP (full shard), on GPUs over NCCL and on CPUs over Gloo.

Run on every node: ``/opt/fullmesh/bin/fullmesh-torchrun lightning_fsdp.py [EPOCHS]``, with lightning in the environment
(in your own lock: role torch_runtime). Ranks and sizes come from the launcher through FullmeshEnvironment. It rejects a
Trainer whose devices and num_nodes do not match (NCCL would report ``Invalid rank requested : 7/4``).

ModelParallelStrategy with fully_shard is FSDP2. Lightning's FSDPStrategy is FSDP1 and rejects CPUs.
"""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any

sys.path.insert(0, "/opt/fullmesh/lib")

import torch
import torch.distributed as dist
from fullmesh_lightning import FullmeshEnvironment
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, TensorDataset

try:
    import lightning.pytorch as pl
    from lightning.pytorch.strategies import ModelParallelStrategy
except ImportError:  # the same class under its older name
    import pytorch_lightning as pl
    from pytorch_lightning.strategies import ModelParallelStrategy


class Adder(pl.LightningModule):
    """Learns to add eight numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)
        )

    def configure_model(self) -> None:
        """Shard every layer separately, so that a rank never holds more than one whole layer."""
        for layer in (self.net[0], self.net[2], self.net):
            fully_shard(layer, mesh=self.device_mesh["data_parallel"])

    def training_step(self, batch: Any, _: int) -> Any:
        """Train on one batch; sync_dist averages the shown loss over all ranks."""
        numbers, wanted = batch
        loss = torch.nn.functional.mse_loss(self.net(numbers), wanted)
        self.log("loss", loss, on_epoch=True, sync_dist=True)
        return loss

    def configure_optimizers(self) -> Any:
        """Use the optimizer of ddp.py."""
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def loader() -> Any:
    """Load the samples. Lightning adds a DistributedSampler by itself."""
    numbers = torch.rand(4096, 8, generator=torch.Generator().manual_seed(1))
    return DataLoader(TensorDataset(numbers, numbers.sum(1, keepdim=True)), batch_size=64)


def main() -> None:
    """Train and print the result."""
    world, local = int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_WORLD_SIZE"])
    pl.seed_everything(2)
    trainer = pl.Trainer(
        accelerator="gpu" if torch.cuda.is_available() else "cpu",
        strategy=ModelParallelStrategy(data_parallel_size=world, tensor_parallel_size=1),
        devices=local,
        num_nodes=world // local,
        plugins=[FullmeshEnvironment()],
        max_epochs=int(sys.argv[1]) if len(sys.argv) > 1 else 5,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    model = Adder()
    trainer.fit(model, loader())
    if trainer.is_global_zero:
        loss = float(trainer.callback_metrics["loss_epoch"])
        whole = sum(weights.numel() for weights in model.parameters())
        here = sum(weights.to_local().numel() for weights in model.parameters())
        sys.stdout.write(
            f"lightning: {world} ranks, FSDP, {here} of {whole} weights here, loss {loss:.5f}\n"
        )


def leave() -> None:
    """Exit as in ddp.py: Gloo's threads, which the model keeps, may abort a rank in Python's own cleanup."""
    dist.destroy_process_group()
    atexit._run_exitfuncs()  # run the exit handlers of loggers and profilers
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
    leave()
