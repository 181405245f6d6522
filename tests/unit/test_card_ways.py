"""Ways between cards that hardware alone decides: told only where it is certain."""

from __future__ import annotations

from typing import Any

import pytest

from fullmesh.contract import read
from fullmesh.observed.survey import Gpus
from fullmesh.verify.card_faults import Box, faults


def gpus(*numa: tuple[str, int], links: tuple[int, ...] = (), model: str = "A100") -> Gpus:
    """Cards of a model with so many NVLinks each, and devices (kind, NUMA node)."""
    cards: list[dict[str, Any]] = [
        {"name": model, "uuid": f"GPU-{at}", "memory": "40960 MiB", "links": count}
        for at, count in enumerate(links)
    ]
    paths = [
        {"bus": f"0000:0{at}:00.0", "kind": kind, "numa": node, "iommu": "", "redirecting": []}
        for at, (kind, node) in enumerate(numa)
    ]
    return read(Gpus, {"present": True, "cards": cards, "paths": paths, "direct": "dma_buf"})


@pytest.mark.parametrize(
    ("numa", "rdma", "told"),
    [
        ([("gpu", 0), ("gpu", 1), ("rdma", 1)], True, False),
        ([("gpu", 0), ("gpu", 0), ("rdma", 1)], True, True),
        ([("gpu", 0), ("rdma", 1)], False, False),  # no port is up: nobody sends anything there
        ([("gpu", 0), ("rdma", -1)], True, False),  # the firmware does not say
        ([("gpu", -1), ("rdma", -1)], True, False),
        ([("gpu", 0)], True, False),
    ],
)
def test_cards_on_the_other_processor(numa: list[tuple[str, int]], rdma: bool, told: bool) -> None:
    found = [one.code for one in faults({"a": Box(gpus(*numa), rdma=rdma)})]
    assert found == (["VC-146"] if told else [])


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        (gpus(links=(12, 12)), gpus(links=(12, 12)), []),
        (gpus(links=(12, 12)), gpus(links=(12, 0)), ["b"]),
        (gpus(links=(12, 12)), gpus(links=(0, 0)), ["b"]),
        # pairs are bridged here and not there: the whole counts, not which card
        (gpus(links=(12, 12, 0, 0)), gpus(links=(0, 0, 12, 12)), []),
        # another model, or other counts of cards, say nothing of each other
        (gpus(links=(12, 12)), gpus(links=(0, 0), model="L40S"), []),
        (gpus(links=(12, 12)), gpus(links=(0,)), []),
    ],
)
def test_a_bridge_that_is_missing(first: Gpus, second: Gpus, told: list[str]) -> None:
    found = [(one.code, one.node) for one in faults({"a": Box(first), "b": Box(second)})]
    assert found == [("VC-145", node) for node in told]
