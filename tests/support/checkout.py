"""A copy of the checkout as a clone would have it, with what is not committed yet."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from fullmesh.settings import ROOT


def copy_checkout(to: Path) -> None:
    """Copy git's files alone: what an earlier build left in the checkout must not help."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    for name in filter(None, listed):
        if (ROOT / name).exists():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to / name, follow_symlinks=(ROOT / name).is_file())
