"""A lab's home and checkout in temporary folders, so that the tests do not change the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from devtools.lab.paths import Paths


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    """Return paths below the test's own folder, with an empty checkout."""
    checkout = tmp_path / "checkout"
    (checkout / "inventory" / "lab" / "group_vars").mkdir(parents=True)
    (checkout / "lab" / "repo").mkdir(parents=True)
    (checkout / "lab" / "repo" / "mkrepo.sh").touch()
    return Paths(tmp_path / "home", checkout)
