"""The commands that the pages show: each is one that the command line, or Ansible's, takes as it is written."""

from __future__ import annotations

import argparse
import contextlib
import re
import shlex
from collections.abc import Iterator
from typing import NoReturn

import pytest
import yaml
from ansible.cli.playbook import PlaybookCLI

from fullmesh.cli import build_parser
from fullmesh.model import plan
from fullmesh.settings import ROOT

PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "roles").glob("*/README.md"),
        *(ROOT / "examples").glob("*.md"),
    ]
)
FENCE = re.compile(r"^ *```([^\n`]*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
OURS, ANSIBLE = "./fullmesh", "ansible-playbook"
PROMPT = re.compile(r"^(?:[$#] )?((?:[A-Z_]+=\S+ )*)(.*)$")
# Another command on the same line; not what stands between quotes.
AFTER = re.compile(r"""(?: && |; | \| )(?=(?:[^'"]|'[^']*'|"[^"]*")*$)""")
# What stands for words of the reader's own, or for nothing in particular.
LOOSE = re.compile(r"\[[^\]]*\]|\.\.\.|…|<[^>]*>")
VERB = re.compile(r"\./fullmesh( [a-z][a-z-]+){1,2}")
NUMBER = {"N": "2", "GPUS": "8"}


class Refused(Exception):  # noqa: N818 (not an error of ours)
    """What the parser says of a command."""


def error(_parser: argparse.ArgumentParser, message: str) -> NoReturn:
    raise Refused(message)


def commands(text: str) -> Iterator[str]:
    """Every command of a page, in blocks and in sentences, without remarks and without what is optional."""
    blocks = [block for _kind, block in FENCE.findall(text)]
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    inline = INLINE.findall(FENCE.sub("", text))
    # a sentence may speak of a verb
    lines += [f"{one} --help" if VERB.fullmatch(one) else one for one in inline]
    for line in lines:
        found = PROMPT.match(line)
        for part in AFTER.split(found[2] if found else ""):
            command = re.sub(r"\s+#\s.*$|\s{2,}\(.*$", "", part)
            command = LOOSE.sub("", command).rstrip(".: ")
            if command.startswith((f"{OURS} ", f"{ANSIBLE} ")) and len(command.split()) > 1:
                yield command


def every() -> list[tuple[str, str]]:
    """Each command once, with the first page that shows it."""
    found: dict[str, str] = {}
    for page in PAGES:
        for command in commands(page.read_text()):
            found.setdefault(command, str(page.relative_to(ROOT)))
    return [(page, command) for command, page in found.items()]


def words(command: str) -> list[str]:
    return [NUMBER.get(word, word) for word in shlex.split(command)[1:]]


@pytest.fixture(scope="module")
def ours() -> argparse.ArgumentParser:
    return build_parser()


@pytest.fixture
def parsers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parser says what it does not take instead of leaving."""
    monkeypatch.setattr(argparse.ArgumentParser, "error", error)


SHOWN = every()


@pytest.mark.usefixtures("parsers")
@pytest.mark.parametrize(
    ("page", "command"), [one for one in SHOWN if one[1].startswith(OURS)], ids=str
)
def test_a_page_shows_a_command_that_is_taken(
    page: str, command: str, ours: argparse.ArgumentParser
) -> None:
    given = words(command)
    try:
        with contextlib.suppress(SystemExit):  # --help has been printed
            ours.parse_args(given)
    except Refused as refused:
        pytest.fail(f"{page}: {command}: {refused}")


@pytest.mark.usefixtures("parsers")
@pytest.mark.parametrize(
    ("page", "command"), [one for one in SHOWN if one[1].startswith(ANSIBLE)], ids=str
)
def test_ansible_takes_it_and_its_playbook_is_there(page: str, command: str) -> None:
    cli = PlaybookCLI([ANSIBLE])
    cli.init_parser()
    try:
        given = cli.parser.parse_args(words(command))
    except Refused as refused:
        pytest.fail(f"{page}: {command}: {refused}")
    for name in given.args:
        name = f"playbooks/{name[17:]}.yml" if name.startswith("fullmesh.cluster.") else name  # noqa: PLW2901
        there = (ROOT / name.replace("playbooks/site.yml", "site.yml")).is_file()
        assert there, f"{page}: {command}"


def test_the_pages_show_commands_and_a_wrong_one_would_be_seen(
    ours: argparse.ArgumentParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(argparse.ArgumentParser, "error", error)
    assert len(SHOWN) > 90
    (wrong,) = commands("Run `./fullmesh verify --bandwith -i mine`.")
    with pytest.raises(Refused, match="--bandwith"):
        ours.parse_args(words(wrong))


INVENTORIES = [
    (str(page.relative_to(ROOT)), text)
    for page in PAGES
    for kind, text in FENCE.findall(page.read_text())
    if kind == "yaml" and "torch_nodes:" in text
]


@pytest.mark.parametrize(("page", "text"), INVENTORIES, ids=[page for page, _ in INVENTORIES])
def test_an_inventory_of_a_page_has_no_fault(page: str, text: str) -> None:
    """Names, addresses and settings: what the plan refuses raises."""
    group = yaml.safe_load(text)["torch_nodes"]
    hosts = {name: {**group.get("vars", {}), **own} for name, own in group["hosts"].items()}
    assert plan.derive(hosts)["nnodes"] == len(hosts), page


def test_the_tutorials_show_inventories() -> None:
    assert {"docs/tutorials/rack.md", "docs/tutorials/dgx-sparks.md"} <= {p for p, _ in INVENTORIES}
