"""``python3 -m devtools.lab up``: the lab without the rest of the command line."""

from __future__ import annotations

import argparse
import sys

from devtools.lab.cli import add_verbs


def main() -> int:
    """Parse the arguments as ``fullmesh lab ...`` would and run the command."""
    parser = argparse.ArgumentParser(prog="python3 -m devtools.lab")
    add_verbs(parser.add_subparsers(required=True))
    args = parser.parse_args(["lab", *sys.argv[1:]])
    code: int = args.func(args)
    return code


if __name__ == "__main__":
    sys.exit(main())
