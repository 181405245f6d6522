"""A model with Hugging Face's Accelerate: on GPUs over NCCL, on CPUs over Gloo.

Run on every node: ``/opt/fullmesh/bin/fullmesh-accelerate accelerate_train.py [EPOCHS]``. Ranks, addresses and
interfaces come from the launcher and from /etc/fullmesh/env. The script has no settings of the cluster. The model
learns to add.
"""

from __future__ import annotations

import os
import sys

import torch
from accelerate import Accelerator
from accelerate.utils import gather, set_seed
from torch.utils.data import DataLoader, TensorDataset

SAMPLES = 2048

set_seed(1)
accelerator = Accelerator()
numbers = torch.rand(SAMPLES, 8)
net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
descent = torch.optim.AdamW(net.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(numbers, numbers.sum(1, keepdim=True)), batch_size=64)
net, descent, loader = accelerator.prepare(net, descent, loader)
loss = torch.zeros(1)
for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 4):
    for given, wanted in loader:
        loss = torch.nn.functional.mse_loss(net(given), wanted)
        descent.zero_grad()
        accelerator.backward(loss)
        descent.step()
every = gather(loss.detach().reshape(1))
if accelerator.is_main_process:
    kind = accelerator.device.type
    sys.stdout.write(
        f"accelerate: {accelerator.num_processes} ranks on {kind}, loss {every.mean():.5f}\n"
    )
    sys.stdout.flush()
accelerator.wait_for_everyone()
# The model keeps Gloo's threads alive, and when the interpreter exits they may abort it (LG-320).
os._exit(0)
