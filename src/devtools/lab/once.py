"""Build a folder of the lab's cache once: completely or not at all, by one command at a time."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from devtools.lab.locks import held
from devtools.lab.paths import Paths


def built(
    paths: Paths, target: Path, what: str, make: Callable[[Path], None], seconds: float
) -> Path:
    """Return *target*, a folder of the cache. If it is missing, *make* builds it.

    Args:
        paths: of the lab.
        target: the folder; its name identifies its inputs.
        what: its description for messages.
        make: gets a folder to work in; its subfolder ``out`` becomes the target.
        seconds: to wait for another command that builds it.

    Raises:
        LabError: LB-112, another command took longer.
    """
    if target.is_dir():
        return target
    kind = target.name.rpartition("-")[0]
    with held(paths.home / "locks" / kind, what, seconds):
        if target.is_dir():
            return target
        work = paths.cache / f"{kind}.work"
        shutil.rmtree(work, ignore_errors=True)
        (work / "out").mkdir(parents=True)
        make(work)
        os.replace(work / "out", target)
        shutil.rmtree(work)
    return target
