"""The source of the images, and its note."""

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
    monkeypatch.setattr(source.urllib.request, "urlopen", fail_without_route)


def fail_without_route(*_args: object, **_options: object) -> Never:
    raise urllib.error.URLError("no route")


def require_login(url: str, timeout: float) -> Never:
    assert timeout <= source.PROBE_SECONDS
    raise urllib.error.HTTPError(url, source.UNAUTHORIZED, "Unauthorized", Message(), None)


def test_without_a_registry_images_are_lookalikes(tmp_path: Path) -> None:
    found = source.choose_image_source(tmp_path / "probe.json")
    assert found.kind == "lookalike"
    assert "Look-alike" in found.note
    assert "private copies" in found.note


def test_registry_with_login_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source.urllib.request, "urlopen", require_login)
    assert source.choose_image_source(tmp_path / "probe.json").kind == "registry"


def test_probe_result_is_cached_for_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "probe.json"
    source.choose_image_source(file)
    monkeypatch.setattr(source.urllib.request, "urlopen", require_login)
    assert source.choose_image_source(file).kind == "lookalike"
    assert source.remembered(file, now=file.stat().st_mtime + source.REMEMBER_SECONDS + 9) is None


@pytest.mark.parametrize("kind", ["lookalike", "registry"])
def test_the_variable_replaces_the_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv(source.VARIABLE, kind)
    assert source.choose_image_source(tmp_path / "probe.json").kind == kind
    assert not (tmp_path / "probe.json").exists()


def test_unknown_source_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(source.VARIABLE, "magic")
    with pytest.raises(LabError, match=r"LB-109.*magic"):
        source.choose_image_source(tmp_path / "probe.json")
