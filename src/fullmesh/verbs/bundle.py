"""The verb ``bundle``."""

from __future__ import annotations

import argparse
from pathlib import Path

from fullmesh.catalogue import add_verb
from fullmesh.play import options
from fullmesh.verbs.checkout import run_checkout_playbook


def make_bundle(args: argparse.Namespace) -> int:
    """Run the playbook that gathers and packs."""
    target = Path(args.output).resolve()
    args.more = ["-e", f"__bundle_path={target}", *options.list_ansible_words(args)]
    return run_checkout_playbook("playbooks/bundle.yml", args)


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "bundle")
    options.add_inventory_option(
        parser, "hosts that reach their package sources, one of each kind of node"
    )
    parser.add_argument(
        "-o", "--output", default="fullmesh-bundle.tar", help="the archive to write"
    )
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")
    options.add_playbook_options(parser, (*options.CONNECT, *options.RUN))
    parser.set_defaults(func=make_bundle)
