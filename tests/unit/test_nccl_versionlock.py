"""The hold on dnf: Fullmesh's lines in the list of the versionlock plugin, next to those of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import node_manifest
import pytest
import version_lock
from ansible.module_utils.fullmesh import answer, manifest
from ansible.module_utils.fullmesh.packages import listed, versionlock
from ansible.module_utils.fullmesh.packages import nccl as packages_nccl
from hypothesis import given
from hypothesis import strategies as st

OLD, NEW = "2.28.9-1+cuda12.9", "2.30.7-1+cuda12.9"
NAMES = ["libnccl", "libnccl-devel"]
OTHERS = (
    "# kept by hand, do not touch\n"
    "\n# Added lock on Mon Nov  2 09:00:00 2026\nbash-0:5.1.8-9.el9.*\n"
    "!libnccl-0:2.27.3-1+cuda12.9.*\nlibnccl-static-0:2.27.3-1+cuda12.9.*\n"
)


def pin_version(version: str) -> dict[str, str]:
    return dict.fromkeys(NAMES, version)


def list_locks(version: str) -> list[str]:
    return [f"libnccl-{version}.*", f"libnccl-devel-{version}.*"]


def plugin_deletes(text: str, *gone: str) -> str:
    """What ``dnf versionlock delete`` makes of a list: all comments go."""
    return "".join(line + "\n" for line in versionlock.parse_lock_entries(text) if line not in gone)


def test_a_lock_adds_one_entry_and_is_removed_without_trace() -> None:
    text = versionlock.add_own_locks(OTHERS, pin_version(OLD))
    assert text.startswith(OTHERS)
    assert versionlock.parse_lock_entries(text) == versionlock.parse_lock_entries(
        OTHERS
    ) + list_locks(OLD)
    assert versionlock.find_held_packages(text, pin_version(OLD)) == NAMES
    assert versionlock.remove_own_locks(text, NAMES) == OTHERS
    assert (
        versionlock.remove_own_locks(versionlock.add_own_locks("", pin_version(OLD)), NAMES) == ""
    )


def test_another_version_moves_the_lock() -> None:
    text = versionlock.add_own_locks(
        versionlock.add_own_locks(OTHERS, pin_version(OLD)), pin_version(NEW)
    )
    assert text == versionlock.add_own_locks(OTHERS, pin_version(NEW))
    assert versionlock.find_held_packages(text, pin_version(OLD)) == []


DRIVER = {"nvidia-driver": "580.95.05-1.el9", "nvidia-kmod-common": "580.95.05-1.el9"}
WHAT = "the NVIDIA driver's packages"


def test_two_roles_can_hold_packages() -> None:
    sleeping = f"libnccl-2.*\nnvidia-driver-0:535.1-1.el9.*\n{OTHERS}"
    nccl = versionlock.add_own_locks(sleeping, pin_version(OLD))
    both = versionlock.add_own_locks(nccl, DRIVER, WHAT)
    assert versionlock.find_held_packages(both, {**DRIVER, **pin_version(OLD)}) == sorted(
        [*NAMES, *DRIVER]
    )
    assert versionlock.find_held_packages(
        versionlock.remove_own_locks(both, NAMES), DRIVER
    ) == sorted(DRIVER)
    assert versionlock.remove_own_locks(both, list(DRIVER), WHAT) == nccl
    assert (
        versionlock.remove_own_locks(versionlock.remove_own_locks(both, NAMES), list(DRIVER), WHAT)
        == sleeping
    )
    fewer = {"nvidia-driver": "590.44-1.el9"}
    moved = versionlock.add_own_locks(both, fewer, WHAT)
    assert [line for line in versionlock.parse_lock_entries(moved) if "nvidia" in line] == [
        "nvidia-driver-590.44-1.el9.*"
    ]


def test_existing_locks_are_unchanged_in_any_file() -> None:
    text = versionlock.add_own_locks("", pin_version(OLD)) + OTHERS
    assert versionlock.add_own_locks(text, pin_version(OLD)) == text
    by_hand = f"libnccl-0:{OLD}.*\nlibnccl-devel-0:{OLD}.x86_64\n"
    assert versionlock.add_own_locks(by_hand, pin_version(OLD)) == by_hand
    assert versionlock.remove_own_locks(by_hand, NAMES) == by_hand


@pytest.mark.parametrize(
    "foreign",
    [
        f"libnccl-0:{NEW}.*",
        f"libnccl-{NEW}",
        "libnccl-2.*",
        "libnccl",
        "libnccl.x86_64",
        "libnccl-*",
    ],
)
def test_a_lock_that_lets_in_another_version_sleeps_until_undo(foreign: str) -> None:
    before = f"{foreign}\n{OTHERS}"
    assert versionlock.find_held_packages(
        versionlock.add_own_locks("", pin_version(OLD)) + before, pin_version(OLD)
    ) == ["libnccl-devel"]
    text = versionlock.add_own_locks(before, pin_version(OLD))
    assert foreign not in versionlock.parse_lock_entries(text)
    assert versionlock.find_held_packages(text, pin_version(OLD)) == NAMES
    assert versionlock.remove_own_locks(text, NAMES) == before


def test_our_locks_are_recognized_without_comments() -> None:
    text = plugin_deletes(
        versionlock.add_own_locks(OTHERS, pin_version(OLD)), "bash-0:5.1.8-9.el9.*"
    )
    assert versionlock.MARK.format(versionlock.THESE) not in text
    moved = versionlock.add_own_locks(text, pin_version(NEW))
    assert versionlock.find_held_packages(moved, pin_version(NEW)) == NAMES
    assert (
        versionlock.parse_lock_entries(versionlock.remove_own_locks(moved, NAMES))
        == versionlock.parse_lock_entries(OTHERS)[1:]
    )


def test_a_removed_lock_is_restored() -> None:
    text = versionlock.add_own_locks(OTHERS, pin_version(OLD))
    less = plugin_deletes(text, f"libnccl-{OLD}.*")
    assert versionlock.find_held_packages(less, pin_version(OLD)) == ["libnccl-devel"]
    assert sorted(
        versionlock.parse_lock_entries(versionlock.add_own_locks(less, pin_version(OLD)))
    ) == sorted(versionlock.parse_lock_entries(text))


def test_a_package_that_is_no_longer_named_is_unlocked() -> None:
    text = versionlock.add_own_locks(OTHERS, {**pin_version(OLD), "libnccl-x": OLD})
    assert versionlock.remove_own_locks(text, NAMES) == OTHERS


@given(
    st.lists(st.sampled_from([*OTHERS.splitlines(), *list_locks(OLD), f"libnccl-0:{NEW}.*", ""]))
)
def test_any_list_locks_and_a_second_run_changes_nothing(lines: list[str]) -> None:
    before = "".join(line + "\n" for line in lines)
    after = versionlock.add_own_locks(before, pin_version(OLD))
    assert versionlock.find_held_packages(after, pin_version(OLD)) == NAMES
    assert versionlock.add_own_locks(after, pin_version(OLD)) == after
    for line in ("bash-0:5.1.8-9.el9.*", "!libnccl-0:2.27.3-1+cuda12.9.*"):
        assert versionlock.parse_lock_entries(after).count(line) == versionlock.parse_lock_entries(
            before
        ).count(line)
    assert not [
        line
        for line in versionlock.parse_lock_entries(versionlock.remove_own_locks(after, NAMES))
        if line in list_locks(OLD)
    ]


def node(root: Path, text: str = "", conf: str = "enabled = 1", main: str = "") -> str:
    """Make a node whose plugin is installed; its list is not where it usually is."""
    folder = root / "etc/dnf/plugins"
    folder.mkdir(parents=True)
    (folder / "versionlock.conf").write_text(f"[main]\n{conf}\nlocklist = /etc/dnf/locked\n")
    (root / "etc/dnf/dnf.conf").write_text(f"[main]\n{main}\n")
    (root / "etc/dnf/locked").write_text(text)
    return str(root)


def build_arguments(**more: Any) -> dict[str, Any]:
    asked = {"names": NAMES, "version": OLD, "versions": None, "what": versionlock.THESE}
    return {**asked, "state": "present", **more}


def test_the_list_is_where_the_plugin_configures_it(tmp_path: Path) -> None:
    root = node(tmp_path, versionlock.add_own_locks(OTHERS, pin_version(OLD)))
    step = version_lock.plan_version_locks(build_arguments(), False, root)
    assert (step["path"], step["before"]) == (root + "/etc/dnf/locked", step["after"])
    assert step["others"] == versionlock.parse_lock_entries(OTHERS)
    assert versionlock.read_held_versions(pin_version(OLD), root) == NAMES
    assert versionlock.read_held_versions(pin_version(NEW), root) == []


@pytest.mark.parametrize(
    ("conf", "main", "why"), [("enabled=0", "", "enabled=0"), ("", "plugins=False", "plugins=0")]
)
def test_a_disabled_plugin_locks_nothing_and_is_named(
    tmp_path: Path, conf: str, main: str, why: str
) -> None:
    root = node(tmp_path, versionlock.add_own_locks("", pin_version(OLD)), conf, main)
    assert versionlock.read_held_versions(pin_version(OLD), root) == []
    for check in (False, True):
        with pytest.raises(version_lock.VersionLockError, match=rf"\[NC-107\].*{why}"):
            version_lock.plan_version_locks(build_arguments(), check, root)
    assert (
        version_lock.plan_version_locks(build_arguments(state="absent"), False, root)["after"] == ""
    )


def test_check_mode_reports_the_lock_before_the_plugin_exists(tmp_path: Path) -> None:
    step = version_lock.plan_version_locks(build_arguments(), True, str(tmp_path))
    assert (step["before"], versionlock.parse_lock_entries(step["after"])) == ("", list_locks(OLD))
    with pytest.raises(
        version_lock.VersionLockError, match=r"NC-107.*versionlock\.conf is not there"
    ):
        version_lock.plan_version_locks(build_arguments(), False, str(tmp_path))


def test_a_list_that_is_not_text_is_restored_exactly(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_bytes(b"# caf\xe9\nbash-0:5.1.8-9.el9.*\n")
    text = versionlock.read_text_file(str(path))
    back = versionlock.remove_own_locks(versionlock.add_own_locks(text, pin_version(OLD)), NAMES)
    assert back.encode("utf-8", "surrogateescape") == path.read_bytes()
    assert "caf" in answer.diff_file(str(path), text, "")["before"]


def test_the_package_survey_includes_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        listed,
        "read_held_versions",
        lambda found: versionlock.find_held_packages(f"libnccl-{OLD}.*\n", found),
    )
    here = "\t".join([*OLD.split("-"), "0", "x86_64"])
    said = f"libnccl\t{here}\nlibnccl-devel\t{here}\n"
    asked = {"manager": "dnf", "names": NAMES, "url": "file:///r", "version": "", "cuda": ""}
    seen = packages_nccl.observe_nccl_packages(lambda _: (0, said, ""), asked)
    assert (seen["satisfied"], seen["held"]) == (True, ["libnccl"])


@pytest.mark.parametrize("dpkg", [True, False])
def test_a_hold_that_is_gone_is_drift(monkeypatch: pytest.MonkeyPatch, dpkg: bool) -> None:
    """Of the apt and of the dnf kind."""
    manager = "apt" if dpkg else "dnf"
    monkeypatch.setattr(manifest.node, "find_package_manager", lambda: manager)
    monkeypatch.setattr(manifest.listed, "read_held_versions", lambda _: ["libnccl"])
    owned = manifest.merge_owned({"nccl": {"packages": pin_version(OLD), "held": NAMES}})
    asked: list[list[str]] = []

    def run(argv: list[str]) -> tuple[int, str]:
        asked.append(argv)
        rows = "libnccl\t1\tinstalled\thold\tlibnccl\nlibnccl-devel\t1\tinstalled\tinstall\tlibnccl-devel\n"
        return 0, rows if dpkg else ""

    seen = manifest.observe_owned(owned, run)["held package"]
    assert seen == {"libnccl": True, "libnccl-devel": False}
    assert len(asked) == 1
    then = {"held package": dict.fromkeys(NAMES, True)}
    assert manifest.describe_differences(then, {"held package": seen}) == [
        "held package libnccl-devel: was True, is False"
    ]


def test_a_manifest_of_an_earlier_version_has_no_holds() -> None:
    owned = manifest.merge_owned({})
    del owned["held"]
    assert manifest.observe_owned(owned)["held package"] == {}


def test_no_manifest_claims_a_lock_that_is_absent() -> None:
    owned = {"sysctls": {}, "services": {}, "packages": {}}
    state: dict[str, Any] = {"file": {}, "address": {}, "held package": {"a": True, "b": False}}
    assert node_manifest.describe_missing_state(owned, state) == ["package b is not held"]
