"""``fullmesh docs``: build the site, and open it."""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import subprocess
import sys
import time
import webbrowser
from pathlib import Path

from devtools.docs import links, tree, versions
from fullmesh.catalogue import add_verb
from fullmesh.settings import ROOT

OK, PROBLEM, USAGE = 0, 1, 2
CONF = Path(__file__).parent


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb ``docs``."""
    parser = add_verb(verbs, "docs")
    parser.add_argument("--no-open", action="store_true", help="build only")
    parser.add_argument(
        "--check",
        action="store_true",
        help="build from scratch; a warning or broken internal link is an error; open nothing",
    )
    parser.add_argument(
        "--versions",
        action="store_true",
        help="build a site with this version and with the newest release of each minor version; open nothing",
    )
    parser.set_defaults(func=run)


def sphinx(builder: str, to: Path, *more: str) -> int:
    """Run Sphinx; its exit code."""
    words = [builder, "--conf-dir", str(CONF), "--doctree-dir", str(tree.PLACE / "doctrees")]
    command = [sys.executable, "-m", "sphinx", "--quiet", "--builder", *words, *more]
    return subprocess.run([*command, str(tree.SOURCE), str(to)], cwd=ROOT, check=False).returncode


def run_versions() -> int:
    """Build the site of all versions. Return 0 if it was built."""
    try:
        built = versions.build_versions()
    except (OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(
            f"fullmesh: [CL-192] The site of all versions cannot be built: {error}. Fix: correct what the output"
            " above names. It needs git, and a checkout with the tags of the releases.\n"
        )
        return PROBLEM
    sys.stdout.write(f"{versions.SITE}: {', '.join(built)}\n")
    return OK


def run(args: argparse.Namespace) -> int:
    """Build it; 0 when it was built."""
    if importlib.util.find_spec("sphinx") is None:
        sys.stderr.write(
            "fullmesh: [CL-190] Sphinx is not installed. Fix: run ./fullmesh docs, which installs it.\n"
        )
        return USAGE
    started = time.monotonic()
    if args.versions:
        return run_versions()
    if args.check:
        shutil.rmtree(tree.PLACE, ignore_errors=True)
    tree.write({**tree.contents(), **tree.of_collection()}, tree.SOURCE)
    strict = ("--fail-on-warning", "--keep-going") if args.check else ()
    if sphinx("html", tree.HTML, *strict):
        return PROBLEM
    if args.check and (found := list(links.broken(tree.HTML))):
        sys.stderr.write("".join(f"{one}\n" for one in found))
        return PROBLEM
    first = tree.HTML / "docs/index.html"
    sys.stdout.write(f"{first} ({time.monotonic() - started:.0f} s)\n")
    if not args.no_open and not args.check:
        webbrowser.open(first.as_uri())
    return OK
