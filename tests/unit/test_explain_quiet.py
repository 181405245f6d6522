"""The search that skips repeating lines finds the same as a full search."""

from __future__ import annotations

import random

import pytest
from test_explain_log import RECORDED, list_folded, list_harmless, list_heads

from fullmesh.causes.logs import ExplainOptions
from fullmesh.explain import judge, quiet, reader

NEEDLES = sorted(needle for group in judge.SEARCHED.values() for needle in group)


def block_of(text: str) -> reader.Block:
    return reader.Block(text, 0, len(text), 1)


def test_every_needle_is_found_in_a_line_of_any_shape() -> None:
    lines = quiet.QuietLines(judge.SEARCHED)
    for needle in NEEDLES:
        for text in (f"{needle}\n", f"step 7 {needle} x\n", f"x\r{needle}\rx\n"):
            assert needle in lines.find_needles(block_of(text)), text


def test_a_shape_that_is_known_to_be_quiet_is_not_searched_again() -> None:
    lines = quiet.QuietLines({"": ["Error: ", "4126", "pair.cc:144"]})
    assert lines.find_needles(block_of("step 1 of 90\n")) == frozenset()
    assert lines.new == len("step  of ") + len("\n")
    assert lines.find_needles(block_of("step 22 of 90\nstep 23 of 90\n")) == frozenset()
    assert lines.new == len("step  of ") + len("\n")
    assert lines.find_needles(block_of("step 23 of 90\nError: 5\n")) == {"Error: "}
    assert lines.find_needles(block_of("Err7or: 5\n")) == {"Error: "}  # searched in vain
    new = lines.new
    assert lines.find_needles(block_of("Error: 6\n")) == {"Error: "}
    assert lines.new == new
    assert lines.find_needles(block_of("code 4126\n")) == {"4126"}
    assert lines.find_needles(block_of("pair.cc:9\n")) == {"pair.cc:144"}
    same = quiet.QuietLines({"": ["status 12", "status 13"]})
    assert same.find_needles(block_of("status 5\n")) == {"status 12", "status 13"}


def test_a_piece_of_a_line_is_searched_for_everything() -> None:
    lines = quiet.QuietLines({"": ["Error: "]})
    assert lines.find_needles(block_of("a line that goes on")) is lines.every


def test_lines_that_do_not_repeat_are_searched_as_before() -> None:
    lines = quiet.QuietLines({"": ["Error: "]})
    draw = random.Random(1)  # noqa: S311 (no secret)
    for _ in range(200):
        text = "".join(f"{draw.randbytes(20).hex()}x\n".translate(NO_DIGITS) for _ in range(2500))
        lines.find_needles(block_of(text))
    assert not lines.is_useful
    assert len(lines.quiet) + len(lines.loud) <= quiet.MOST_SHAPES
    assert lines.find_needles(block_of("x\n")) is lines.every


NO_DIGITS = str.maketrans("0123456789", "ghijklmnop")


def explain_text(text: str, *, is_useful: bool) -> tuple[list[str], ...]:
    tally = judge.Tally(ExplainOptions())
    tally.quiet.is_useful = is_useful
    pieces = [text[at : at + 700] for at in range(0, len(text), 700)]
    for block in reader.split_blocks(iter(pieces)):
        tally.take("log", block)
    verdict = judge.judge_logs(tally)
    shown = [f"{line.line}: {line.text}" for head in verdict.heads for line in head.evidence]
    return list_heads(verdict), list_folded(verdict), list_harmless(verdict), shown


@pytest.mark.parametrize("case", RECORDED)
def test_both_searches_give_the_same_answer(case: str) -> None:
    steps = "".join(f"[rank3]: step {n} loss {n}.5 in {n} s\n" for n in range(90))
    text = steps + RECORDED[case].text + "\n" + steps
    assert explain_text(text, is_useful=True) == explain_text(text, is_useful=False)
