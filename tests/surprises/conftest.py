"""The ground on which faults are made."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from faults.bench import KERNEL_RANGE, bench, fullmesh
from faults.conftest import address_by_hand

from .ground import Ground

LAB = "surprises"


@pytest.fixture(scope="session")
def ground() -> Iterator[Ground]:
    """Two nodes with addresses, set by hand."""
    fullmesh("lab", "down", "--name", LAB)
    made = bench(LAB, 2, KERNEL_RANGE)
    address_by_hand(made)
    held = Ground(made, tuple(made.nodes))
    held.prepare()
    assert not held.oracle(), "the nodes are not whole to begin with"
    yield held
    fullmesh("lab", "down", "--name", LAB)
