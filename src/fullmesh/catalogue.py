"""All verbs in groups: the module that adds each, its help text, examples and exit codes.

Standard library only: ``./fullmesh --help`` imports nothing else.
"""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field

from fullmesh.printed import print_error

SETUP, CHECK, TROUBLESHOOT, REPORT, DEVELOP, HELP = (
    "Set up",
    "Check",
    "Troubleshoot",
    "Report",
    "Develop",
    "Help",
)
DESCRIPTION = "Set up PyTorch-distributed clusters, check them, and find out why they fail."
USAGE_EXIT = "wrong usage, or the environment does not allow it"
NEXT_RELEASE = "0.4"  # old spellings work until then
NARROWEST, WIDEST = 40, 100  # columns of a help text
INDENT = 18


@dataclass(frozen=True)
class VerbEntry:
    """A verb.

    Attributes:
        group: the heading under which ``--help`` lists it.
        module: adds it to the parser when it is called.
        text: its help, which starts with a capital letter.
        examples: arguments as they are typed after ``./fullmesh``.
        exits: exit code -> meaning. All verbs share code 2.
    """

    group: str
    module: str
    text: str
    examples: tuple[str, ...]
    exits: Mapping[int | str, str] = field(default_factory=dict)


def _describe_verb(
    group: str, module: str, text: str, *examples: str, ok: str = "", problem: str = "", **more: str
) -> VerbEntry:
    exits: dict[int | str, str] = {0: ok} if ok else {}
    exits |= {1: problem} if problem else {}
    exits |= {2: more.get("usage", USAGE_EXIT)}
    exits |= {"N": more["other"]} if "other" in more else {}
    return VerbEntry(group, module, text, examples, exits)


INVENTORY_VERBS = "fullmesh.verbs.cluster"
VERBS = {
    "demo": _describe_verb(
        SETUP,
        "devtools.demo",
        "Try Fullmesh on this machine: build a lab in containers, configure and verify it",
        "demo",
        "demo --break",
        ok="the lab is verified, or the diagnosis found the break",
        problem="a step failed, or the diagnosis missed the break",
    ),
    "init": _describe_verb(
        SETUP,
        "fullmesh.verbs.init",
        "Write an inventory: ask for the machines, survey them by ssh, propose a network",
        "init",
        "init --hosts 'gpu[1:4]' -u admin",
        ok="the inventory is written",
        usage="wrong usage, a machine does not answer, or no network joins them",
    ),
    "plan": _describe_verb(
        SETUP,
        INVENTORY_VERBS,
        "Show the changes that apply would make on each node (changes nothing)",
        "plan -i inventory/mine",
        ok="apply can run",
        problem="apply would be refused, or a node failed",
    ),
    "apply": _describe_verb(
        SETUP,
        INVENTORY_VERBS,
        "Configure the nodes and verify them",
        "apply -i inventory/mine",
        "apply -i inventory/mine --dry-run",
        ok="the nodes are configured and verified",
        problem="a node or the verification failed",
    ),
    "undo": _describe_verb(
        SETUP,
        INVENTORY_VERBS,
        "Restore the nodes, and remove the packages that Fullmesh installed",
        "undo -i inventory/mine --dry-run",
        "undo -i inventory/mine",
        ok="the nodes are restored",
        problem="a node failed, or you answered no",
    ),
    "bundle": _describe_verb(
        SETUP,
        "fullmesh.verbs.bundle",
        "Pack all downloads of an installation into one archive, for nodes without internet",
        "bundle -i inventory/sources -o fullmesh-bundle.tar",
        ok="the archive is written",
        problem="a host failed",
    ),
    "verify": _describe_verb(
        CHECK,
        INVENTORY_VERBS,
        "Run all checks on configured nodes (changes no settings)",
        "verify -i inventory/mine",
        "verify -i inventory/mine --bisect",
        ok="the cluster passed all checks",
        problem="a check failed",
    ),
    "status": _describe_verb(
        CHECK,
        "fullmesh.verbs.status",
        "Show the nodes, their drift, running jobs and the last verdict (changes nothing)",
        "status -i inventory/mine",
        "status --json",
        ok="all nodes are as configured, and the last run passed",
        problem="a node drifted or does not answer, or the last run failed",
        usage="wrong usage, or no node could be checked",
    ),
    "diagnose": _describe_verb(
        CHECK,
        "fullmesh.verbs.diagnose",
        "Find faults between any nodes, configured or not, and their fixes (changes nothing)",
        "diagnose -i inventory/mine",
        "diagnose -i inventory/mine --bandwidth",
        ok="no fault was found",
        problem="faults were found",
        usage="wrong usage, or no diagnosis was possible",
    ),
    "doctor": _describe_verb(
        CHECK,
        "fullmesh.verbs.doctor",
        "Check that this controller is ready: Python, Ansible, ssh, inventory, disk, clock",
        "doctor",
        "doctor -i inventory/mine --json",
        ok="this controller is ready",
        problem="a check failed",
    ),
    "hang": _describe_verb(
        TROUBLESHOOT,
        "fullmesh.verbs.hang",
        "Name the rank, collective and line of code that a hung job waits for (changes nothing)",
        "hang -i inventory/mine",
        ok="no rank hangs",
        problem="a cause was found",
        usage="wrong usage, or no job was found",
    ),
    "watch": _describe_verb(
        TROUBLESHOOT,
        "fullmesh.verbs.watch",
        "Start a job, and report which ranks are missing and why if they do not connect",
        "watch -- torchrun train.py",
        "watch -i inventory/mine -- torchrun train.py",
        "watch -i inventory/mine --on-hang stop -- torchrun train.py",
        problem="the job was ended by --kill-after or --on-hang",
        other="the exit code of the job; with -i the largest of all nodes",
    ),
    "explain-log": _describe_verb(
        TROUBLESHOOT,
        "fullmesh.verbs.explain",
        "Name the causes in the logs of a failed job (works offline)",
        "explain-log rank0.log rank1.log",
        ok="nothing wrong was found",
        problem="a cause, a symptom, or an error that no rule knows was found",
        usage="wrong usage, or a log could not be read and the rest has no errors",
    ),
    "explain": _describe_verb(
        TROUBLESHOOT,
        "fullmesh.verbs.explain",
        "Explain a code and its fix, or list all codes (works offline)",
        "explain VC-202",
        ok="the code is explained",
        usage="the code does not exist",
    ),
    "report": _describe_verb(
        REPORT,
        "fullmesh.verbs.report",
        "Show the verdict of a run (default: the last one), or compare two runs",
        "report",
        "report --against previous --html",
        ok="the run passed",
        problem="the run failed, or is worse than the other one",
        usage="wrong usage, or the run does not exist",
    ),
    "support-bundle": _describe_verb(
        REPORT,
        "fullmesh.verbs.support",
        "Pack the last runs and logs for a bug report, without names, addresses and secrets",
        "support-bundle --dry-run",
        "support-bundle -i inventory/mine rank0.log",
        ok="the bundle is complete",
        problem="the bundle lacks a file that could not be read",
        usage="wrong usage, or there is nothing to pack",
    ),
    "test": _describe_verb(
        DEVELOP,
        "devtools.testing",
        "Run the tests that CI runs: lint, unit tests, molecule scenarios, the lab end to end",
        "test --fast",
        ok="all parts passed",
        problem="a part failed",
    ),
    "lab": _describe_verb(
        DEVELOP,
        "devtools.lab.cli",
        "Build, list and remove labs of containers on this machine",
        "lab up",
        "lab down",
        ok="the command succeeded",
        problem="a step failed",
    ),
    "dev": _describe_verb(
        DEVELOP,
        "devtools.dev",
        "Install the tools for developers, and open a shell or run a command with them",
        "dev pytest -q tests/unit/test_plan.py",
        other="the exit code of the command",
    ),
    "docs": _describe_verb(
        DEVELOP,
        "devtools.docs.cli",
        "Build the documentation as a site, and open it",
        "docs",
        ok="the site is built",
        problem="Sphinx failed",
        usage="Sphinx is not installed",
    ),
    "collection": _describe_verb(
        DEVELOP,
        "devtools.collection",
        "Build the archive of the Ansible collection",
        "collection --to .",
        ok="the archive is written",
        problem="ansible-galaxy failed",
    ),
    "torch-lock": _describe_verb(
        DEVELOP,
        "fullmesh.roles.torch_locks",
        "Write a lock of torch for every Python and machine that has wheels for it",
        "torch-lock --torch 2.10.0 --accelerator cuda13.0",
        ok="the lock is written",
        problem="the packages cannot be resolved",
    ),
    "lock": _describe_verb(
        DEVELOP,
        "devtools.dev",
        "Update uv.lock and the files for pip from pyproject.toml",
        "lock",
        ok="the locks are written",
        problem="uv failed",
    ),
    "help": _describe_verb(
        HELP,
        "fullmesh.verbs.about",
        "Show the help of a verb",
        "help diagnose",
        ok="the help is shown",
    ),
    "version": _describe_verb(
        HELP,
        "fullmesh.verbs.about",
        "Show the versions of Fullmesh, Python, ansible-core and torch",
        "version --json",
        ok="the versions are shown",
    ),
    "completion": _describe_verb(
        HELP,
        "fullmesh.shell.cli",
        "Print the completion script for bash or zsh",
        "completion bash",
        ok="the script is printed",
    ),
}


class WrappedFormatter(argparse.HelpFormatter):
    """A formatter that wraps each line of a text with several lines by itself."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n" not in text:
            return super()._fill_text(text, width, indent)
        return "\n".join(wrap_line(line, width, indent) for line in text.split("\n"))


def wrap_line(line: str, width: int, indent: str = "") -> str:
    """Wrap a line; the rest is indented as its beginning, or as the text behind an exit code."""
    own = len(line) - len(line.lstrip())
    more = own + (3 if own and line[own + 1 : own + 3] == "  " else 0)
    return "\n".join(
        textwrap.wrap(
            line,
            width,
            initial_indent=indent,
            subsequent_indent=indent + " " * more,
            break_long_words=False,
            break_on_hyphens=False,
        )
    )


def list_ending_lines(name: str) -> list[str]:
    """Return the examples and the exit codes of a verb."""
    entry = VERBS[name]
    lines = ["example:" if len(entry.examples) == 1 else "examples:"]
    lines += [f"  ./fullmesh {example}" for example in entry.examples]
    lines += ["", "exit codes:", *(f"  {code}  {what}" for code, what in entry.exits.items())]
    return lines


def add_verb(
    verbs: argparse._SubParsersAction[argparse.ArgumentParser], name: str, note: str = ""
) -> argparse.ArgumentParser:
    """Add a verb with its texts; *note* follows the help text in its own help."""
    text = VERBS[name].text
    return verbs.add_parser(
        name,
        help=text,
        description=f"{text}. {note}".strip(),
        epilog="\n".join(list_ending_lines(name)),
        formatter_class=WrappedFormatter,
    )


def render_overview(width: int = 0) -> str:
    """Return the help of the whole command, with its verbs in groups."""
    columns = width or shutil.get_terminal_size().columns
    columns = min(max(columns - 2, NARROWEST), WIDEST)
    lines = ["usage: ./fullmesh VERB [OPTIONS]", "", *textwrap.wrap(DESCRIPTION, columns)]
    for group in dict.fromkeys(entry.group for entry in VERBS.values()):
        lines += ["", f"{group}:"]
        for name, entry in VERBS.items():
            if entry.group == group:
                text = textwrap.wrap(entry.text, columns - INDENT)
                lines += [f"  {name:<{INDENT - 2}}{text[0]}"]
                lines += [" " * INDENT + more for more in text[1:]]
    lines += [
        "",
        "./fullmesh help VERB shows options, examples and exit codes. --version shows the version.",
    ]
    return "\n".join([*lines[:-1], *textwrap.wrap(lines[-1], columns)]) + "\n"


def warn_old_spelling(old: str, new: str) -> None:
    """Name the spelling that replaces an old one, which still works."""
    print_error(
        f"fullmesh: {old} is now {new}. The old spelling works until version {NEXT_RELEASE}."
    )
