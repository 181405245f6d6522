"""torch is built for a newer CUDA than the GPU driver supports

A GPU driver runs programs that are built for its CUDA version or an older one. With a newer one,
torch finds no GPU.

**Prove:** nvidia-smi | grep CUDA && python -c 'import torch; print(torch.version.cuda)'

**Fix:** Install a newer driver, or torch for an older CUDA. The finding names a
torch_runtime_version that has a lock for it. Otherwise make a lock (./fullmesh torch-lock) and set
torch_runtime_requirements.
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import has_same_node
from fullmesh.foreign_text import parse_decimal
from fullmesh.model.locks import LOCKS, list_lock_names
from fullmesh.result.findings import Finding
from fullmesh.verify.model import ClusterObservations
from fullmesh.verify.node import get_software


def parse_version_numbers(text: str) -> tuple[int, ...]:
    """Return ``13.0`` as comparable numbers."""
    return tuple(number for part in text.split(".") if (number := parse_decimal(part)) is not None)


def suggest_older_torch(seen: ClusterObservations, major: int) -> str:
    """Suggest a torch for a driver's CUDA: the newest with a lock, or the user's own lock."""
    held = [one.partition("-cuda") for one in list_lock_names(LOCKS)]
    fits = [
        (parse_version_numbers(cuda), torch)
        for torch, _, cuda in held
        if parse_version_numbers(cuda)[:1] == (major,)
    ]
    if not fits:
        by = "with your own lock (./fullmesh torch-lock creates one for torch_runtime_requirements)"
        return f"torch for CUDA {major} {by}"
    cuda, torch = max(fits)
    shown = ".".join(map(str, cuda))
    return (
        f"torch_runtime_version: {torch} in the inventory, whose lock is for CUDA {shown} (torch_runtime_accelerator: "
        f"auto). Then {seen.apply('packages')}"
    )


def rule_cuda_version(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the driver runs torch's CUDA: its own major version or older (CUDA's minor version compatibility)."""
    for name in seen.plan["nodes"]:
        row = get_software(seen, name)
        built, runs = (
            parse_version_numbers(row["torch_cuda"]),
            parse_version_numbers(row["driver_cuda"]),
        )
        if built and runs and built[0] > runs[0]:
            yield Finding(
                "VC-117",
                "L1",
                f"torch on {name} is built for CUDA {row['torch_cuda']}, its driver runs up to {row['driver_cuda']}",
                node=name,
                seen=row["driver_cuda"],
                expected=f"{built[0]}.0 or newer",
                fix=f"a newer driver on {name}, or {suggest_older_torch(seen, runs[0])}",
            )


CAUSE = Cause(
    "VC-117",
    __doc__,
    find=rule_cuda_version,
    weight=390,
    explains=(Explains(("VC-719", "VC-711"), has_same_node),),
)
