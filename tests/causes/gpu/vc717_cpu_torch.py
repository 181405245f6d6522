"""Cases of VC-717."""

from __future__ import annotations

from gpu_samples import torch_for

VERIFICATION = {
    "torch for cpus": lambda s: torch_for(s, "cpu", ""),
}
