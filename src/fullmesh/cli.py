"""The command line: thin verbs over ansible-playbook and the lab.

Exit codes: 0 all well, 1 a problem was found, 2 usage or environment.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence

from fullmesh import __version__
from fullmesh.faults import InvalidInputError
from fullmesh.play import options
from fullmesh.printed import print_error
from fullmesh.settings import IN_CHECKOUT, ROOT
from fullmesh.verbs.checkout import print_refusal, run_checkout_playbook

OK, PROBLEM, USAGE = 0, 1, 2

# Verb -> the module that adds it. A diagnosis takes seconds, and loading all of them takes a tenth of one.
MODULES = {
    "demo": "devtools.demo",
    "init": "fullmesh.verbs.init",
    "test": "devtools.testing",
    "lab": "devtools.lab.cli",
    "explain": "fullmesh.verbs.explain",
    "explain-log": "fullmesh.verbs.explain",
    "diagnose": "fullmesh.verbs.diagnose",
    "report": "fullmesh.verbs.report",
    "bundle": "fullmesh.verbs.bundle",
    "torch-lock": "fullmesh.roles.torch_locks",
    "collection": "devtools.collection",
    "dev": "devtools.dev",
    "docs": "devtools.docs.cli",
    "completion": "fullmesh.shell.cli",
    "watch": "fullmesh.verbs.watch",
    "hang": "fullmesh.verbs.hang",
}

# What an installed package can do by itself: it has no roles, no playbooks and no developers' tools.
ALONE = ("completion", "explain", "explain-log", "report")

# Options of single verbs.
FLAGS = {
    "verify": {
        "--bisect": "find the node that makes collectives slow or wrong, in at most log2 N + 1 runs of groups of nodes"
    },
    "plan": {"--offline": "print the cluster plan that the inventory gives; contacts no node"},
    "undo": {
        "--plan": "show what undo would change; changes nothing",
        "--yes": "do not ask; needed where no terminal can answer",
    },
}
CODES = {
    "CL-101": "a system package is missing and cannot be installed from here",
    "CL-102": "apt-get failed",
    "CL-103": "no Python 3.11 to 3.14",
    "CL-104": "pip could not install the locked requirements",
    "CL-105": "another fullmesh holds the virtual environment's lock",
    "CL-106": "The inventory does not exist",
    "CL-107": "no run to report on",
    "CL-108": "a test part or scenario that does not exist",
    "CL-109": "a code that does not exist",
    "CL-110": "A log cannot be read",
    "CL-111": "a data range on the command line that is none",
    "CL-112": "a diagnosis that Ansible or the deadline ended",
    "CL-113": "a verb that needs the roles and playbooks of a checkout",
    "CL-114": "a file that is no result of this version",
    "CL-115": "a lock of torch that cannot be made",
    "CL-116": "runs that are not of one cluster and cannot be merged",
    "CL-117": "The command names no inventory, and there is no default one",
    "CL-118": "`undo` runs without a terminal that can answer its question, and without `--yes`",
    "CL-119": "The verb does not have this option or argument",
    "CL-120": "Ansible cannot list the nodes of the inventory",
    "CL-122": "A log is packed in a form that cannot be unpacked",
    "CL-123": "A file that was given as a log is not text",
    "CL-124": "The deadline on the command line is not above 0",
    "CL-190": "the documentation cannot be built without Sphinx",
    "CL-191": "more runs than can be compared",
}


class VerbParser(argparse.ArgumentParser):
    """A parser that names the verb and the nearest option when it does not know one.

    What follows ``--`` goes to ansible-playbook where the verb has its options (``options.add_ansible_options``).
    """

    def parse_known_args(  # type: ignore[override]  # the base class has overloads for other namespaces
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse the words of this parser, and refuse those that it does not know."""
        words, after = list(sys.argv[1:] if args is None else args), []
        passes_on = self.get_default("more") is not None
        if passes_on and "--" in words:
            at = words.index("--")
            words, after = words[:at], words[at + 1 :]
        found, unknown = super().parse_known_args(words, namespace)
        if unknown:
            self.error(self.describe_unknown(unknown[0]))
        if passes_on:
            found.more = [*found.more, *after]
        return found, []

    def describe_unknown(self, word: str) -> str:
        """Say that this parser does not know a word, and what it would take."""
        kind = "option" if word.startswith("-") else "argument"
        text = f"[CL-119] Unknown {kind}: {word}."
        names = difflib.get_close_matches(word.partition("=")[0], self._option_string_actions, 1)
        if names and kind == "option":
            text += f" Did you mean {names[0]}?"
        return f"{text} Check: ./{self.prog} --help."


def _run_apply(args: argparse.Namespace) -> int:
    return run_checkout_playbook("site.yml", args, preview="plan")


def _run_verify(args: argparse.Namespace) -> int:
    if args.bisect:
        args.more = [*options.list_ansible_words(args), "-e", '{"verify_cluster_bisect": true}']
    return run_checkout_playbook("playbooks/verify.yml", args)


def _run_plan(args: argparse.Namespace) -> int:
    if args.offline:
        args.verbose = True  # the plan is what it prints
        return run_checkout_playbook("playbooks/show_plan.yml", args)
    # a node that is to be configured cannot be verified yet
    return run_checkout_playbook("site.yml", args, ["--skip-tags", "verify"])


def _run_undo(args: argparse.Namespace) -> int:
    from fullmesh.verbs import playbook  # noqa: PLC0415 (msgspec is slow to import; other verbs go without)

    name = "playbooks/undo.yml"
    if (
        not args.plan
        and not args.yes
        and not options.has_preview_option(options.list_ansible_words(args))
    ):
        try:
            if not playbook.confirm_undo(name, str(options.find_inventory(args.inventory)), args):
                return PROBLEM
        except InvalidInputError as error:
            return print_refusal(error)
    return run_checkout_playbook(name, args, [] if args.plan else None)


def _write_lock_files(_args: argparse.Namespace) -> int:
    flags = "--universal --generate-hashes --no-header --no-emit-index-url --no-emit-find-links"
    same = ["-c", "requirements.txt"]
    both = [*same, "-c", "requirements-ec2.txt"]
    # the oldest Python that each is for: the controller's, and a node's
    locks: tuple[tuple[str, str, list[str]], ...] = (
        ("requirements", "3.11", []),
        ("requirements-ec2", "3.11", same),
        ("requirements-docs", "3.11", same),
        ("requirements-dev", "3.11", [*both, "-c", "requirements-docs.txt"]),
        ("requirements-reliability", "3.11", [*both, "-c", "requirements-dev.txt"]),
        ("tests/support/requirements-nodes", "3.9", []),
        ("tests/support/requirements-navigator", "3.11", ["-c", "requirements-dev.txt"]),
    )
    for name, python, more in locks:
        command = ["uv", "pip", "compile", "--quiet", *flags.split(), "--python-version", python]
        command += [*more, f"{name}.in", "-o", f"{name}.txt"]
        done = subprocess.run(command, cwd=ROOT, check=False)
        if done.returncode:
            return PROBLEM
    return OK


def build_parser(verb: str = "") -> argparse.ArgumentParser:
    """The command line: of one verb that a module adds, else the whole of it."""
    parser: argparse.ArgumentParser = VerbParser(
        prog="fullmesh", description="From bare nodes to a verified PyTorch-distributed cluster."
    )
    parser.add_argument("--version", action="version", version=f"fullmesh {__version__}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    wanted: dict[str, Callable[[argparse._SubParsersAction[argparse.ArgumentParser]], None]] = {}
    for name in [verb] if verb in MODULES else MODULES:
        if IN_CHECKOUT or not MODULES[name].startswith("devtools."):
            register = importlib.import_module(MODULES[name]).register
            wanted.setdefault(MODULES[name], register)
        else:
            absent = verbs.add_parser(name, help="needs a checkout", add_help=False)
            absent.add_argument("more", nargs=argparse.REMAINDER)
    for register in wanted.values():
        register(verbs)
    _register_inventory_verbs(verbs)
    lock = verbs.add_parser(
        "lock", help="write the locks of Python packages anew from their .in files"
    )
    lock.set_defaults(func=_write_lock_files)
    return parser


def _register_inventory_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    taken = (*options.CONNECT, *options.RUN, *options.TASKS)
    for name, text, func in (
        ("apply", "run site.yml: configure and verify the nodes", _run_apply),
        ("verify", "run only the verification ladder; changes nothing", _run_verify),
        ("plan", "say what apply would change, on which node; changes nothing", _run_plan),
        ("undo", "remove what Fullmesh installed and restore what it changed", _run_undo),
    ):
        parser = verbs.add_parser(name, help=text, description=text)
        options.add_inventory_option(parser)
        for flag, what in FLAGS.get(name, {}).items():
            parser.add_argument(flag, action="store_true", help=what)
        options.add_playbook_options(
            parser, [one for one in taken if name != "plan" or one is not options.CHECK]
        )
        parser.set_defaults(func=func)


def main(argv: Sequence[str] | None = None) -> int:
    """Parse and run; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    # Before we leave the user's directory: a verb that takes file names remembers it when it is loaded.
    args = build_parser(words[0] if words else "").parse_args(words)
    if IN_CHECKOUT:
        os.chdir(ROOT)
    elif args.verb not in ALONE:
        print_error(
            f"fullmesh: [CL-113] {args.verb} needs roles and playbooks, which this installation in {ROOT} does not "
            f"have; it can {', '.join(ALONE)}. Clone the project and run ./fullmesh {args.verb} there."
        )
        return USAGE
    if getattr(args, "more", None) and args.more[0] == "--":
        args.more = args.more[1:]
    try:
        return int(args.func(args))
    except KeyboardInterrupt:
        print_error("fullmesh: interrupted")
        return 130
