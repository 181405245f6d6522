"""Two nodes, or four, as ``site.yml`` leaves them, with torch.

FULLMESH_HANG_LAB names a lab that is up and configured already; it is used and kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lab_nodes import fullmesh, nodes_of

from devtools.lab import lifecycle, paths
from fullmesh.settings import ROOT

from . import table
from .bench import ACCOUNT, Bench

LAB = os.environ.get("FULLMESH_HANG_LAB", "hang")
RECORDED = ROOT / "tests/unit/recorded/hang_lab"
KEPT = "FULLMESH_HANG_LAB" in os.environ


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the harness."""
    group = parser.getgroup("hang")
    group.addoption(
        "--hang-record", action="store_true", help="renew tests/unit/recorded/hang_lab as well"
    )


def pytest_sessionfinish() -> None:
    """Put the rows together."""
    table.finish()


@pytest.fixture
def recorded(request: pytest.FixtureRequest) -> Path | None:
    """The folder for what ranks answer, where it is to be renewed."""
    return RECORDED if request.config.getoption("--hang-record") else None


@contextmanager
def configured(lab: str, nodes: int, *, kept: bool = False) -> Iterator[Bench]:
    """A lab's nodes, and an account for jobs."""
    inventory = lifecycle.inventory_path(paths.find(), lab).parent
    if not kept:
        fullmesh("lab", "down", "--name", lab)
        up = fullmesh("lab", "up", "--name", lab, "--nodes", str(nodes))
        assert up.returncode == 0, up.stdout + up.stderr
        runs = f"verify_cluster_runs_dir={ROOT}/.fullmesh/runs-{lab}"
        done = fullmesh("apply", "-i", str(inventory), "--", "--skip-tags", "verify", "-e", runs)
        assert done.returncode == 0, done.stdout[-6000:]
    made = Bench(list(nodes_of(lab).values()), inventory)
    made.on_all(f"id {ACCOUNT} >/dev/null 2>&1 || useradd -m {ACCOUNT}")
    yield made
    if not kept:
        fullmesh("lab", "down", "--name", lab)


@pytest.fixture(scope="session")
def bench() -> Iterator[Bench]:
    """Two nodes."""
    with configured(LAB, 2, kept=KEPT) as made:
        yield made


@pytest.fixture(scope="module")
def four() -> Iterator[Bench]:
    """Four nodes."""
    with configured("hang-four", 4) as made:
        yield made
