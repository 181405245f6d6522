"""Options of the verbs that run a playbook: Ansible's, the inventory's, the view's."""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fullmesh.faults import Fault, InvalidInputError
from fullmesh.settings import ROOT, STARTED_IN

AUTO, PLAIN, JSON = "auto", "plain", "json"
# With these, the user wants to read ansible-playbook's output or to answer its questions.
ANSIBLES_OWN = re.compile(
    r"^(-v+|--verbose|-D|--diff|-h|--help|--version|--step|--syntax-check|--list-(hosts|tags|tasks))$"
)
# With one of these, ansible-playbook changes nothing.
PREVIEWS = re.compile(
    r"^(-C|-CD|-DC|--check|-h|--help|--version|--syntax-check|--list-(hosts|tags|tasks))$"
)
# With one of these, it asks for a password first.
PROMPTS = re.compile(r"^(-[bCDv]*[kKJ][bCDkKJv]*|--ask-(pass|become-pass|vault-pass(word)?))$")
CHOOSE = ("--limit=", "--tags=", "--skip-tags=")
INVENTORY_VARIABLE, OWN_INVENTORY = "FULLMESH_INVENTORY", "inventory/mine"
INVENTORY_HELP = (
    f"default: ${INVENTORY_VARIABLE}, else {OWN_INVENTORY}, which ./fullmesh init writes"
)


@dataclass(frozen=True)
class AnsibleOption:
    """An option of ansible-playbook.

    Attributes:
        names: as the user types them. The first long one is passed on.
        help: for ``--help``. If empty, the option is accepted but not listed.
        value: the name of its value. If empty, it is a switch.
    """

    names: tuple[str, ...]
    help: str = ""
    value: str = ""


def _make_switch(names: str, text: str = "") -> AnsibleOption:
    return AnsibleOption(tuple(names.split()), text)


def _make_value_option(names: str, value: str, text: str = "") -> AnsibleOption:
    return AnsibleOption(tuple(names.split()), text, value)


LIMIT = _make_value_option("-l --limit", "PATTERN", "only the hosts that also match this pattern")
USER = _make_value_option("-u --user", "NAME", "log in as this user")
CHECK = _make_switch("-C --check", "only show the changes that a run would make")
# Options for the inventory and the connections to its hosts.
CONNECT = (
    LIMIT,
    _make_value_option("-e --extra-vars", "SETTING", "name=value, YAML, JSON, or a file: @FILE"),
    USER,
    _make_value_option("--private-key --key-file", "FILE", "log in with this private key"),
    _make_value_option(
        "--vault-password-file --vault-pass-file", "FILE", "file with the vault password"
    ),
    _make_switch("-J --ask-vault-pass --ask-vault-password", "ask for the vault password"),
    _make_value_option("--vault-id", "ID"),
    _make_value_option("-c --connection", "TYPE"),
    _make_value_option("-T --timeout", "SECONDS"),
    _make_value_option("--ssh-common-args", "OPTIONS", "more options for ssh, such as a ProxyJump"),
    _make_value_option("--ssh-extra-args", "OPTIONS"),
)
# Options for the way a play works on the hosts.
RUN = (
    _make_switch("-k --ask-pass", "ask for the ssh password"),
    _make_value_option("--connection-password-file --conn-pass-file", "FILE"),
    _make_switch("-b --become", "become root for every task"),
    _make_switch("-K --ask-become-pass", "ask for the sudo password"),
    _make_value_option("--become-password-file --become-pass-file", "FILE"),
    _make_value_option("--become-method", "METHOD"),
    _make_value_option("--become-user", "NAME"),
    _make_value_option("-f --forks", "NUMBER", "number of hosts to work on at the same time"),
    _make_value_option("-M --module-path", "FOLDER"),
    _make_value_option("--sftp-extra-args", "OPTIONS"),
    _make_value_option("--scp-extra-args", "OPTIONS"),
    _make_switch("--flush-cache"),
)
# Options for the tasks to run.
TASKS = (
    _make_value_option("-t --tags", "TAGS", "only the tasks with these tags"),
    _make_value_option("--skip-tags", "TAGS", "all tasks except those with these tags"),
    CHECK,
    _make_switch("-D --diff", "show the changed lines of files"),
    _make_switch("--list-hosts", "list the hosts and exit"),
    _make_switch("--list-tags"),
    _make_switch("--list-tasks"),
    _make_switch("--syntax-check"),
    _make_switch("--step"),
    _make_switch("--force-handlers"),
    _make_value_option("--start-at-task", "TASK"),
)


class PassedOption(argparse.Action):
    """Keep an option for ansible-playbook, in the order in which the user typed them."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Add the option to those that are passed on."""
        del parser, option_string
        name = next(one for one in self.option_strings if one.startswith("--") or one == "-v")
        word = name if self.nargs == 0 else f"{name}={self.locate_file(values)}"
        setattr(namespace, self.dest, [*(getattr(namespace, self.dest, None) or []), word])

    def locate_file(self, value: str) -> str:
        """Return a value that names a file with its whole path: ansible-playbook runs in the checkout."""
        mark = "@" if self.metavar in ("SETTING", "PATTERN") and value.startswith("@") else ""
        place = STARTED_IN / Path(value.removeprefix(mark)).expanduser()
        named = mark or self.metavar == "FILE"
        return f"{mark}{place}" if named and place.is_file() else value


def add_ansible_options(
    parser: argparse.ArgumentParser, taken: Collection[AnsibleOption], note: str = ""
) -> None:
    """Add options of ansible-playbook, and let the verb pass on the words after ``--``."""
    text = note or "Write other options of ansible-playbook after --."
    group = parser.add_argument_group("options of Ansible", text)
    for one in taken:
        settings: dict[str, Any] = {"nargs": 0} if not one.value else {"metavar": one.value}
        group.add_argument(
            *one.names,
            action=PassedOption,
            dest="more",
            default=[],
            help=one.help or argparse.SUPPRESS,
            **settings,
        )
    parser.set_defaults(more=[], verbose=False)


def add_playbook_options(
    parser: argparse.ArgumentParser,
    taken: Collection[AnsibleOption] = (*CONNECT, *RUN, *TASKS),
) -> None:
    """Add the options of a verb that runs a playbook. *taken*: the options of Ansible that it accepts."""
    parser.add_argument(
        "--progress",
        choices=(AUTO, PLAIN, JSON),
        default=AUTO,
        help="auto: a live view on a terminal, otherwise plain lines. json: one line per event (docs/progress.md)",
    )
    show = _make_switch(
        "-v --verbose", "show Ansible's own output instead (-vv to -vvvvvv show more)"
    )
    add_ansible_options(parser, (*taken, show))


def list_ansible_words(args: argparse.Namespace) -> list[str]:
    """Return the options for ansible-playbook, those that follow ``--`` last."""
    more = list(args.more)
    return more[1:] if more[:1] == ["--"] else more


def needs_raw_output(args: argparse.Namespace) -> bool:
    """Tell whether the user wants Ansible's own output."""
    return bool(args.verbose) or has_output_option(list_ansible_words(args))


def has_output_option(more: Sequence[str]) -> bool:
    """Tell whether an option of ansible-playbook is about its output."""
    return any(ANSIBLES_OWN.match(word) for word in more)


def has_preview_option(more: Sequence[str]) -> bool:
    """Return whether ansible-playbook only shows information."""
    return any(PREVIEWS.match(word) for word in more)


def needs_password(command: Sequence[str]) -> bool:
    """Return whether ansible-playbook asks for a password on the terminal first."""
    return any(PROMPTS.match(word) for word in command)


def format_chosen_options(more: Sequence[str]) -> str:
    """Return the options that choose nodes and tasks, as they are typed."""
    kept = [word for word in more if word.startswith(CHOOSE)]
    return "".join(f" {shlex.quote(word)}" for word in kept)


def add_inventory_option(parser: argparse.ArgumentParser, text: str = "") -> None:
    """Add the option that names the inventory."""
    help_text = f"{text} ({INVENTORY_HELP})" if text else INVENTORY_HELP
    parser.add_argument("-i", "--inventory", default="", help=help_text)


def find_inventory(named: str, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the user's inventory. A relative path starts at the user's folder or at the checkout.

    Raises:
        RefusedError: it does not exist, or the user named none and has no default one.
    """
    given = named or environment.get(INVENTORY_VARIABLE, "")
    step = "Fix: run ./fullmesh init, or name another inventory with -i"
    for folder in (STARTED_IN, ROOT):
        place = folder / Path(given or OWN_INVENTORY).expanduser()
        if place.exists():
            return place.resolve()
    if given:
        origin = "" if named else f" (from ${INVENTORY_VARIABLE})"
        raise InvalidInputError(
            [Fault("CL-106", f"The inventory {given}{origin} does not exist", step)]
        )
    text = f"No inventory: -i is not given, ${INVENTORY_VARIABLE} is not set, and {OWN_INVENTORY} does not exist"
    raise InvalidInputError([Fault("CL-117", text, step)])
