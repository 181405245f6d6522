"""Describe the command line as data, and render the man page from it."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass

from fullmesh import __version__
from fullmesh.catalogue import DESCRIPTION, list_ending_lines


@dataclass(frozen=True)
class Command:
    """One verb, or a verb below it.

    Attributes:
        name: as it is typed, ``fullmesh lab up``.
        depth: 0 for a verb, 1 for a verb of a verb.
        ending: the lines with its examples and exit codes.
        options: options and arguments as they are typed, each with its help.
    """

    name: str
    depth: int
    text: str
    usage: str
    options: list[tuple[str, str]]
    ending: list[str]


def find_subparsers(
    parser: argparse.ArgumentParser,
) -> argparse._SubParsersAction[argparse.ArgumentParser] | None:
    """Return the verbs of a parser."""
    kind = argparse._SubParsersAction
    return next((one for one in parser._actions if isinstance(one, kind)), None)


def list_helps(parser: argparse.ArgumentParser) -> dict[str, str]:
    """Return each verb of a parser with its help."""
    found = find_subparsers(parser)
    return {one.dest: one.help or "" for one in found._choices_actions} if found else {}


def walk_commands(
    parser: argparse.ArgumentParser, name: str = "fullmesh", depth: int = 0
) -> Iterator[Command]:
    """Yield every verb below a parser, each before its own verbs."""
    found, helps = find_subparsers(parser), list_helps(parser)
    for word, child in found.choices.items() if found else ():
        usage = " ".join(child.format_usage().removeprefix("usage: ").split())
        unlisted = (argparse._HelpAction, argparse._SubParsersAction)
        options = [
            (describe_words(action), describe_help(action))
            for action in child._actions
            if not isinstance(action, unlisted) and action.help is not argparse.SUPPRESS
        ]
        text = child.description or helps.get(word, "")
        ending = [] if depth else list_ending_lines(word)
        yield Command(f"{name} {word}", depth, text, usage, options, ending)
        yield from walk_commands(child, f"{name} {word}", depth + 1)


def describe_words(action: argparse.Action) -> str:
    """Return an option or an argument as it is typed."""
    value = action.metavar or action.dest.upper()
    if action.choices and not action.metavar:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    value = " ".join(value) if isinstance(value, tuple) else value
    if not action.option_strings:
        return str(action.metavar or action.dest)
    names = ", ".join(action.option_strings)
    if action.nargs == 0:
        return names
    return f"{names} [{value}]" if action.nargs == "?" else f"{names} {value}"


def describe_help(action: argparse.Action) -> str:
    """Return the help of an option, with its default filled in."""
    text = str(action.help or "").replace("%%", "%")
    return text.replace("%(default)s", str(action.default)) or "(see above)"


def escape_roff(text: str) -> str:
    """Return text that roff prints as it is."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.MULTILINE)


def render_manual() -> str:
    """Return the man page, in roff."""
    from fullmesh.cli import build_parser  # noqa: PLC0415 (it imports this package's verb)

    lines = [
        f'.TH FULLMESH 1 "" "Fullmesh {__version__}"',
        ".SH NAME",
        rf"fullmesh \- {escape_roff(DESCRIPTION)}",
        ".SH SYNOPSIS",
        r"\fBfullmesh\fR \fIVERB\fR",
        ".SH EXIT STATUS",
        "0 all well, 1 a problem was found, 2 usage or environment, 130 interrupted.",
    ]
    for command in walk_commands(build_parser()):
        lines.append(f'.{"SS" if command.depth else "SH"} "{escape_roff(command.name.upper())}"')
        lines += [escape_roff(command.text), ".PP", ".EX", escape_roff(command.usage), ".EE"]
        for words, text in command.options:
            lines += [".TP", rf"\fB{escape_roff(words)}\fR", escape_roff(text)]
        if command.ending:
            lines += [".PP", ".EX", escape_roff("\n".join(command.ending)), ".EE"]
    return "\n".join(lines) + "\n"
