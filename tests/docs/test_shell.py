"""Completion and the man page: they are what the parser of today says, and a real shell completes with them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from devtools.docs import shell

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", shell.MADE)
def test_the_file_is_what_is_made_today(name: str) -> None:
    """Else: python -m devtools.docs.shell."""
    assert (shell.PLACE / name).read_text() == shell.MADE[name]()


def completed(line: str) -> list[str]:
    """What a real bash offers for a line, after the words of ``fullmesh completion bash``."""
    said = subprocess.run(
        [sys.executable, "-m", "fullmesh", "completion", "bash"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    script = (
        f"{said}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; COMP_LINE='{line}'\n"
        "function=$(complete -p fullmesh | sed 's/.*-F \\([^ ]*\\).*/\\1/')\n"
        'COMPREPLY=(); "$function" fullmesh "${COMP_WORDS[COMP_CWORD]}" ""; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    bash = ["bash", "--norc", "-c", script]
    return subprocess.run(bash, check=True, capture_output=True, text=True).stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("./fullmesh ver", ["verify"]),
        ("./fullmesh diagnose --dead", ["--deadline"]),
        ("./fullmesh completion z", ["zsh"]),
        ("./fullmesh lab d", ["down"]),
        ("./fullmesh test end-to-end-bi", ["end-to-end-bisect"]),
        ("./fullmesh test molecule-time_sync san", ["sanity"]),
    ],
)
def test_bash_completes(line: str, offered: list[str]) -> None:
    assert completed(line) == offered


def test_man_reads_the_page() -> None:
    """groff names what it does not understand."""
    page = shell.PLACE / "fullmesh.1"
    command = ["groff", "-man", "-Kutf8", "-Tutf8", "-ww", "-P-cbou", str(page)]
    try:
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("no groff here")
    assert [
        line for line in done.stderr.splitlines() if "adjust" not in line and "break" not in line
    ] == []
    assert "FULLMESH DIAGNOSE" in done.stdout
