"""Test completion in a real zsh: its completion system runs on a terminal and gets a Tab."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from devtools.lab import host, paths
from fullmesh.cli import build_parser
from fullmesh.shell.commands import find_subparsers

ROOT = Path(__file__).parents[2]
SECONDS = 120
# The completion system offers its candidates through compadd, which is wrapped to record them.
INSIDE = """\
fpath=(HERE $fpath)
autoload -Uz compinit
compinit -u -d HERE/dump
compadd() {
  local -a offered
  # with one of these it fills an array for its caller and offers nothing
  if [[ ${@[1,(i)(-|--)]} != *-(O|A|D)\\ * ]]; then
    builtin compadd -A offered "$@"
    print -rl -- $offered >> HERE/offered
  fi
  builtin compadd "$@"
}
over() { : > HERE/over }
zle -N over
bindkey '^Xo' over
: > HERE/ready
"""
# An interactive zsh on a terminal (zpty). It gets the line, a Tab, and a key that marks the end.
OUTSIDE = """\
zmodload zsh/zpty
zpty -b inner env ZDOTDIR=HERE TERM=xterm zsh -i
wait_for() {
  local -i tries=0
  while [[ ! -e HERE/$1 ]] && (( tries++ < SECONDS * 20 )); do
    zpty -r inner words 2> /dev/null
    sleep 0.05
  done
  [[ -e HERE/$1 ]]
}
wait_for ready && zpty -wn inner "$1"$'\\t'$'\\x18o' && wait_for over
"""


@pytest.fixture(scope="module")
def zsh() -> str:
    """Install zsh as the lab installs its tools."""
    if not shutil.which("zsh"):
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            pytest.skip("no zsh here, and installing it takes root and apt-get")
        host.ensure_packages(paths.find(), {"zsh": "zsh"})
    return "zsh"


def offered(zsh: str, here: Path, line: str) -> set[str]:
    """Return zsh's completions after a line, with the file of ``fullmesh completion zsh``."""
    said = subprocess.run(
        ["./fullmesh", "completion", "zsh"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    (here / "_fullmesh").write_text(said)
    (here / ".zshrc").write_text(INSIDE.replace("HERE", str(here)))
    (here / "offered").touch()
    script = OUTSIDE.replace("HERE", str(here)).replace("SECONDS", str(SECONDS))
    # zsh calls the command itself
    env = {**os.environ, "PATH": f"{ROOT}:{os.environ['PATH']}"}
    command = [zsh, "-f", "-c", script, "outside", line]
    done = subprocess.run(command, cwd=here, env=env, check=False, timeout=3 * SECONDS)
    assert done.returncode == 0, f"{line}: zsh did not come to an end"
    return {word for word in (here / "offered").read_text().splitlines() if word}


def below(parser: argparse.ArgumentParser, *names: str) -> Mapping[str, argparse.ArgumentParser]:
    """Return the subcommands of a command."""
    found = find_subparsers(parser)
    assert found
    return below(found.choices[names[0]], *names[1:]) if names else found.choices


@pytest.mark.rest
@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("fullmesh ", set(below(build_parser()))),
        ("fullmesh ver", {"verify", "version"}),
        ("fullmesh lab ", set(below(build_parser(), "lab"))),
        ("fullmesh lab vm ", set(below(build_parser(), "lab", "vm"))),
        ("fullmesh completion ", {"bash", "zsh"}),
        (
            "fullmesh test --",
            {"--all", "--elapsed", "--fast", "--help", "--list", "--record", "--shard"},
        ),
        ("fullmesh test end-to-end-bi", {"end-to-end-bisect"}),
        ("fullmesh test sanity molecule-ti", {"molecule-time_sync"}),
        ("fullmesh diagnose --dead", {"--deadline"}),
        ("fullmesh apply --progress ", {"auto", "plain", "json"}),
    ],
)
def test_zsh_completes(zsh: str, tmp_path: Path, line: str, wanted: set[str]) -> None:
    assert offered(zsh, tmp_path, line) == wanted


@pytest.mark.rest
def test_a_file_is_offered_where_an_option_takes_one(zsh: str, tmp_path: Path) -> None:
    (tmp_path / "inventory.yml").touch()
    assert offered(zsh, tmp_path, "fullmesh apply -i inv") == {"inventory.yml"}
    assert offered(zsh, tmp_path, "fullmesh explain-log rank0.log inv") == {"inventory.yml"}
