"""The commands that the pages show: each is one that the command line, or Ansible's, takes as it is written."""

from __future__ import annotations

import argparse
import contextlib
import re
import shlex
from pathlib import Path
from typing import NoReturn

import page_commands
import pytest
import record_hour
import record_night
import yaml
from ansible.cli.playbook import PlaybookCLI
from page_commands import ANSIBLE, ENDS, FENCE, NOT_RUN, OURS, PAGES, Shown, list_shown_commands

from fullmesh.cli import build_parser
from fullmesh.model import plan
from fullmesh.settings import ROOT

NUMBER = {"N": "2", "GPUS": "8"}


class Refused(Exception):  # noqa: N818 (not an error of ours)
    """Return the parser's result for a command."""


def error(_parser: argparse.ArgumentParser, message: str) -> NoReturn:
    raise Refused(message)


def words(command: str) -> list[str]:
    return [NUMBER.get(word, word) for word in shlex.split(command)[1:]]


@pytest.fixture(scope="module")
def ours() -> argparse.ArgumentParser:
    return build_parser()


@pytest.fixture
def parsers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parser says what it does not take instead of leaving."""
    monkeypatch.setattr(argparse.ArgumentParser, "error", error)


SHOWN = page_commands.list_commands_once()


@pytest.mark.usefixtures("parsers")
@pytest.mark.parametrize(
    ("page", "command"), [one for one in SHOWN if one[1].startswith(OURS)], ids=str
)
def test_commands_of_pages_are_accepted(
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


def test_page_commands_exist_and_wrong_ones_are_found(
    ours: argparse.ArgumentParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(argparse.ArgumentParser, "error", error)
    assert len(SHOWN) > 90
    (wrong,) = list_shown_commands("Run `./fullmesh verify --bandwith -i mine`.")
    with pytest.raises(Refused, match="--bandwith"):
        ours.parse_args(words(wrong.command))


@pytest.mark.parametrize("path", [record_hour.PAGE, record_night.PAGE], ids=lambda one: one.stem)
def test_every_command_of_a_recorded_page_can_be_recorded_again(path: Path) -> None:
    text = path.read_text()
    steps = list(record_hour.STEP.finditer(text))
    assert len(steps) == len(re.findall(r"^\$ ", text, re.MULTILINE)) > 5
    # a page is recorded as a whole, and has the output of each command
    silent = re.compile(r"cp |sleep |\./fullmesh lab exec ")
    assert [
        one["typed"] for one in steps if not one["shown"] and not silent.match(one["typed"])
    ] == []


PAGE = """
| `./fullmesh bundle` | 12 |

Say `./fullmesh plan -i mine`, then

```console
$ ./fullmesh apply -i mine
next:
./fullmesh verify -i mine
```

*69 s, exit code 1.*

and `./fullmesh undo`:

```
./fullmesh undo -i mine   # gives back
```
"""


def test_a_page_is_read_in_order_without_command_output() -> None:
    assert list(list_shown_commands(PAGE)) == [
        Shown("./fullmesh bundle --help", typed=False),
        Shown("./fullmesh plan -i mine"),
        Shown("./fullmesh apply -i mine", code=1),
        Shown("./fullmesh verify -i mine", typed=False),
        Shown("./fullmesh undo --help"),
        Shown("./fullmesh undo -i mine"),
    ]


def test_tables_of_exceptions_name_commands_of_the_pages() -> None:
    typed = {
        one.command for found in page_commands.map_runnable_commands().values() for one in found
    }
    assert set(NOT_RUN) <= typed
    assert set(ENDS) <= typed - set(NOT_RUN)
    assert all(NOT_RUN.values())
    assert len(typed - set(NOT_RUN)) > 0.75 * len(typed)


INVENTORIES = [
    (page, text)
    for page, whole in PAGES.items()
    for kind, text in FENCE.findall(whole)
    if kind == "yaml" and "torch_nodes:" in text
]


@pytest.mark.parametrize(("page", "text"), INVENTORIES, ids=[page for page, _ in INVENTORIES])
def test_an_inventory_of_a_page_has_no_fault(page: str, text: str) -> None:
    """Names, addresses and settings are valid: the plan raises an error otherwise."""
    group = yaml.safe_load(text)["torch_nodes"]
    hosts = {name: {**group.get("vars", {}), **own} for name, own in group["hosts"].items()}
    assert plan.derive_plan(hosts)["nnodes"] == len(hosts), page


def test_the_tutorials_show_inventories() -> None:
    assert {"docs/tutorials/rack.md", "docs/tutorials/dgx-sparks.md"} <= {p for p, _ in INVENTORIES}
