"""A model under DeepSpeed with ZeRO's first stage: on GPUs over NCCL, on processors over Gloo.

On every node ``/opt/fullmesh/bin/fullmesh-torchrun deepspeed_train.py [STEPS]``, or DeepSpeed's own command with the
plan's hostfile (docs/launchers.md). The model learns to add, and must come out as in one process alone: each rank
trains a copy on the whole batch, where DeepSpeed gives it its share.
"""

from __future__ import annotations

import os
import sys

import deepspeed
import torch

# For processors DeepSpeed has an operator that exchanges within a node. It is compiled at the first start, all ranks of
# a node waiting at one lock, which a start that was killed leaves behind (HG-113); over several nodes nothing uses it
# (csrc/cpu/comm/shm_interface.cpp: only where all ranks are local).
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False

BATCH, TOLERANCE = 128, 1e-4


def model() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """The same one wherever it is made."""
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    return net, torch.optim.AdamW(net.parameters(), lr=1e-2)


deepspeed.init_distributed()
rank, world = deepspeed.comm.get_rank(), deepspeed.comm.get_world_size()
net, descent = model()
settings = {
    "train_batch_size": BATCH,
    "gradient_accumulation_steps": 1,
    "gradient_clipping": 0.0,  # it clips to 1 unless told
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
# The model keeps Gloo's threads alive, and at the interpreter's end they may abort it (LG-320).
os._exit(0)
