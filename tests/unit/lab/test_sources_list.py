"""Images only use the archives of their distribution."""

from __future__ import annotations

from pathlib import Path

import pytest

from devtools.lab import sources_list
from devtools.lab.errors import StepError

DEB822 = """\
# a comment
Types: deb
URIs: http://deb.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: https://other.example/node_20.x
Suites: nodistro
Components: main

Types: deb-src
URIs: http://deb.example/debian
Suites: bookworm
Components: main

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main
"""
LINES = """\
# deb http://comment.example bookworm main
deb [signed-by=/k.gpg] http://deb.example/debian bookworm-security main contrib
deb https://docker.example/linux/debian bookworm stable
deb https://cloud.example/apt cloud-sdk-bookworm main
deb-src http://deb.example/debian bookworm main
"""


def test_deb822_is_converted() -> None:
    key = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
    assert sources_list.from_deb822(DEB822, "bookworm") == [
        f"deb {key} http://deb.example/debian bookworm main",
        f"deb {key} http://deb.example/debian bookworm-updates main",
    ]


def test_one_line_format_is_filtered() -> None:
    assert sources_list.from_lines(LINES, "bookworm") == [
        "deb [signed-by=/k.gpg] http://deb.example/debian bookworm-security main contrib"
    ]


def test_all_files_of_the_folder_are_read(tmp_path: Path) -> None:
    (tmp_path / "sources.list").write_text("deb http://deb.example/debian bookworm main\n")
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / "sources.list.d" / "debian.sources").write_text(DEB822)
    (tmp_path / "sources.list.d" / "other.list").write_text(LINES)
    assert len(sources_list.read(tmp_path, "bookworm")) == 4
    assert sources_list.read(tmp_path, "trixie") == []


def test_a_file_of_mirrors_is_replaced_by_its_first(tmp_path: Path) -> None:
    """GitHub's runners name no mirror in their sources, and a container does not have the file."""
    mirrors = tmp_path / "apt-mirrors.txt"
    mirrors.write_text(
        "http://a.example/ubuntu/\tpriority:1\nhttp://b.example/ubuntu/\tpriority:2\n"
    )
    (tmp_path / "sources.list.d").mkdir()
    text = f"Types: deb\nURIs: mirror+file:{mirrors}\nSuites: noble\nComponents: main universe\n"
    (tmp_path / "sources.list.d" / "ubuntu.sources").write_text(text)
    assert sources_list.read(tmp_path, "noble") == [
        "deb http://a.example/ubuntu/ noble main universe"
    ]


def test_apt_uses_separate_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources_list, "read", lambda folder, codename: ["deb http://a b main"])
    options = sources_list.own_apt(tmp_path, lambda line: line.replace("main", "non-free"))
    assert (tmp_path / "sources.list").read_text() == "deb http://a b non-free\n"
    assert f"sourcelist={tmp_path}/sources.list -o Dir::Etc::sourceparts=- " in options
    monkeypatch.setattr(sources_list, "read", lambda folder, codename: [])
    with pytest.raises(StepError, match="no source for this release"):
        sources_list.own_apt(tmp_path / "none", str)
