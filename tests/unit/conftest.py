"""Node modules import their helpers as ``ansible.module_utils.fullmesh``, as they do on a node."""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import ansible.module_utils
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

ansible.module_utils.__path__.append(str(Path(__file__).parents[2] / "module_utils"))

# How long an example takes on a loaded machine says nothing about the code: no deadline, no check of the generator's
# speed (its first example took 1.1 s beside two other processes and failed the run).
ANY_MACHINE = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None, print_blob=True
)
# The default run draws the same examples each time, so a change elsewhere cannot fail on a new one. The part "random
# properties" of ./fullmesh test --all draws others (--hypothesis-profile=random). A failing one becomes an @example.
# Both profiles set derandomize: Hypothesis's own default depends on the environment (True if CI is set).
settings.register_profile("same each time", ANY_MACHINE, derandomize=True)
settings.register_profile("random", ANY_MACHINE, derandomize=False)
settings.load_profile("same each time")
# Hypothesis also draws constants from the project's modules that are loaded: which ones depends on the tests that ran
# before in the same worker, and on any change of any module. No setting switches that off.
if hasattr(providers, "_get_local_constants"):
    providers._get_local_constants = lambda: providers._local_constants


@pytest.fixture(autouse=True, scope="session")
def _the_boot_unit_is_not_this_machines(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A transaction enables a unit of systemd: never that of the machine that runs the tests."""
    folder = str(tmp_path_factory.mktemp("systemd"))
    importlib.import_module("ansible.module_utils.fullmesh.transaction.engine").UNITS = folder


@pytest.fixture(autouse=True)
def _own_environment() -> Iterator[None]:
    """A program that sets a variable in its own process does not set it for the tests after it."""
    with mock.patch.dict(os.environ):
        yield


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Make a folder that all accounts may enter. Pytest closes its own, even while another run's tests use them."""
    with tempfile.TemporaryDirectory(prefix="fullmesh-", ignore_cleanup_errors=True) as folder:
        path = Path(folder)
        path.chmod(0o755)
        yield path
