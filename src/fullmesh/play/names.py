"""How the folder of a run below runs/ is called, and how a path is said."""

from __future__ import annotations

import os
import secrets
from datetime import UTC, datetime
from pathlib import Path


def make_run_name() -> str:
    """A name that sorts by time and that no two runs share."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"


def shorten_path(path: Path) -> str:
    """A path as the user types it: the shorter of both ways to write it."""
    written = os.path.relpath(path)
    return written if len(written) < len(str(path)) else str(path)
