"""Cases of VC-117."""

from __future__ import annotations

from gpu_samples import torch_for

VERIFICATION = {
    "torch too new": lambda s: torch_for(s, "cuda", "13.0"),
}
