"""A job like PyTorch's DDP tutorial for several nodes: for GPUs, independent of launchers, resumed from a file.

``snapshots.py EPOCHS SAVE_EVERY``. It has the calls of the tutorial's multinode.py that need a launcher or a node: the
five variables, the GPU of the local rank, DDP on it, a snapshot in the working folder.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

SAMPLES, BATCH = 256, 32
SNAPSHOT = Path("snapshot.pt")
epochs, save_every = map(int, sys.argv[1:])
rank, local_rank = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
init_process_group(backend="nccl")
torch.manual_seed(0)
data = TensorDataset(torch.rand(SAMPLES, 20), torch.rand(SAMPLES, 1))
loader = DataLoader(data, batch_size=BATCH, sampler=DistributedSampler(data))
net = torch.nn.Linear(20, 1).to(local_rank)
first = 0
if SNAPSHOT.exists():
    held = torch.load(SNAPSHOT, map_location=f"cuda:{local_rank}")
    net.load_state_dict(held["model"])
    first = held["epochs"]
model = DistributedDataParallel(net, device_ids=[local_rank])
descent = torch.optim.SGD(model.parameters(), lr=1e-3)
for epoch in range(first, epochs):
    loader.sampler.set_epoch(epoch)
    for source, target in loader:
        descent.zero_grad()
        loss = torch.nn.functional.mse_loss(model(source.to(local_rank)), target.to(local_rank))
        loss.backward()
        descent.step()
    sys.stdout.write(
        f"rank {rank} of {os.environ['WORLD_SIZE']}: epoch {epoch}, {len(loader)} steps\n"
    )
    sys.stdout.flush()
    if rank == 0 and epoch % save_every == 0:
        torch.save({"model": model.module.state_dict(), "epochs": epoch + 1}, SNAPSHOT)
destroy_process_group()
