"""PyTorch Lightning over several nodes: FSDP on GPUs; on processors DDP, because Lightning's FSDP wants GPUs.

On every node: ``/opt/fullmesh/bin/fullmesh-torchrun lightning_fsdp.py [EPOCHS]``, with lightning in the environment
(a lock of your own: role torch_runtime). Ranks and sizes come from the launcher through FullmeshEnvironment, which
refuses a Trainer whose devices and num_nodes do not fit (NCCL would say ``Invalid rank requested : 7/4``).
"""

from __future__ import annotations

import os
import sys
from typing import Any

sys.path.insert(0, "/opt/fullmesh/lib")

import lightning
import torch
import torch.distributed as dist
from fullmesh_lightning import FullmeshEnvironment
from lightning.pytorch.strategies import DDPStrategy, FSDPStrategy
from torch.utils.data import DataLoader, TensorDataset


class Adder(lightning.LightningModule):
    """Learns to add eight numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)
        )

    def training_step(self, batch: Any, _: int) -> Any:
        """One batch; sync_dist averages the shown loss over all ranks."""
        numbers, wanted = batch
        loss = torch.nn.functional.mse_loss(self.net(numbers), wanted)
        self.log("loss", loss, on_epoch=True, sync_dist=True)
        return loss

    def configure_optimizers(self) -> Any:
        """As in ddp.py."""
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def loader() -> Any:
    """Lightning puts a DistributedSampler in by itself."""
    numbers = torch.rand(4096, 8, generator=torch.Generator().manual_seed(1))
    return DataLoader(TensorDataset(numbers, numbers.sum(1, keepdim=True)), batch_size=64)


def main() -> None:
    """Train and say how it went."""
    gpu = torch.cuda.is_available()
    lightning.seed_everything(2)
    trainer = lightning.Trainer(
        accelerator="gpu" if gpu else "cpu",
        strategy=FSDPStrategy() if gpu else DDPStrategy(process_group_backend="gloo"),
        devices=int(os.environ["LOCAL_WORLD_SIZE"]),
        num_nodes=int(os.environ["WORLD_SIZE"]) // int(os.environ["LOCAL_WORLD_SIZE"]),
        plugins=[FullmeshEnvironment()],
        max_epochs=int(sys.argv[1]) if len(sys.argv) > 1 else 5,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(Adder(), loader())
    if trainer.is_global_zero:
        loss = float(trainer.callback_metrics["loss_epoch"])
        how = type(trainer.strategy).__name__
        sys.stdout.write(f"lightning: {trainer.world_size} ranks, {how}, loss {loss:.5f}\n")
    if dist.is_initialized():  # left to the interpreter's end, Gloo's threads may abort it
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
