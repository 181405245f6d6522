"""A pytest plugin that runs the unit tests of code for nodes.

Nodes have Pythons that the controller's code does not support, without its libraries. A test that
uses the controller's code is skipped and counted. All others run unchanged with the current Python.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import inspect
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

# Linked into src/fullmesh, but also run on nodes.
SHARED = ("observed", "netfilter", "foreign_text", "node_values")
# The folder of the checkout, found without code of the controller.
ROOT = Path(__file__).resolve().parents[2]
# Nodes only get Ansible's module_utils. The others are libraries of the controller.
LIBRARIES = ("devtools", "fullmesh_progress", "jsonschema", "msgspec", "pyte", "rich")
WHY = "the controller's code"


def skip_on_node() -> Any:
    """Skip the test, or the file of tests that is being read."""
    pytest.skip(WHY, allow_module_level=True)


class Absent:
    """A stand-in for controller code. It can be imported, annotated with and subclassed, but not used."""

    def __getattr__(self, name: str) -> Any:
        # pytest reads these of everything in a file of tests
        if name.startswith("__") or name.startswith("pytest"):
            raise AttributeError(name)
        return skip_on_node()

    def __call__(self, *_words: Any, **_named: Any) -> Any:
        return skip_on_node()

    def __getitem__(self, _key: Any) -> Any:
        return skip_on_node()

    def __iter__(self) -> Any:
        return skip_on_node()

    def __len__(self) -> int:
        return int(skip_on_node())

    def __contains__(self, _one: Any) -> bool:
        return bool(skip_on_node())

    def __mro_entries__(self, _bases: Any) -> tuple[type, ...]:
        return (object,)


class Controller(types.ModuleType):
    """A module of the controller."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent()


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands in for the controller's packages and for libraries that nodes lack."""

    def find_spec(
        self, fullname: str, _path: Any, _target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        first, second, *_ = [*fullname.split("."), ""]
        own = first == "fullmesh" and second not in ("", *SHARED)
        if own or first in LIBRARIES or (first == "ansible" and second not in ("", "module_utils")):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        made = Controller(spec.name)
        if spec.name == "fullmesh.settings":
            vars(made)["ROOT"] = ROOT
        return made

    def exec_module(self, module: types.ModuleType) -> None:
        """Do nothing, because the module is empty."""


def list_code_names(code: types.CodeType) -> Iterator[str]:
    """Return the names in a function and in its inner functions."""
    yield from code.co_names
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from list_code_names(one)


def uses_controller_code(function: Any, seen: frozenset[str] = frozenset()) -> bool:
    """Return whether a function, or one of its file that it calls, names something of the controller.

    This is decided before the test runs, because some uses would not end in a skip: a thread's
    code, or a class for pytest.raises.
    """
    inner = getattr(getattr(function, "hypothesis", None), "inner_test", function)
    code = getattr(inspect.unwrap(inner), "__code__", None)
    if code is None:
        return False
    if "ansible-playbook" in code.co_consts:  # a program that nodes lack
        return True
    known = inspect.unwrap(inner).__globals__
    for name in sorted(set(list_code_names(code)) - seen):
        found = known.get(name)
        if isinstance(found, (Absent, Controller)):
            return True
        if isinstance(found, types.FunctionType) and uses_controller_code(found, seen | {name}):
            return True
    return False


def pytest_configure() -> None:
    """Install the stand-ins before any file of tests is read."""
    sys.meta_path.insert(0, Finder())


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test of the controller before its fixtures run."""
    fixtures = item._fixtureinfo.name2fixturedefs.values()
    functions = [
        getattr(item, "function", None),
        *(one.func for all_of in fixtures for one in all_of),
    ]
    if any(map(uses_controller_code, functions)):
        skip_on_node()
