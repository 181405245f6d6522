"""Films and the recorded hour: they are what the recordings say, and a recording is what a terminal showed."""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from devtools.docs import cast, film, hour, recording
from devtools.docs.pictures import PICTURES

# A line that is drawn over twice, as a progress line is, then colours.
SCRIPT = (
    "import time\n"
    "for step in (1, 2, 3):\n"
    "    print(f'\\rstep {step} <&>', end='', flush=True); time.sleep(0.5)\n"
    "print('\\n\\x1b[1;31mred\\x1b[0m plain ✓')\n"
    "raise SystemExit(3)"
)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> cast.Cast:
    """A small program on a terminal."""
    folder = tmp_path_factory.mktemp("recorded")
    typed = cast.TypedCommand([sys.executable, "-c", SCRIPT], "./steps")
    return cast.record(typed, (40, 10), folder, {})


def test_a_recording_has_what_was_printed_and_when(recorded: cast.Cast, tmp_path: Path) -> None:
    assert recorded.code == 3
    assert 1.4 < recorded.seconds < 30
    assert film.text(recorded) == "step 3 <&>\nred plain ✓"
    (tmp_path / "one.cast").write_text(recorded.dump())
    again = cast.load(tmp_path / "one.cast")
    assert film.text(again) == film.text(recorded)
    assert (again.typed, again.code, again.width) == ("./steps", 3, 40)


def test_a_film_shows_each_screen_and_ends_with_the_last(recorded: cast.Cast) -> None:
    made = film.svg(recorded, 10)
    ET.fromstring(made)  # noqa: S314 (made here)
    words = re.findall(r">([^<>]+)</text>", made)
    assert {"step 1 &lt;&amp;&gt;", "step 2 &lt;&amp;&gt;", "step 3 &lt;&amp;&gt;"} <= set(words)
    assert 'fill="#ff7b72" class="b">red<' in made
    shown = film.screens(recorded, 10)
    last = -(len(shown) - 1) * (40 * 8 + 28)
    # who wants no motion sees the end
    assert (
        f"prefers-reduced-motion:reduce){{#strip{{animation:none;transform:translateX({last}px)"
        in made
    )
    assert "<script" not in made
    assert [one.at for one in shown] == sorted(one.at for one in shown)


def test_a_wait_is_cut_and_nothing_else(recorded: cast.Cast) -> None:
    long = cast.Cast("x", 40, 10, [(0.1, "a"), (60.0, "b"), (60.4, "c")], 0)
    times = [one.at for one in film.screens(long, 10)][-3:]
    assert times[1] - times[0] == pytest.approx(film.LONGEST)
    assert times[2] - times[1] == pytest.approx(0.4)


def test_a_long_recording_is_shown_faster_and_says_so() -> None:
    long = cast.Cast("x", 40, 10, [(n / 2, f"line {n}\r\n") for n in range(1, 241)], 0)
    shown = film.screens(long, 10)
    assert film.WHOLE < shown[-1].at < film.WHOLE + 3
    assert "120 seconds, shown 4 times faster" in film.svg(long, 10)


@pytest.mark.parametrize("raw", [b"\xe2\x9c", b"abc\xe2", "✓".encode(), b"abc"])
def test_a_character_that_comes_in_two_reads_is_one(raw: bytes) -> None:
    text, rest = cast.split(raw)
    assert text.encode() + rest == raw


def test_a_question_is_answered(tmp_path: Path) -> None:
    asks = [sys.executable, "-c", "print('got', input('Continue? y or n [n]: '))"]
    made = cast.record(cast.TypedCommand(asks, "./asks", "y"), (60, 10), tmp_path, {})
    assert made.code == 0
    assert "got y" in film.text(made)


@pytest.mark.parametrize("name", recording.FILMS)
def test_a_film_of_the_site_is_made_from_its_recording(name: str) -> None:
    """Else: python -m devtools.docs.recording anew."""
    kept = cast.load(recording.RECORDINGS / f"{name}.cast")
    assert (PICTURES / f"{name}.svg").read_text() == film.svg(kept, recording.FILMS[name])


def test_the_hour_is_what_was_recorded() -> None:
    done = hour.load(recording.HOUR.read_text())
    assert recording.PAGE.read_text() == hour.page(done)
    for step in hour.STEPS:
        assert done[step.name].typed == step.typed
        assert done[step.name].code == step.code
    assert "[DG-113]" in done["diagnose"].text
    # the page says that this is the finding's own fix, and that another command follows
    assert "nft delete rule inet mine" in done["diagnose"].text
    assert "OK: 2 nodes" in done["apply"].text


def test_no_recording_names_the_machine_it_was_made_on() -> None:
    for path in recording.RECORDINGS.iterdir():
        assert not re.search(r"(?:/tmp|/home|/root|/work)/", path.read_text()), path
