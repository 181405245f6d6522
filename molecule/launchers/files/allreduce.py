"""A job as small as can be: every rank adds its number, the sum is checked, one JSON line is written."""

import datetime
import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

timeout = datetime.timedelta(seconds=int(os.environ["FULLMESH_TIMEOUT_SECONDS"]))
dist.init_process_group("gloo", timeout=timeout)
rank, world = dist.get_rank(), dist.get_world_size()
tensor = torch.arange(4, dtype=torch.float64) + rank
dist.all_reduce(tensor)
expected = [world * i + world * (world - 1) / 2 for i in range(4)]
names: list[str | None] = [None] * world
dist.all_gather_object(names, os.uname().nodename)
dist.destroy_process_group()
result = {
    "right": tensor.tolist() == expected,
    "world": world,
    "nodes": sorted(str(name) for name in names),
    "master": os.environ["MASTER_ADDR"],
    "job": os.environ.get("TORCHELASTIC_RUN_ID", ""),
    "argument": sys.argv[2:],
}
Path(sys.argv[1]).write_text(json.dumps(result) + "\n")
sys.exit(0 if result["right"] else 1)
