"""Filters that are known by name from the start and read when they are first used.

Reading all of them, with all of the core that they need, takes a third of a second, and a run that has nothing to do
uses one file of them. Where Ansible is about to fork a process for each node, ``every`` reads the rest in their parent.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

PACKAGE = "fullmesh.filters"
FOLDER = Path(__file__).resolve().parent
# how each of these files ends: a table of names
NAME = re.compile(r'"(\w+)": ')

Filter = Callable[..., Any]


@cache
def list_filter_names() -> dict[str, list[str]]:
    """The filters of each file, without reading it as Python."""
    found = {}
    for path in sorted(FOLDER.glob("*.py")):
        _, table, end = path.read_text().partition("\n    def filters(self)")
        if table:
            found[path.stem] = NAME.findall(end)
    return found


@cache
def load_filter_file(stem: str) -> dict[str, Filter]:
    """The filters of a file, which is read."""
    table: dict[str, Filter] = importlib.import_module(f"{PACKAGE}.{stem}").FilterModule().filters()
    return table


def make_lazy_filter(stem: str, name: str) -> Filter:
    """A filter that reads its file when it is used."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return load_filter_file(stem)[name](*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    return call


def build_filter_table() -> dict[str, Filter]:
    """Every filter by its name; two of one name are a mistake of ours."""
    found: dict[str, Filter] = {}
    for stem, own in list_filter_names().items():
        twice = found.keys() & own
        if twice:
            raise RuntimeError(f"{stem}: {', '.join(sorted(twice))} is another file's filter")
        found |= {name: make_lazy_filter(stem, name) for name in own}
    return found


def load_all_filters() -> bool:
    """Read all files; whether any was not read yet."""
    files = list_filter_names()
    if load_filter_file.cache_info().currsize == len(files):
        return False
    for stem in files:
        load_filter_file(stem)
    return True
