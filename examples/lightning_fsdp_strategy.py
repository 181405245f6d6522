"""Lightning's FSDPStrategy: auto-wrap, activation checkpointing, CPU offload and a timeout, on GPUs and on CPUs.

Run on every node: ``/opt/fullmesh/bin/fullmesh-torchrun lightning_fsdp_strategy.py [EPOCHS] [offload]``, with lightning
in the environment (in your own lock: role torch_runtime). ``offload`` keeps parameters, gradients and the optimizer of
GPUs in the host's memory. On CPUs they are there anyway.

FSDPStrategy is FSDP1, which PyTorch maintains but no longer extends. lightning_fsdp.py has FSDP2.
"""

from __future__ import annotations

import atexit
import os
import sys
from datetime import timedelta
from typing import Any

sys.path.insert(0, "/opt/fullmesh/lib")

import torch
import torch.distributed as dist
from fullmesh_lightning import FullmeshEnvironment
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    apply_activation_checkpointing,
)
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.utils.data import DataLoader, TensorDataset

try:
    import lightning.pytorch as pl
    from lightning.pytorch.strategies import FSDPStrategy
except ImportError:  # the same class under its older name
    import pytorch_lightning as pl
    from pytorch_lightning.strategies import FSDPStrategy

WIDTH = 64


class Block(torch.nn.Module):
    """The unit that is wrapped and recomputed, like a layer of a transformer in real models."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.GELU(), torch.nn.Linear(2 * WIDTH, WIDTH)
        )

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        """Add a layer to its input."""
        out: torch.Tensor = numbers + self.net(numbers)
        return out


class Adder(pl.LightningModule):
    """Learns to add eight numbers."""

    def __init__(self) -> None:
        super().__init__()
        blocks = [Block() for _ in range(3)]
        self.net = torch.nn.Sequential(
            torch.nn.Linear(8, WIDTH), *blocks, torch.nn.Linear(WIDTH, 1)
        )

    def training_step(self, batch: Any, _: int) -> Any:
        """Train on one batch; sync_dist averages the shown loss over all ranks."""
        numbers, wanted = batch
        loss = torch.nn.functional.mse_loss(self.net(numbers), wanted)
        self.log("loss", loss, on_epoch=True, sync_dist=True)
        return loss

    def configure_optimizers(self) -> Any:
        """Use the optimizer of ddp.py. The parameters are already this rank's shards."""
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


class CpuFsdpStrategy(FSDPStrategy):
    """FSDPStrategy without a GPU.

    Lightning 2.6 rejects FSDPStrategy itself there (accelerator_connector.py). It also passes FSDP the number of a
    device. CPUs have no number, so torch 2.13 would search a GPU. With a named device, FSDP1 runs on CPUs over Gloo.
    """

    def _setup_model(self, model: torch.nn.Module) -> torch.nn.Module:
        """Do the same as FSDPStrategy, with a named device."""
        whole = FullyShardedDataParallel(
            model,
            device_id=torch.device("cpu"),
            sharding_strategy=self.sharding_strategy,
            mixed_precision=self.mixed_precision_config,
            **self.kwargs,
        )
        apply_activation_checkpointing(whole, check_fn=lambda part: isinstance(part, Block))
        return whole


def strategy(gpu: bool, offload: bool) -> FSDPStrategy:
    """Wrap every Block, and recompute it in the backward pass."""
    kind = FSDPStrategy if gpu else CpuFsdpStrategy
    return kind(
        auto_wrap_policy={Block},
        activation_checkpointing_policy={Block},
        cpu_offload=gpu and offload,
        sharding_strategy="FULL_SHARD",
        timeout=timedelta(seconds=float(os.environ.get("FULLMESH_TIMEOUT_SECONDS", "120"))),
    )


def loader() -> Any:
    """Load the samples. Lightning adds a DistributedSampler by itself."""
    numbers = torch.rand(4096, 8, generator=torch.Generator().manual_seed(1))
    return DataLoader(TensorDataset(numbers, numbers.sum(1, keepdim=True)), batch_size=64)


def main() -> None:
    """Train and print the result."""
    world, local = int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_WORLD_SIZE"])
    gpu = torch.cuda.is_available()
    epochs = [word for word in sys.argv[1:] if word.isdigit()]
    pl.seed_everything(2)
    model = Adder()
    whole = sum(weights.numel() for weights in model.parameters())
    trainer = pl.Trainer(
        accelerator="gpu" if gpu else "cpu",
        strategy=strategy(gpu, "offload" in sys.argv[1:]),
        devices=local,
        num_nodes=world // local,
        plugins=[FullmeshEnvironment()],
        max_epochs=int(epochs[0]) if epochs else 5,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(model, loader())
    if trainer.is_global_zero:
        loss = float(trainer.callback_metrics["loss_epoch"])
        here = sum(weights.numel() for weights in model.parameters())
        sys.stdout.write(
            f"lightning: {world} ranks, FSDPStrategy, {here} of {whole} weights here, loss {loss:.5f}\n"
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
