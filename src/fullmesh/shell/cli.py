"""Add the verb ``completion``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from importlib import resources

from fullmesh.catalogue import VERBS, add_verb
from fullmesh.printed import print_text
from fullmesh.shell.commands import describe_help, find_subparsers, list_helps

OK = 0
FILES = {"bash": "fullmesh.bash", "zsh": "_fullmesh"}
HOW = (
    "\nFor bash, run source <(fullmesh completion bash), or save it as"
    " ~/.local/share/bash-completion/completions/fullmesh. For zsh, save it as _fullmesh in a folder of $fpath."
    " An installed package has both, and the man page, in share/ of its prefix."
)


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "completion", HOW)
    parser.add_argument("shell", choices=tuple(FILES), help="which shell")
    parser.set_defaults(func=print_completion, more=[])


def print_completion(args: argparse.Namespace) -> int:
    """Print the file, or the possible last words."""
    if not args.more:
        text = resources.files(__package__).joinpath(FILES[args.shell]).read_text("utf-8")
    elif args.shell == "zsh":
        found = complete_words(args.more)
        text = "\n".join(f"{word}:{about}" for word, about in found)
    else:
        text = "\n".join(word for word, _about in complete_words(args.more))
    print_text(text.rstrip("\n"))
    return OK


def complete_words(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each word that can complete the last of ``words``, with its help."""
    from fullmesh.cli import build_parser  # noqa: PLC0415 (it imports this module)

    *before, last = words
    if not before and not last.startswith("-"):
        yield from ((name, one.text) for name, one in VERBS.items() if name.startswith(last))
        return
    parser = build_parser(before[0] if before else "")
    value_of, given = None, 0
    for word in before:
        found = find_subparsers(parser)
        option = parser._option_string_actions.get(word)
        if found and word in found.choices:
            parser, given = found.choices[word], 0
        elif not option and not value_of:
            given += 1
        value_of = option if option and option.nargs != 0 else None
    if last.startswith("-"):
        options = parser._option_string_actions.items()
        offered = {
            word: describe_help(one) for word, one in options if one.help != argparse.SUPPRESS
        }
    else:
        arguments = [one for one in parser._actions if not one.option_strings]
        repeated = [one for one in arguments if one.nargs in ("*", "+")]
        action = value_of or next(iter(arguments[given : given + 1] or repeated), None)
        helps, offer = list_helps(parser), action and parser.get_default(f"offer_{action.dest}")
        choices = offer() if offer else (action and action.choices) or ()
        offered = {str(word): helps.get(word, "") for word in choices}
    for word, about in offered.items():
        if word.startswith(last):
            yield word, about
