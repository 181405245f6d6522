"""``fullmesh doctor``: real programs on a ready controller, and a fault of each kind."""

from __future__ import annotations

import importlib.metadata
import json
import locale
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fullmesh import cli
from fullmesh.play import options
from fullmesh.verbs import doctor

NODES = "torch_nodes: {hosts: {a: {}, b: {}}}\n"
Patch = Callable[[pytest.MonkeyPatch, Path], None]


class Version(NamedTuple):
    major: int
    minor: int
    micro: int


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two nodes, in the user's folder."""
    (tmp_path / "hosts.yml").write_text(NODES)
    monkeypatch.setattr(options, "STARTED_IN", tmp_path)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and the checks by name."""
    code = cli.main(["doctor", "-i", "hosts.yml", "--json", *words])
    found = json.loads(capsys.readouterr().out)
    assert found["ready"] is (code == cli.OK)
    return code, {one["name"]: one for one in found["checks"]}


@pytest.mark.usefixtures("inventory")
def test_a_controller_that_is_ready(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, checks = run(capsys)
    assert code == cli.OK, checks
    assert {one["status"] for name, one in checks.items() if name != "clock"} == {"ok"}
    assert checks["ansible-core"]["seen"] == importlib.metadata.version("ansible-core")
    assert "community.general" in checks["collections"]["seen"]
    assert checks["inventory"]["seen"].endswith("hosts.yml, 2 nodes")
    monkeypatch.setattr(doctor, "check_controller", lambda _: [doctor.ControllerCheck("a", "b")])
    assert cli.main(["doctor"]) == cli.OK
    assert capsys.readouterr().out.endswith("This controller is ready.\n")


def put_program(patch: pytest.MonkeyPatch, folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    patch.setenv("PATH", str(folder), prepend=":")


def raise_not_found(name: str) -> str:
    raise importlib.metadata.PackageNotFoundError(name)


def hide_ssh(patch: pytest.MonkeyPatch, _folder: Path) -> None:
    real = doctor.call_program
    patch.setattr(
        doctor, "call_program", lambda *words: None if words[0] == "ssh" else real(*words)
    )


def lock_runs(patch: pytest.MonkeyPatch, _folder: Path) -> None:
    def refuse(**_more: Any) -> None:
        raise PermissionError(13, "Permission denied")

    patch.setattr(doctor.tempfile, "TemporaryFile", refuse)


def raise_not_executable(*_words: Any, **_more: Any) -> None:
    raise PermissionError(13, "Permission denied")


def raise_timeout(*words: str) -> None:
    raise subprocess.TimeoutExpired(words, 1)


CASES: dict[str, tuple[str, str, Patch]] = {
    "old Python": (
        "Python",
        "DR-101",
        lambda patch, _: patch.setattr(sys, "version_info", Version(3, 10, 1)),
    ),
    "no Ansible": (
        "ansible-core",
        "DR-102",
        lambda patch, _: patch.setattr(importlib.metadata, "version", raise_not_found),
    ),
    "old Ansible": (
        "ansible-core",
        "DR-102",
        lambda patch, _: patch.setattr(importlib.metadata, "version", lambda _: "2.15.3"),
    ),
    "no collections": (
        "collections",
        "DR-103",
        lambda patch, folder: patch.setattr(
            doctor, "list_collection_folders", lambda: [str(folder)]
        ),
    ),
    "no ssh": ("ssh", "DR-104", hide_ssh),
    "wrong ssh configuration": (
        "ssh",
        "DR-105",
        lambda patch, folder: put_program(
            patch, folder, "ssh", "echo 'config: line 3: bad' >&2; exit 255"
        ),
    ),
    "another ansible.cfg": (
        "ansible.cfg",
        "DR-106",
        lambda patch, _: patch.setenv("ANSIBLE_CONFIG", "/dev/null"),
    ),
    "callbacks off": (
        "ansible.cfg",
        "DR-106",
        lambda patch, _: patch.setenv("ANSIBLE_CALLBACKS_ENABLED", "timer"),
    ),
    "no Ansible programs": (
        "ansible.cfg",
        "DR-106",
        lambda patch, folder: put_program(patch, folder, "ansible-config", "exit 1"),
    ),
    "an inventory without nodes": (
        "inventory",
        "DR-108",
        lambda _, folder: (folder / "hosts.yml").write_text("all: {hosts: {a: }}") and None,
    ),
    "an inventory that is none": (
        "inventory",
        "DR-108",
        lambda patch, folder: put_program(
            patch, folder, "ansible-inventory", "echo 'not YAML' >&2; exit 1"
        ),
    ),
    "an inventory program that prints something else": (
        "inventory",
        "DR-108",
        lambda patch, folder: put_program(patch, folder, "ansible-inventory", "echo '[1]'"),
    ),
    "a group that is no group": (
        "inventory",
        "DR-108",
        lambda patch, folder: put_program(
            patch, folder, "ansible-inventory", """echo '{"torch_nodes": ["a"]}'"""
        ),
    ),
    "a configuration program that prints something else": (
        "ansible.cfg",
        "DR-106",
        lambda patch, folder: put_program(patch, folder, "ansible-config", "echo Traceback"),
    ),
    "a program that cannot be started": (
        "ansible.cfg",
        "DR-106",
        lambda patch, _: patch.setattr(subprocess, "run", raise_not_executable),
    ),
    "runs cannot be kept": ("runs", "DR-109", lock_runs),
    "full disk": (
        "disk",
        "DR-110",
        lambda patch, _: patch.setattr(
            shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1)
        ),
    ),
    "wrong clock": (
        "clock",
        "DR-111",
        lambda patch, _: patch.setattr(time, "time", lambda: 86400.0),
    ),
    "no UTF-8": (
        "locale",
        "DR-112",
        lambda patch, _: patch.setattr(locale, "nl_langinfo", lambda _: "ANSI_X3.4-1968"),
    ),
    "a program that hangs": (
        "ssh",
        "DR-113",
        lambda patch, _: patch.setattr(
            doctor,
            "call_program",
            lambda *words: raise_timeout(*words) if words[0] == "ssh" else None,
        ),
    ),
}


# Cases in which the programs themselves answer; in the others they would only take time.
REAL = {"another ansible.cfg", "callbacks off", "wrong ssh configuration", "no Ansible programs"}
REAL |= {"an inventory without nodes", "an inventory that is none", "a group that is no group"}
REAL |= {f"{one} program that prints something else" for one in ("an inventory", "a configuration")}
REAL |= {"a program that cannot be started"}


@pytest.mark.parametrize("case", CASES)
def test_a_fault_has_a_code_a_fix_and_exit_code_1(
    case: str, inventory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name, code, change = CASES[case]
    if case not in REAL:
        monkeypatch.setattr(
            doctor, "check_ansible_config", lambda: doctor.ControllerCheck("a", "b")
        )
        monkeypatch.setattr(doctor, "check_inventory", lambda _: doctor.ControllerCheck("c", "d"))
    change(monkeypatch, inventory)
    left, checks = run(capsys)
    assert left == cli.PROBLEM
    found = checks[name]
    assert (found["status"], found["code"]) == ("error", code)
    assert found["fix"] or found["check"]
    told = doctor.render_checks_list([doctor.ControllerCheck(**one) for one in checks.values()])
    assert f"error    {name}: [{code}] {found['seen']}" in told
    assert told[-1].startswith("This controller is not ready: ")


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"collection_info": 1}', '{"collection_info": {}}', "[" * 9999]
)
def test_a_collection_with_a_damaged_manifest_is_missing(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "damaged/ansible_collections/ansible/posix"
    folder.mkdir(parents=True)
    (folder / "MANIFEST.json").write_text(text)
    places = [str(tmp_path / "damaged")]
    assert doctor.find_collection_version("ansible.posix", places) == ""
    good = tmp_path / "good/ansible_collections/ansible/posix"
    good.mkdir(parents=True)
    (good / "MANIFEST.json").write_text('{"collection_info": {"version": "2.1.0"}}')
    places.append(str(tmp_path / "good"))
    assert doctor.find_collection_version("ansible.posix", places) == "2.1.0"


def test_a_missing_inventory_is_a_warning_and_a_wrong_one_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("ROOT", "STARTED_IN"):
        monkeypatch.setattr(options, folder, tmp_path)
    monkeypatch.delenv(options.INVENTORY_VARIABLE, raising=False)
    found = doctor.check_inventory("")
    assert (found.status, found.code) == ("warning", "DR-107")
    found = doctor.check_inventory("no/such")
    assert (found.status, found.code) == ("error", "DR-107")


@pytest.mark.parametrize(("said", "status"), [("no", "warning"), ("yes", "ok"), ("", "ok")])
def test_an_unsynchronized_clock_is_a_warning(
    said: str, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_program(monkeypatch, tmp_path, "timedatectl", f"echo {said}")
    assert doctor.check_clock().status == status


def test_doctor_takes_no_unknown_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(["doctor", "--jsn"])
    assert left.value.code == cli.USAGE
    assert "[CL-119]" in capsys.readouterr().err
