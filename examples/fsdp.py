"""FSDP, full shard: every rank holds its part of each layer; on GPUs over NCCL, on CPUs over Gloo.

Run on every node: ``/opt/fullmesh/bin/fullmesh-torchrun fsdp.py [STEPS] [CHECKPOINT]``. Rank 0 writes CHECKPOINT with
all parameters, which you can read without FSDP.
"""

from __future__ import annotations

import atexit
import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

WIDTH = 64


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


def sharded(device: torch.device) -> torch.nn.Module:
    """Make a sharded model, with the same seed on all ranks. Unlike DDP, FSDP does not copy rank 0's parameters."""
    torch.manual_seed(3)
    layers = [torch.nn.Linear(WIDTH, WIDTH) for _ in range(4)]
    net = torch.nn.Sequential(*(part for layer in layers for part in (layer, torch.nn.ReLU())))
    net = net.to(device)
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(net, mesh=mesh, mp_policy=policy)
    return net


def train(net: torch.nn.Module, device: torch.device, steps: int) -> tuple[float, float]:
    """Learn to reproduce the input; return first and last loss, averaged over all ranks."""
    descent = torch.optim.AdamW(net.parameters(), lr=3e-3)
    own = torch.Generator().manual_seed(100 + dist.get_rank())  # each rank has its own data
    losses = []
    for _ in range(steps):
        numbers = torch.rand(128, WIDTH, generator=own).to(device)
        loss = torch.nn.functional.mse_loss(net(numbers).float(), numbers)
        descent.zero_grad()
        loss.backward()
        descent.step()
        shown = loss.detach().clone()
        dist.all_reduce(shown)
        losses.append(float(shown) / dist.get_world_size())
    return losses[0], losses[-1]


def save(net: torch.nn.Module, path: str) -> None:
    """Gather all parameters on rank 0 and write them. Every rank must call this."""
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    whole = get_model_state_dict(net, options=options)
    if dist.get_rank() == 0:
        torch.save(whole, path)


def main() -> None:
    """Train, save, and print the result."""
    device = begin()
    net = sharded(device)
    first, last = train(net, device, int(sys.argv[1]) if len(sys.argv) > 1 else 50)
    if len(sys.argv) > 2:  # noqa: PLR2004 (STEPS CHECKPOINT)
        save(net, sys.argv[2])
    if dist.get_rank() == 0:
        world = dist.get_world_size()
        sys.stdout.write(f"fsdp: {world} ranks on {device.type}, loss {first:.5f} -> {last:.5f}\n")


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
