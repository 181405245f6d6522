"""The options of every verb that runs a playbook in front of the user."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

AUTO, PLAIN, JSON = "auto", "plain", "json"
# Whoever gives one of these to ansible-playbook wants to read what it prints, or to answer it.
ANSIBLES_OWN = re.compile(
    r"^(-v+|--verbose|-D|--diff|-h|--help|--version|--step|--syntax-check|--list-(hosts|tags|tasks))$"
)


def add(parser: argparse.ArgumentParser) -> None:
    """Add them."""
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="everything, as Ansible prints it"
    )
    parser.add_argument(
        "--progress",
        choices=(AUTO, PLAIN, JSON),
        default=AUTO,
        help="auto: a live view on a terminal, else plain lines; json: a line for each event (docs/progress.md)",
    )
    parser.add_argument(
        "more",
        nargs=argparse.REMAINDER,
        help="after --: options for ansible-playbook (--check, --limit …)",
    )


def words(args: argparse.Namespace) -> list[str]:
    """What stands after ``--``."""
    more = list(args.more)
    return more[1:] if more[:1] == ["--"] else more


def raw(args: argparse.Namespace) -> bool:
    """Whether the user is to see what Ansible prints."""
    return bool(args.verbose) or asks_for_output(words(args))


def asks_for_output(more: Sequence[str]) -> bool:
    """Whether an option of ansible-playbook is about its output."""
    return any(ANSIBLES_OWN.match(word) for word in more)
