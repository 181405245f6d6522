"""Cases of HG-111."""

from __future__ import annotations

from hang_records import on_gpus

JOB_CHANGES = {
    "NCCL: a GPU has not begun": (["HG-111"], "network", on_gpus),
}
