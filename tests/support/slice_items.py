"""A plugin of pytest that keeps one slice of the tests: ``FULLMESH_TEST_SLICE=2/4`` is the second quarter.

``src/devtools/parts.py`` says which files it may cut: those whose tests do not build on each other.
"""

from __future__ import annotations

import os

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of all other slices."""
    number, of = map(int, os.environ["FULLMESH_TEST_SLICE"].split("/"))
    kept = items[len(items) * (number - 1) // of : len(items) * number // of]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
