"""Which unit tests are about node code alone, so that they run with the Pythons of nodes too."""

from __future__ import annotations

from typing import Any

import node_only
import pytest

SOURCE = """
import json, threading

def plain(): return json.loads("{}")
def direct(): return core.sources(0, 1)
def raised():
    try: plain()
    except FailedError: pass
def helper(): return direct()
def through(): return helper()
def in_a_thread():
    def one(): core.sources(0, 1)
    threading.Thread(target=one).start()
def annotated(one: "FailedError") -> "core.Wanted": return one
def itself(): return itself()
"""


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    found: dict[str, Any] = {
        "core": node_only.Controller("fullmesh.roles.core"),
        "FailedError": node_only.Absent(),
    }
    exec(compile(SOURCE, "tests", "exec"), found)  # noqa: S102 (a constant of this file)
    return found


@pytest.mark.parametrize("name", ["direct", "raised", "helper", "through", "in_a_thread"])
def test_tests_that_name_the_controller_are_skipped(name: str, names: dict[str, Any]) -> None:
    assert node_only.uses_controller_code(names[name])


@pytest.mark.parametrize("name", ["plain", "annotated", "itself"])
def test_other_tests_run(name: str, names: dict[str, Any]) -> None:
    assert not node_only.uses_controller_code(names[name])


def test_unexpected_use_of_controller_code_ends_as_a_skip(names: dict[str, Any]) -> None:
    with pytest.raises(pytest.skip.Exception, match="the controller's code"):
        names["direct"]()
    with pytest.raises(pytest.skip.Exception):
        list(names["FailedError"])


@pytest.mark.parametrize(
    ("name", "stands_in"),
    [
        ("fullmesh", False),
        ("fullmesh.observed.ladder", False),
        ("fullmesh.verify.node", True),
        ("devtools.lab.plan", True),
        ("ansible", False),
        ("ansible.module_utils.fullmesh.files", False),
        ("ansible.errors", True),
        ("json", False),
    ],
)
def test_a_node_has_no_controller(name: str, stands_in: bool) -> None:
    assert (node_only.Finder().find_spec(name, None) is not None) == stands_in
