"""The ground on which faults are made."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from faults.bench import KERNEL_RANGE, run_fullmesh, start_bench
from faults.conftest import set_addresses

from .ground import Ground, group_nodes

LAB = "surprises"
PAIRS = 3  # of nodes; what each costs is waiting, so three of them go through three faults in the time of one


@pytest.fixture(scope="session")
def grounds() -> Iterator[list[Ground]]:
    """Nodes with addresses, set by hand, in twos."""
    run_fullmesh("lab", "down", "--name", LAB)
    made = start_bench(LAB, 2 * PAIRS, KERNEL_RANGE)
    set_addresses(made)
    yield group_nodes(made)
    run_fullmesh("lab", "down", "--name", LAB)


@pytest.fixture(scope="session")
def ground(grounds: list[Ground]) -> Ground:
    """Two of them."""
    return grounds[0]
