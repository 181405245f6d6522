"""The verb ``completion``."""

from __future__ import annotations

import argparse
import sys
from importlib import resources

OK = 0
FILES = {"bash": "fullmesh.bash", "zsh": "_fullmesh"}
HOW = """\
bash: source <(fullmesh completion bash), or keep it as ~/.local/share/bash-completion/completions/fullmesh.
zsh: keep it as _fullmesh in a folder of $fpath. An installed package has put both, and the man page, below its
prefix's share/.
"""


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    text = "print what lets a shell complete this command"
    parser = verbs.add_parser("completion", help=text, description=f"{text}. {HOW}")
    parser.add_argument("shell", choices=tuple(FILES), help="which shell")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Print the file."""
    sys.stdout.write(resources.files(__package__).joinpath(FILES[args.shell]).read_text("utf-8"))
    return OK
