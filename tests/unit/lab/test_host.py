"""The lab's requirements for its host."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from devtools.lab import host
from devtools.lab.errors import LabError
from devtools.lab.paths import Paths


def test_other_users_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host.os, "geteuid", lambda: 1000)
    with pytest.raises(LabError, match=r"LB-101.*1000"):
        host.require_root()


def test_other_distributions_are_rejected() -> None:
    release = host.os_release('ID="fedora"\nPRETTY_NAME="Fedora 41"\n')
    with pytest.raises(LabError, match=r"LB-102.*podman.*Fedora 41"):
        host.require_debian(["podman"], release)


@pytest.mark.parametrize("text", ["ID=debian", "ID=ubuntu", 'ID=mint\nID_LIKE="ubuntu debian"'])
def test_debian_and_derivatives_are_accepted(text: str) -> None:
    host.require_debian(["podman"], host.os_release(text))


def test_failed_package_installation_is_reported(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: object, **_options: object) -> None:
        raise host.StepError("E: Unable to locate package podman")

    monkeypatch.setattr(host, "missing", lambda _packages: ["podman"])
    monkeypatch.setattr(host, "require_debian", lambda *_: None)
    monkeypatch.setattr(host, "step", fail)
    with pytest.raises(LabError, match=r"LB-103.*podman"):
        host.ensure_packages(paths)


def test_complete_host_is_unchanged(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "missing", lambda _packages: [])
    host.ensure_packages(paths)
    assert not paths.home.exists()


def test_missing_programs_are_named_by_package() -> None:
    assert host.missing({"good": "sh", "bad": "no-such-program"}) == ["bad"]


def test_free_inotify_instances_are_counted() -> None:
    assert host.inotify_left(1) == 1


def test_too_few_inotify_instances_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "inotify_left", lambda _wanted: 3)
    with pytest.raises(LabError, match=r"LB-117.*20 inotify instances, and 3 are left"):
        host.require_inotify(2)


def test_networks_in_use_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(argv: list[str]) -> subprocess.CompletedProcess[str]:
        text = '[{"dst": "10.1.0.0/16", "dev": "eth0"}]' if "-4" in argv else "[]"
        return subprocess.CompletedProcess(argv, 0, text, "")

    monkeypatch.setattr(host, "capture", answer)
    assert [str(network) for network, _ in host.networks_in_use()] == ["10.1.0.0/16"]


def test_this_machine_has_a_release_file() -> None:
    assert "ID" in host.os_release(Path("/etc/os-release").read_text())
