"""A minimal job: every rank adds its number, the sum is checked, one JSON line is written."""

from __future__ import annotations

import datetime
import json
import os
import signal
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
restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
marker = Path("/srv/jobs/killed")
far = (
    os.environ["FULLMESH_ADDRESS"] != os.environ["MASTER_ADDR"] and os.environ["LOCAL_RANK"] == "1"
)
if "--kill" in sys.argv and far and not marker.exists():
    marker.touch()
    os.kill(os.getpid(), signal.SIGKILL)
mine = [
    os.uname().nodename,
    os.environ["FULLMESH_ADDRESS"],
    int(os.environ["LOCAL_RANK"]),
    restarts,
]
every: list[list[str | int] | None] = [None] * world
# with --kill, the others are in this call when one of them ends
dist.all_gather_object(every, mine)
dist.destroy_process_group()
ranks = [one for one in every if one]
result = {
    "right": tensor.tolist() == expected,
    "world": world,
    "nodes": sorted(str(one[0]) for one in ranks),
    "places": [one[1:3] for one in ranks],
    "master": os.environ["MASTER_ADDR"],
    "job": os.environ.get("TORCHELASTIC_RUN_ID", ""),
    "restarts": [one[3] for one in ranks],
    "extra": os.environ.get("MOLECULE_EXTRA", ""),
    "argument": sys.argv[2:],
}
# every rank of a node writes the same text
path = Path(sys.argv[1]).with_suffix(f".{os.getpid()}")
path.write_text(json.dumps(result) + "\n")
path.replace(sys.argv[1])
sys.exit(0 if result["right"] else 1)
