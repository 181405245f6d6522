"""Run a playbook of this checkout for a verb, or report why it cannot run."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from fullmesh.faults import Fault, InvalidInputError
from fullmesh.play import options
from fullmesh.printed import print_error

USAGE = 2


def print_refusal(error: InvalidInputError) -> int:
    """Write the reasons to standard error, and return the exit code."""
    for fault in error.faults:
        print_error(f"fullmesh: {fault}")
    return USAGE


def run_checkout_playbook(
    name: str,
    args: argparse.Namespace,
    foresee: Sequence[str] | None = None,
    *,
    preview: str = "",
) -> int:
    """Run a playbook of this checkout. Failures of ansible-playbook become exit code 1.

    Args:
        name: its path in the checkout.
        args: of the verb.
        foresee: options with which it only previews the changes. None to run it.
        preview: the verb, with its options, that previews the changes.
    """
    from fullmesh.verbs import playbook  # noqa: PLC0415 (msgspec is slow to import; other verbs go without)

    try:
        if getattr(args, "json", False) and options.needs_raw_output(args):
            text = "--json cannot be combined with options that print Ansible's own output"
            step = "Leave out --json, or -v, --diff and --list-..."
            raise InvalidInputError([Fault("CL-126", text, step)])
        inventory = str(options.find_inventory(args.inventory))
        if foresee is None:
            return playbook.run_playbook_verb(name, inventory, args, preview=preview)
        return playbook.preview_playbook(name, inventory, args, foresee)
    except InvalidInputError as error:
        return print_refusal(error)
