"""Cases of HG-111."""

from __future__ import annotations

from hang_records import TRAIN, on_gpus

JOBS = {
    "gpu_kernel": [("HG-111", (1,), f"{TRAIN}:23")],
}
JOB_CHANGES = {
    "NCCL: a GPU has not begun": (["HG-111"], "network", on_gpus),
}
