"""A model with DeepSpeed and ZeRO stage 1: on GPUs over NCCL, on CPUs over Gloo.

Run on every node: ``/opt/fullmesh/bin/fullmesh-torchrun deepspeed_train.py [STEPS]``, or use DeepSpeed's own command
with the plan's hostfile (docs/launchers.md). The model learns to add. Its weights must equal those of one process
alone: each rank also trains a copy on the whole batch, while DeepSpeed trains on the rank's part.
"""

from __future__ import annotations

import os
import sys

import deepspeed
import torch

# On CPUs, DeepSpeed has an operator for exchanges within a node. It is compiled at the first start, and all ranks of a
# node wait for one lock, which a killed start leaves behind (HG-113). Over several nodes it is not used
# (csrc/cpu/comm/shm_interface.cpp: only if all ranks are local).
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False

BATCH, TOLERANCE = 128, 1e-4


def model() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """Make the model and its optimizer, equal on all ranks."""
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    return net, torch.optim.AdamW(net.parameters(), lr=1e-2)


deepspeed.init_distributed()
rank, world = deepspeed.comm.get_rank(), deepspeed.comm.get_world_size()
net, descent = model()
settings = {
    "train_batch_size": BATCH,
    "gradient_accumulation_steps": 1,
    "gradient_clipping": 0.0,  # the default is to clip to 1
    "zero_optimization": {"stage": 1},
}
engine, *_ = deepspeed.initialize(model=net, optimizer=descent, config=settings)
alone, steps_alone = model()
alone.to(engine.device)
share = slice(rank * BATCH // world, (rank + 1) * BATCH // world)
loss = torch.zeros(1)
for step in range(int(sys.argv[1]) if len(sys.argv) > 1 else 50):
    torch.manual_seed(step)
    numbers = torch.rand(BATCH, 8).to(engine.device)
    wanted = numbers.sum(1, keepdim=True)
    loss = torch.nn.functional.mse_loss(engine(numbers[share]), wanted[share])
    engine.backward(loss)
    engine.step()
    steps_alone.zero_grad()
    torch.nn.functional.mse_loss(alone(numbers), wanted).backward()
    steps_alone.step()

pairs = zip(engine.module.parameters(), alone.parameters(), strict=True)
apart = torch.stack([(one - other).abs().max() for one, other in pairs]).max().detach()
deepspeed.comm.all_reduce(apart, op=deepspeed.comm.ReduceOp.MAX)
if apart > TOLERANCE:
    sys.exit(f"deepspeed: weights differ by {apart:.2g} from those of one process alone")
if rank == 0:
    kind = engine.device.type if isinstance(engine.device, torch.device) else str(engine.device)
    sys.stdout.write(f"deepspeed: {world} ranks on {kind}, weights as alone, loss {loss:.5f}\n")
    sys.stdout.flush()
deepspeed.comm.barrier()
# The model keeps Gloo's threads alive, and when the interpreter exits they may abort it (LG-320).
os._exit(0)
