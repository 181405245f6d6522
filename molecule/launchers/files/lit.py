"""A Lightning job that reports its ranks and samples: ``lit.py OUT DEVICES NODES``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.append("/opt/fullmesh/lib")

import pytorch_lightning as pl
import torch
from fullmesh_lightning import FullmeshEnvironment
from pytorch_lightning.strategies import DDPStrategy
from torch.utils.data import DataLoader, TensorDataset

SAMPLES = 16


class Model(pl.LightningModule):
    """One weight, and a list of every sample that this rank got."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Linear(1, 1)
        self.seen: list[float] = []

    def training_step(self, batch: list[torch.Tensor], _index: int) -> torch.Tensor:
        """Record the samples, return a loss."""
        self.seen += batch[0].flatten().tolist()
        loss: torch.Tensor = self.weight(batch[0]).pow(2).mean()
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Use plain SGD."""
        return torch.optim.SGD(self.parameters(), lr=1e-4)


model = Model()
data = TensorDataset(torch.arange(SAMPLES, dtype=torch.float32).unsqueeze(1))
trainer = pl.Trainer(
    accelerator="cpu",
    devices=int(sys.argv[2]),
    num_nodes=int(sys.argv[3]),
    strategy=DDPStrategy(process_group_backend="gloo"),
    plugins=[FullmeshEnvironment()],
    max_epochs=1,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(model, DataLoader(data, batch_size=2))
every: list[object] = [None] * trainer.world_size
mine = [trainer.global_rank, trainer.node_rank, trainer.local_rank, model.seen]
torch.distributed.all_gather_object(every, mine)
weight = [None] * trainer.world_size
torch.distributed.all_gather_object(weight, model.weight.weight.item())
if trainer.local_rank == 0:
    result = {"ranks": every, "equal": len(set(weight)) == 1}
    Path(sys.argv[1]).write_text(json.dumps(result) + "\n")
# The model keeps Gloo's threads alive, and when the interpreter exits they may abort it (LG-320).
os._exit(0)
