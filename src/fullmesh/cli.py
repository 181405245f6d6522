"""The command line: thin verbs over ansible-playbook and the lab.

Exit codes: 0 all well, 1 a problem was found, 2 usage or environment.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import sys
from collections.abc import Callable, Sequence

from fullmesh import __version__
from fullmesh.catalogue import DESCRIPTION, VERBS, render_overview
from fullmesh.printed import print_error, print_text
from fullmesh.settings import IN_CHECKOUT, PACKAGE, ROOT

OK, PROBLEM, USAGE = 0, 1, 2
HELP = ("-h", "--help")

# The verbs of an installed package, which has no roles, no playbooks and no tools for developers.
# verbs of an installed package. The others change nodes, or keep files in the checkout.
ALONE = (
    "completion",
    "diagnose",
    "explain",
    "explain-log",
    "hang",
    "help",
    "report",
    "support-bundle",
    "version",
)
CODES = {
    "CL-101": "A system package is missing, and Fullmesh cannot install it here",
    "CL-102": "apt-get failed",
    "CL-103": "No Python 3.11 to 3.14 is on this machine",
    "CL-104": "pip could not install the locked requirements",
    "CL-105": "Another `fullmesh` holds the lock of the virtual environment",
    "CL-106": "The inventory does not exist",
    "CL-107": "There is no run to report on",
    "CL-108": "A test part or scenario does not exist",
    "CL-109": "The code does not exist",
    "CL-110": "A log cannot be read",
    "CL-111": "The data range on the command line is malformed",
    "CL-112": "Ansible or the deadline ended the diagnosis",
    "CL-113": "The verb needs the roles and playbooks of a checkout",
    "CL-114": "The file is not a result of this version",
    "CL-115": "The lock file of torch cannot be made",
    "CL-116": "The runs belong to different clusters or kinds, so they cannot be merged",
    "CL-117": "The command names no inventory, and there is no default one",
    "CL-118": "`undo` runs without a terminal that can answer its question, and without `--yes`",
    "CL-119": "The verb does not have this option or argument",
    "CL-120": "Ansible cannot list the nodes of the inventory",
    "CL-122": "A log is packed in a form that cannot be unpacked",
    "CL-123": "A file that was given as a log is not text",
    "CL-124": "The deadline on the command line is not above 0",
    "CL-125": "The verb does not exist",
    "CL-126": "`--json` is combined with an option that prints Ansible's own output",
    "CL-127": "A file with the name of the support bundle already exists",
    "CL-128": "The support bundle cannot be made",
    "CL-190": "The documentation cannot be built without Sphinx",
    "CL-192": "The site of all versions cannot be built",
    "CL-191": "The command names too many or too few runs",
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
        """Report a word that this parser does not know, and the words that it accepts."""
        kind = "option" if word.startswith("-") else "argument"
        text = f"[CL-119] Unknown {kind}: {word}."
        names = difflib.get_close_matches(word.partition("=")[0], self._option_string_actions, 1)
        if names and kind == "option":
            text += f" Did you mean {names[0]}?"
        return f"{text} Check: ./{self.prog} --help."


def build_parser(verb: str = "") -> argparse.ArgumentParser:
    """Return the parser of one verb, or of the whole command line."""
    parser: argparse.ArgumentParser = VerbParser(prog="fullmesh", description=DESCRIPTION)
    parser.add_argument(
        "--version",
        action="version",
        version=f"fullmesh {__version__}",
        help="show the version of Fullmesh, and exit",
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    wanted: dict[str, Callable[[argparse._SubParsersAction[argparse.ArgumentParser]], None]] = {}
    for name in [verb] if verb in VERBS else VERBS:
        module = VERBS[name].module
        if IN_CHECKOUT or not module.startswith("devtools."):
            wanted.setdefault(module, importlib.import_module(module).add_verbs)
        else:
            absent = verbs.add_parser(name, help="needs a checkout", add_help=False)
            absent.add_argument("more", nargs=argparse.REMAINDER)
    for add_verbs in wanted.values():
        add_verbs(verbs)
    return parser


def find_similar_verb(word: str) -> str:
    """Suggest the verb that the user probably means, as a sentence, or return ""."""
    names = difflib.get_close_matches(word, VERBS, 1)
    return f" Did you mean {names[0]}?" if names else ""


def main(argv: Sequence[str] | None = None) -> int:
    """Parse and run; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["help"] and len(words) > 1 and words[1] not in HELP:
        words = [*words[1:], "--help"]
    if not words or words[0] in HELP:
        print_text(render_overview().rstrip("\n"), None if words else sys.stderr)
        return OK if words else USAGE
    verb = next((word for word in words if not word.startswith("-")), "")
    if verb and verb not in VERBS:
        similar = find_similar_verb(verb)
        print_error(f"fullmesh: [CL-125] Unknown verb: {verb}.{similar} Check: ./fullmesh help.")
        return USAGE
    # Before we leave the user's directory: a verb that takes file names remembers it when it is loaded.
    args = build_parser(verb).parse_args(words)
    if IN_CHECKOUT:
        os.chdir(ROOT)
    elif args.verb not in ALONE:
        print_error(
            f"fullmesh: [CL-113] {args.verb} needs a checkout, and this is the package in {PACKAGE}, which has: "
            f"{', '.join(ALONE)}. Fix: clone the project and run ./fullmesh {args.verb} there."
        )
        return USAGE
    else:  # pipx shows only our own command, not Ansible's
        programs = [os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)]
        os.environ["PATH"] = os.pathsep.join(programs)
    if getattr(args, "more", None) and args.more[0] == "--":
        args.more = args.more[1:]
    try:
        return int(args.func(args))
    except KeyboardInterrupt:
        print_error("fullmesh: interrupted")
        return 130
