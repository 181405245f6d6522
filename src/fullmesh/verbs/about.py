"""The verbs ``help`` and ``version``."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import sys
from typing import Any

from fullmesh import __version__
from fullmesh.catalogue import VERBS, add_verb, render_overview
from fullmesh.printed import print_text
from fullmesh.settings import ROOT

OK = 0
TORCH_LOCKS = ROOT / "roles/torch_runtime/files"


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add both verbs."""
    parser = add_verb(verbs, "help")
    parser.add_argument("words", nargs="*", metavar="VERB", help="a verb (default: list all verbs)")
    parser.set_defaults(func=print_overview, offer_words=lambda: list(VERBS))
    parser = add_verb(verbs, "version")
    parser.add_argument("--json", action="store_true", help="print the versions as JSON")
    parser.set_defaults(func=print_versions)


def print_overview(_args: argparse.Namespace) -> int:
    """Print the overview of ``fullmesh help``. The command line itself answers ``help VERB``."""
    print_text(render_overview().rstrip("\n"))
    return OK


def collect_versions() -> dict[str, Any]:
    """Return the versions of Fullmesh and of the programs that it needs. Empty: not installed."""
    try:
        core = importlib.metadata.version("ansible-core")
    except importlib.metadata.PackageNotFoundError:
        core = ""
    locks = sorted(path.stem.removeprefix("torch-") for path in TORCH_LOCKS.glob("torch-*.txt"))
    return {
        "fullmesh": __version__,
        "python": platform.python_version(),
        "ansible_core": core,
        "torch_locks": locks,
        "path": str(ROOT),
        "executable": sys.executable,
    }


def print_versions(args: argparse.Namespace) -> int:
    """``fullmesh version``."""
    found = collect_versions()
    if args.json:
        print_text(json.dumps(found, indent=2))
        return OK
    print_text(f"fullmesh      {found['fullmesh']} ({found['path']})")
    print_text(f"Python        {found['python']} ({found['executable']})")
    print_text(f"ansible-core  {found['ansible_core'] or 'not installed'}")
    print_text(f"torch locks   {', '.join(found['torch_locks']) or 'none'}")
    return OK
