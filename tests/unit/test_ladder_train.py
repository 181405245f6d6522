"""Check L8: what its results are compared by."""

from __future__ import annotations

import ladder_train
import pytest


def test_rows_are_read_place_by_place() -> None:
    assert ladder_train.zip_rows([1, 2], (3, 4)) == [(1, 3), (2, 4)]
    assert ladder_train.zip_rows() == []


@pytest.mark.parametrize("rows", [([1, 2], [1]), ([], [1]), ([1], [1], [1, 2])])
def test_a_row_that_is_too_short_never_passes(rows: tuple[list[int], ...]) -> None:
    with pytest.raises(ValueError, match="values, which must be equally long"):
        ladder_train.zip_rows(*rows)
