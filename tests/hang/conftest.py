"""Two or four nodes with torch that ``site.yml`` has configured.

FULLMESH_HANG_LAB names a lab that already runs and is configured. It is used and stays up.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lab_nodes import list_lab_nodes, run_fullmesh

from devtools.lab import lifecycle, paths
from fullmesh.settings import ROOT

from . import table
from .bench import ACCOUNT, Bench

LAB = os.environ.get("FULLMESH_HANG_LAB", "hang")
RECORDED = ROOT / "tests/unit/recorded/hang_lab"
KEPT = "FULLMESH_HANG_LAB" in os.environ


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the harness."""
    group = parser.getgroup("hang")
    group.addoption(
        "--hang-record", action="store_true", help="also record tests/unit/recorded/hang_lab again"
    )


def pytest_sessionfinish() -> None:
    """Write the table of all rows."""
    table.write_table()


@pytest.fixture
def recording_folder(request: pytest.FixtureRequest) -> Path | None:
    """Return the folder for new recordings, None unless the run records."""
    return RECORDED if request.config.getoption("--hang-record") else None


@contextmanager
def configure_lab(lab: str, nodes: int, *, kept: bool = False) -> Iterator[Bench]:
    """Configure a lab's nodes, with an account for jobs."""
    inventory = lifecycle.inventory_path(paths.find(), lab).parent
    if not kept:
        run_fullmesh("lab", "down", "--name", lab)
        up = run_fullmesh("lab", "up", "--name", lab, "--nodes", str(nodes))
        assert up.returncode == 0, up.stdout + up.stderr
        runs = f"verify_cluster_runs_dir={ROOT}/.fullmesh/runs-{lab}"
        done = run_fullmesh(
            "apply", "-i", str(inventory), "--", "--skip-tags", "verify", "-e", runs
        )
        assert done.returncode == 0, done.stdout[-6000:]
    configured = Bench(list(list_lab_nodes(lab).values()), inventory)
    configured.run_on_all(f"id {ACCOUNT} >/dev/null 2>&1 || useradd -m {ACCOUNT}")
    yield configured
    if not kept:
        run_fullmesh("lab", "down", "--name", lab)


@pytest.fixture(scope="session")
def bench() -> Iterator[Bench]:
    """Configure two nodes."""
    with configure_lab(LAB, 2, kept=KEPT) as configured:
        yield configured


@pytest.fixture(scope="module")
def four_nodes() -> Iterator[Bench]:
    """Configure four nodes."""
    with configure_lab("hang-four", 4) as configured:
        yield configured
