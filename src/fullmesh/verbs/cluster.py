"""The verbs that run a playbook on the nodes of an inventory: ``apply``, ``verify``, ``plan`` and ``undo``."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from fullmesh.catalogue import add_verb, warn_old_spelling
from fullmesh.faults import InvalidInputError
from fullmesh.play import options
from fullmesh.printed import print_text
from fullmesh.verbs.checkout import print_refusal, run_checkout_playbook

PROBLEM = 1
# Options of single verbs. An empty help marks an old spelling.
FLAGS = {
    "apply": {"--dry-run": "preview the changes, as plan does, and change nothing"},
    "verify": {
        "--bisect": "find the node that makes collectives slow or wrong, in at most log2 N + 1 runs of groups of nodes"
    },
    "plan": {"--offline": "print the cluster plan of the inventory, without contacting a node"},
    "undo": {
        "--dry-run": "preview the changes, and change nothing",
        "--plan": "",
        "--yes": "do not ask (required without a terminal)",
    },
}


def run_apply(args: argparse.Namespace) -> int:
    """``fullmesh apply``."""
    if args.dry_run:
        return preview_apply(args)
    return run_checkout_playbook("site.yml", args, preview="plan")


def preview_apply(args: argparse.Namespace) -> int:
    """Preview the changes of ``apply``."""
    # a node that is not configured yet cannot be verified
    return run_checkout_playbook("site.yml", args, ["--skip-tags", "verify"])


def run_plan(args: argparse.Namespace) -> int:
    """``fullmesh plan``."""
    if args.offline and args.json:
        return print_offline_plan(args)
    if args.offline:
        args.verbose = True  # its output is the plan
        return run_checkout_playbook("playbooks/show_plan.yml", args)
    return preview_apply(args)


def print_offline_plan(args: argparse.Namespace) -> int:
    """Print the cluster plan as JSON."""
    with tempfile.TemporaryDirectory(prefix="fullmesh-plan-") as folder:
        path = Path(folder) / "plan.json"
        args.more = [*options.list_ansible_words(args), "-e", json.dumps({"plan_file": str(path)})]
        words = {**vars(args), "json": False, "progress": options.PLAIN}
        code = run_checkout_playbook("playbooks/show_plan.yml", argparse.Namespace(**words))
        if path.is_file():
            print_text(json.dumps(json.loads(path.read_text(encoding="utf-8")), indent=2))
        return code


def run_verify(args: argparse.Namespace) -> int:
    """``fullmesh verify``."""
    if args.bisect:
        args.more = [*options.list_ansible_words(args), "-e", '{"verify_cluster_bisect": true}']
    return run_checkout_playbook("playbooks/verify.yml", args)


def run_undo(args: argparse.Namespace) -> int:
    """``fullmesh undo``."""
    from fullmesh.verbs import playbook  # noqa: PLC0415 (msgspec is slow to import; other verbs go without)

    name = "playbooks/undo.yml"
    if args.plan:
        warn_old_spelling("undo --plan", "undo --dry-run")
    only_shows = args.plan or args.dry_run
    words = options.list_ansible_words(args)
    if not only_shows and not args.yes and not options.has_preview_option(words):
        try:
            if not playbook.confirm_undo(name, str(options.find_inventory(args.inventory)), args):
                return PROBLEM
        except InvalidInputError as error:
            return print_refusal(error)
    return run_checkout_playbook(name, args, [] if only_shows else None)


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verbs."""
    taken = (*options.CONNECT, *options.RUN, *options.TASKS)
    for name, func in (
        ("plan", run_plan),
        ("apply", run_apply),
        ("undo", run_undo),
        ("verify", run_verify),
    ):
        parser = add_verb(verbs, name)
        options.add_inventory_option(parser)
        parser.add_argument("--json", action="store_true", help="print the outcome as JSON")
        for flag, text in FLAGS[name].items():
            parser.add_argument(flag, action="store_true", help=text or argparse.SUPPRESS)
        options.add_playbook_options(
            parser, [one for one in taken if name != "plan" or one is not options.CHECK]
        )
        parser.set_defaults(func=func)
