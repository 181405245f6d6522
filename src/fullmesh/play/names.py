"""Name the folder of a run below runs/, and shorten paths."""

from __future__ import annotations

import os
import secrets
from datetime import UTC, datetime
from pathlib import Path


def make_run_name() -> str:
    """Return a unique name that sorts by time."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"


def shorten_path(path: Path) -> str:
    """Return a path as the user types it: relative or absolute, the shorter one."""
    written = os.path.relpath(path)
    return written if len(written) < len(str(path)) else str(path)
