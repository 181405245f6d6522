"""Completion in a real bash, and the man page in groff."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fullmesh.shell.commands import render_manual

ROOT = Path(__file__).parents[2]


def completed(line: str) -> list[str]:
    """Return the completions of a real bash for a line, after ``fullmesh completion bash``."""
    said = subprocess.run(
        ["./fullmesh", "completion", "bash"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    script = (
        f"{said}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; COMP_LINE='{line}'\n"
        "function=$(complete -p fullmesh | sed 's/.*-F \\([^ ]*\\).*/\\1/')\n"
        'COMPREPLY=(); "$function" fullmesh "${COMP_WORDS[COMP_CWORD]}" ""; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    bash = ["bash", "--norc", "-c", script]
    done = subprocess.run(bash, cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("./fullmesh veri", ["verify"]),
        ("./fullmesh diagnose --dead", ["--deadline"]),
        ("./fullmesh completion z", ["zsh"]),
        ("./fullmesh lab d", ["down"]),
        ("./fullmesh test end-to-end-bi", ["end-to-end-bisect"]),
        ("./fullmesh test molecule-time_sync san", ["sanity"]),
        ("./fullmesh apply --progress pl", ["plain"]),
        ("./fullmesh explain-log rank0.log x", []),
    ],
)
def test_bash_completes(line: str, offered: list[str]) -> None:
    assert completed(line) == offered


def test_man_reads_the_page() -> None:
    """groff names what it does not understand."""
    command = ["groff", "-man", "-Kutf8", "-Tutf8", "-ww", "-P-cbou"]
    page = render_manual()
    try:
        done = subprocess.run(command, input=page, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("no groff here")
    assert [
        line for line in done.stderr.splitlines() if "adjust" not in line and "break" not in line
    ] == []
    assert "FULLMESH DIAGNOSE" in done.stdout
