"""Where images come from, and what is said about it."""

from __future__ import annotations

import urllib.error
from email.message import Message
from pathlib import Path
from typing import Never

import pytest

from devtools.lab import source
from devtools.lab.errors import LabError


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(source.VARIABLE, raising=False)
    monkeypatch.setattr(source.urllib.request, "urlopen", refuse)


def refuse(*_args: object, **_options: object) -> Never:
    raise urllib.error.URLError("no route")


def unauthorized(url: str, timeout: float) -> Never:
    assert timeout <= source.PROBE_SECONDS
    raise urllib.error.HTTPError(url, source.UNAUTHORIZED, "Unauthorized", Message(), None)


def test_no_registry_means_lookalikes(tmp_path: Path) -> None:
    found = source.choose_image_source(tmp_path / "probe.json")
    assert found.kind == "lookalike"
    assert "Look-alike" in found.note
    assert "private copies" in found.note


def test_a_registry_that_wants_a_login_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source.urllib.request, "urlopen", unauthorized)
    assert source.choose_image_source(tmp_path / "probe.json").kind == "registry"


def test_the_answer_is_remembered_for_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "probe.json"
    source.choose_image_source(file)
    monkeypatch.setattr(source.urllib.request, "urlopen", unauthorized)
    assert source.choose_image_source(file).kind == "lookalike"
    assert source.remembered(file, now=file.stat().st_mtime + source.REMEMBER_SECONDS + 9) is None


@pytest.mark.parametrize("kind", ["lookalike", "registry"])
def test_the_variable_decides_without_a_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv(source.VARIABLE, kind)
    assert source.choose_image_source(tmp_path / "probe.json").kind == kind
    assert not (tmp_path / "probe.json").exists()


def test_unknown_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(source.VARIABLE, "magic")
    with pytest.raises(LabError, match=r"LB-109.*magic"):
        source.choose_image_source(tmp_path / "probe.json")
