"""How the folder of a run below runs/ is called."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime


def run_name() -> str:
    """A name that sorts by time and that no two runs share."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"
