"""Images only use the archives of their distribution."""

from __future__ import annotations

from pathlib import Path

import pytest

from devtools.lab import host, sources_list
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


def test_debian_reads_its_own_sources_for_any_release(monkeypatch: pytest.MonkeyPatch) -> None:
    release = {"ID": "debian", "VERSION_CODENAME": "trixie"}
    monkeypatch.setattr(sources_list.host, "os_release", lambda _text: release)
    own = ["deb http://a trixie main", "deb http://a trixie-security main"]
    monkeypatch.setattr(sources_list, "read", lambda _folder, codename: own if codename else [])
    assert sources_list.read_debian("bookworm") == [
        "deb http://a bookworm main",
        "deb http://a bookworm-security main",
    ]
    monkeypatch.setattr(sources_list, "read", lambda _folder, _codename: [])
    with pytest.raises(StepError, match="no source for 'trixie'"):
        sources_list.read_debian("bookworm")


def test_ubuntu_reads_debians_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look-alikes are the same on every host. The lab installs the keyring."""
    release = {"ID": "ubuntu", "VERSION_CODENAME": "noble"}
    monkeypatch.setattr(sources_list.host, "os_release", lambda _text: release)
    lines = sources_list.read_debian(sources_list.LOOKALIKE_SUITE)
    assert {line.split()[1] for line in lines} == {f"[signed-by={sources_list.KEYRING}]"}
    assert [line.split()[3] for line in lines] == [
        "bookworm",
        "bookworm-updates",
        "bookworm-security",
    ]
    assert sources_list.KEYRING in host.PACKAGES.values()


def test_apt_uses_separate_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources_list, "read_debian", lambda suite: [f"deb http://a {suite} main"])
    options = sources_list.own_apt(tmp_path, lambda line: line.replace("main", "non-free"))
    assert (tmp_path / "sources.list").read_text() == "deb http://a bookworm non-free\n"
    assert f"sourcelist={tmp_path}/sources.list -o Dir::Etc::sourceparts=- " in options
