"""Build the documentation's site, as ``./fullmesh docs --check`` builds it in the repository's own runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECONDS = 900


def build_site(environment: Mapping[str, str] | None = None) -> Path:
    """Build the site, with more variables in its environment. Return its folder."""
    done = subprocess.run(
        [sys.executable, "-m", "fullmesh", "docs", "--check"],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "GITHUB_REPOSITORY": "example/fullmesh",
            **(environment or {}),
        },
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return ROOT / ".fullmesh/docs/html"
