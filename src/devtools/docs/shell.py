"""``python -m devtools.docs.shell``: completion for bash and zsh and the man page, from the command line's parser."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import shtab

from devtools import testing
from devtools.docs import reference
from fullmesh.cli import build_parser
from fullmesh.settings import ROOT

PLACE = ROOT / "src/fullmesh/shell"
# Options and arguments whose value is a file or a folder.
FILES = ("file", "hosts_file", "inventory", "out", "output", "run", "ssh_config", "to", "to_html")


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser and those below it."""
    yield parser
    found = reference.subparsers(parser)
    for one in found.choices.values() if found else ():
        yield from parsers(one)


def completion(shell: str) -> str:
    """What a shell has to read."""
    parser = build_parser()
    for one in parsers(parser):
        for action in one._actions:
            if (action.dest in FILES or action.metavar == "FILE") and action.nargs != 0:
                action.complete = shtab.FILE  # type: ignore[attr-defined]  # how shtab is told
            elif action.dest == "part":
                # not the parser's own: it takes a name's first words as well
                action.choices = [part.word for stage in testing.parts() for part in stage]
    text = re.sub(r"[ \t]+$", "", shtab.complete(parser, shell), flags=re.MULTILINE)
    if shell != "zsh":
        return text
    # shtab (1.13) writes what may come several times as an exclusion, and zsh completes only the first
    text = re.sub(r'^  "\(\*\)::?', '  "*:', text, flags=re.MULTILINE)
    return own_commands(text, parser, f"_shtab_{parser.prog}")


def own_commands(text: str, parser: argparse.ArgumentParser, prefix: str) -> str:
    """Completion for zsh without what does not belong there.

    shtab (1.13) counts the commands below a command's commands among its own, and gives those of one name their help:
    ``lab ssh`` for ``lab vm ssh``.
    """
    found = reference.subparsers(parser)
    for name, one in found.choices.items() if found else ():
        own, below = reference.subparsers(one), f"{prefix}_{name.replace('-', '_')}"
        if own is None:
            continue
        told = "\n".join(
            f"    {shlex.quote(word)}:{shlex.quote(child.description or '')}"
            for word, child in sorted(own.choices.items())
        )
        head, start, rest = text.partition(f"{below}_commands() {{\n  local _commands=(\n")
        text = head + start + told + rest[rest.index("\n  )\n") :]
        head, start, rest = text.partition(f"\n{below}() {{\n")
        body, end, rest = rest.partition("\n}\n")
        foreign = [
            line
            for line in body.splitlines()
            if (case := re.match(r" {8}([\w-]+)\) ", line)) and case[1] not in own.choices
        ]
        body = "\n".join(line for line in body.splitlines() if line not in foreign)
        text = own_commands(head + start + body + end + rest, one, below)
    return text


def manual() -> str:
    """The man page, by Sphinx from the page of the commands.

    Raises:
        RuntimeError: Sphinx refused it.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "source")
        (source / "reference").mkdir(parents=True)
        (source / "reference/commands.md").write_text(reference.commands(), encoding="utf-8")
        words = f"--quiet --builder man --define root_doc=reference/commands --conf-dir {Path(__file__).parent}"
        command = [sys.executable, "-m", "sphinx", *words.split(), str(source), folder]
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(command, env=env, check=False, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{done.stdout}{done.stderr}")
        return Path(folder, "fullmesh.1").read_text(encoding="utf-8")


MADE = {
    "fullmesh.bash": lambda: completion("bash"),
    "_fullmesh": lambda: completion("zsh"),
    "fullmesh.1": manual,
}


def main() -> int:
    """Write all three."""
    for name, make in MADE.items():
        (PLACE / name).write_text(make(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
