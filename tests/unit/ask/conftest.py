"""A simulated ssh, and a folder that only its owner can enter."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from ask_connections import TOLD

from fullmesh.ask import program


@pytest.fixture
def _told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The question of the tests in place of ours."""
    package = tmp_path / "utils/fullmesh"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "told.py").write_text(TOLD)
    monkeypatch.setattr(program.collect_module_sources, "__defaults__", (tmp_path / "utils",))
    program.build_query_program.cache_clear()
    yield
    program.build_query_program.cache_clear()


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """Where the node of these tests keeps programs; boot.py wants it to be root's."""
    if os.geteuid():
        pytest.skip("a folder that is root's alone needs root")
    return tmp_path / "run/ask"


@pytest.fixture
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A path that is short enough for a socket."""
    return tmp_path_factory.mktemp("m") / "s"
