"""The committed locks of torch."""

from __future__ import annotations

from pathlib import Path

from fullmesh.settings import ROOT

LOCKS = str(ROOT / "roles/torch_runtime/files")


def list_lock_names(files: str) -> list[str]:
    """List the committed locks by version and accelerator, like ``2.13.0-cuda13.0``."""
    return sorted(path.stem.removeprefix("torch-") for path in Path(files).glob("torch-*.txt"))
