"""Files of others, bent at random, as often as it takes: tests/unit tries 200 of each parser."""

from __future__ import annotations

import os
import random

import pytest
from test_fuzz import KINDS, PARSERS, WORDS, damage_text


@pytest.mark.parametrize("name", PARSERS)
def test_the_same_a_hundred_thousand_times(name: str) -> None:
    """Without what makes a failure small: FULLMESH_FUZZ inputs, each from a number of its own."""
    samples, check = PARSERS[name]
    for number in range(int(os.environ.get("FULLMESH_FUZZ", "100000"))):
        chance = random.Random(number)  # noqa: S311 (repeatable on purpose)
        steps = [
            (
                chance.choice(KINDS),
                chance.randrange(400),
                chance.randrange(400),
                chance.choice(WORDS),
            )
            for _ in range(chance.randrange(1, 9))
        ]
        text = damage_text(chance.choice(samples), steps)
        try:
            check(text)
        except Exception as exc:
            raise AssertionError(f"number {number}: {text!r}") from exc
