"""DDP with a DistributedSampler and mixed precision: on GPUs over NCCL, on CPUs over Gloo.

Run on every node: ``/opt/fullmesh/bin/fullmesh-torchrun ddp.py [EPOCHS]``. Ranks, addresses and interfaces come from
the launcher and from /etc/fullmesh/env. The script has no settings of the cluster. The model learns to add.
"""

from __future__ import annotations

import atexit
import os
import sys
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

SAMPLES = 4096


def begin() -> torch.device:
    """Join the other ranks; return the device of this one."""
    local = int(os.environ["LOCAL_RANK"])
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", local) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    seconds = float(os.environ.get("FULLMESH_TIMEOUT_SECONDS", "120"))
    dist.init_process_group("nccl" if gpu else "gloo", timeout=timedelta(seconds=seconds))
    return device


def samples() -> TensorDataset:
    """Return sets of eight numbers and their sum. All ranks have the same, and the sampler selects each rank's part."""
    numbers = torch.rand(SAMPLES, 8, generator=torch.Generator().manual_seed(1))
    return TensorDataset(numbers, numbers.sum(1, keepdim=True))


def train(device: torch.device, epochs: int) -> float:
    """Train; return the last epoch's loss, averaged over all ranks."""
    torch.manual_seed(2)
    net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    model = DistributedDataParallel(net.to(device))
    # all ranks get the same number of samples: otherwise DistributedSampler repeats some
    sampler: DistributedSampler[Any] = DistributedSampler(samples(), shuffle=True)
    loader = DataLoader(samples(), batch_size=64, sampler=sampler)
    descent = torch.optim.AdamW(model.parameters(), lr=1e-2)
    low = torch.float16 if device.type == "cuda" else torch.bfloat16
    scaler = torch.amp.GradScaler(device.type, enabled=low is torch.float16)
    total = torch.zeros(2, device=device)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)  # otherwise every epoch has the same order
        total.zero_()
        for numbers, wanted in loader:
            with torch.autocast(device.type, dtype=low):
                out = model(numbers.to(device))
            loss = torch.nn.functional.mse_loss(out.float(), wanted.to(device))
            descent.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(descent)
            scaler.update()
            total += torch.stack((loss.detach(), torch.ones_like(loss)))
    dist.all_reduce(total)
    return float(total[0] / total[1])


def main() -> None:
    """Train and print the result."""
    device = begin()
    loss = train(device, int(sys.argv[1]) if len(sys.argv) > 1 else 5)
    if dist.get_rank() == 0:
        sys.stdout.write(f"ddp: {dist.get_world_size()} ranks on {device.type}, loss {loss:.5f}\n")


def leave() -> None:
    """End this rank properly, but without the interpreter's own cleanup.

    While an object holds the model, Gloo's threads continue, even after destroy_process_group. If one of them releases
    a tensor while Python shuts down, its process aborts (``terminate called without an active exception``). This is
    rare here, but happened in 5 of 8 jobs that end right after a collective (pytorch/pytorch#190489). torchrun on all
    other nodes then waits 5 min.
    """
    dist.destroy_process_group()
    atexit._run_exitfuncs()  # run the exit handlers of loggers and profilers
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
    leave()
