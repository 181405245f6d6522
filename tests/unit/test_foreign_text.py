"""Foreign text becomes a bounded value or a ForeignTextError, on nodes and on the controller."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible.module_utils.fullmesh import foreign_text
from hypothesis import given
from hypothesis import strategies as st

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**64) + 1, 2**64 - 1) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=20,
)


@given(PLAIN)
def test_plain_json_is_read_unchanged(value: Any) -> None:
    assert foreign_text.parse_foreign_json(json.dumps(value)) == value
    assert foreign_text.parse_foreign_json(json.dumps(value, ensure_ascii=False).encode()) == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" * 5000, "nested"),
        ("[" * 100_000, "nested"),
        ("[" * 65 + "]" * 65, "nested more than 64 times"),
        ('{"a":' * 65 + "1" + "}" * 65, "nested more than 64 times"),
        ("9" * 5001, "a number of 5001 digits"),
        (str(2**64), "a number of 20 digits"),
        ("-" + str(10**21), "a number of 23 digits"),
        ("[" + "[]," * 1_000_000 + "[]]", "values"),
        ("[" + "," * 2_000_001, "values"),
        (" " * (16 << 20) + "1", "bytes"),
        ("", "cut off or damaged"),
        ('{"a": ', "cut off or damaged"),
        (b"\xff\xff", "cut off or damaged"),
        (b"\x00[\x00]", "cut off or damaged"),
    ],
)
def test_hostile_json_is_refused_with_the_reason(text: Any, why: str) -> None:
    with pytest.raises(foreign_text.ForeignTextError, match=why):
        foreign_text.parse_foreign_json(text)


def test_deep_json_within_the_limit_is_read() -> None:
    assert foreign_text.parse_foreign_json("[" * 64 + "]" * 64)


def test_commas_in_strings_are_not_counted_as_values() -> None:
    long = ',[{\\"' * 1000
    assert len(foreign_text.parse_foreign_json(json.dumps([long]), most_values=2)[0]) == len(long)
    with pytest.raises(foreign_text.ForeignTextError, match="values"):
        foreign_text.parse_foreign_json('["\\\\",1,2,3]', most_values=3)


@pytest.mark.parametrize(
    "text", ['"\\ud800"', '"a\\uDfFf"', '{"\\udcff": ["\\udcff"]}', '"\udcff"']
)
def test_half_surrogates_can_be_printed_afterwards(text: str) -> None:
    found = foreign_text.parse_foreign_json(text)
    assert json.dumps(found, ensure_ascii=False).encode()


def test_whole_surrogate_pairs_stay() -> None:
    assert foreign_text.parse_foreign_json('"\\ud83d\\ude00"') == "\U0001f600"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("65535", 65535),
        ("007", 7),
        ("-1", None),
        ("²", None),
        ("٣", None),
        ("1_0", None),
        (" 1", None),
        ("1\n", None),
        ("", None),
        ("9" * 5000, None),
        (str(2**64), None),
        (None, None),
        (5, None),
    ],
)
def test_decimal_takes_ascii_digits_in_bounds_only(text: Any, number: int | None) -> None:
    assert foreign_text.parse_decimal(text) == number


def test_decimal_has_the_bounds_that_are_asked_for() -> None:
    assert foreign_text.parse_decimal("70000", 65535) is None
    assert foreign_text.parse_decimal("-1", least=-1) == -1
    assert foreign_text.parse_decimal("-2", least=-1) is None
