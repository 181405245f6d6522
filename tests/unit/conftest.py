"""Node modules import their helpers as ``ansible.module_utils.fullmesh``, as they do on a node."""

from __future__ import annotations

import importlib
from pathlib import Path

import ansible.module_utils
import pytest
from hypothesis import HealthCheck, settings

ansible.module_utils.__path__.append(str(Path(__file__).parents[2] / "module_utils"))

# How long an example takes on a loaded machine says nothing about the code: no deadline, no check of the generator's
# speed (its first example took 1.1 s beside two other processes and failed the run).
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


@pytest.fixture(autouse=True, scope="session")
def _the_boot_unit_is_not_this_machines(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A transaction enables a unit of systemd: never that of the machine that runs the tests."""
    folder = str(tmp_path_factory.mktemp("systemd"))
    importlib.import_module("ansible.module_utils.fullmesh.transaction.engine").UNITS = folder
