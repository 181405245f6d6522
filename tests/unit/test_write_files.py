"""The module write_files: its decisions about files and keys."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import write_files
import yaml
from ansible.module_utils.fullmesh import file_set
from test_bundle import FINGERPRINT, KEY

from fullmesh.settings import ROOT

OTHER = "0" * 40


def item(path: Path, content: str = "x\n", mode: str = "0644") -> file_set.FileRequest:
    return file_set.request_text_file(str(path), content, mode)


def key_item(path: Path, url: Path, fingerprints: list[str]) -> file_set.FileRequest:
    """Return a request for the key of a repository."""
    return {
        "path": str(path),
        "content": None,
        "url": f"file://{url}",
        "fingerprints": fingerprints,
        "mode": "0644",
    }


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Make the key next to a repository."""
    place = tmp_path / "source.asc"
    place.write_text(KEY)
    return place


def test_only_differing_files_are_written(tmp_path: Path) -> None:
    same, other, mode, gone = (tmp_path / name for name in ("same", "other", "mode", "gone"))
    for path in (same, other, mode):
        path.write_text("x\n")
        path.chmod(0o644)
    files = [item(same), item(other, "y\n"), item(mode, mode="0755"), item(tmp_path / "new/file")]
    steps = file_set.plan_file_changes(files, [str(gone)])
    assert [Path(step["path"]).name for step in steps] == ["other", "mode", "file"]
    assert file_set.plan_file_changes([], [str(same)])[0]["after"]["exists"] is False


def test_a_folder_instead_of_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a regular file"):
        file_set.plan_file_changes([item(tmp_path)], [])


def test_missing_directories_come_parents_first(tmp_path: Path) -> None:
    deep = tmp_path / "a/b"
    found = file_set.list_missing_directories([str(deep), str(tmp_path / "a"), str(tmp_path)])
    assert found == [str(tmp_path / "a"), str(deep)]


def test_a_diff_shows_content_and_mode(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x\n")
    os.chmod(path, 0o644)
    assert file_set.format_file_state(file_set.read_file_state(str(path))) == "mode 0644\nx\n"
    assert file_set.format_file_state(file_set.read_file_state(str(tmp_path / "none"))) == ""


@pytest.mark.parametrize("expected", [[FINGERPRINT], [OTHER, FINGERPRINT.lower()], ["any"]])
def test_a_key_with_an_expected_fingerprint_is_installed(
    tmp_path: Path, source: Path, expected: list[str]
) -> None:
    (step,) = file_set.plan_file_changes([key_item(tmp_path / "key.asc", source, expected)], [])
    assert step["after"]["content"] == KEY.encode()


@pytest.mark.parametrize(("expected", "shown"), [([OTHER], OTHER), ([], "not known to Fullmesh")])
def test_a_key_with_another_fingerprint_is_refused(
    tmp_path: Path, source: Path, expected: list[str], shown: str
) -> None:
    words = rf"source.asc has the fingerprint {FINGERPRINT}, expected: {shown}"
    with pytest.raises(file_set.KeyRefusedError, match=words):
        file_set.plan_file_changes([key_item(tmp_path / "key.asc", source, expected)], [])
    source.write_text("<html>a proxy's page</html>")
    with pytest.raises(file_set.KeyRefusedError, match="is not a key: this is not an OpenPGP key"):
        file_set.plan_file_changes([key_item(tmp_path / "key.asc", source, expected)], [])


@pytest.mark.parametrize("before", [KEY, "<html>"])
def test_a_key_of_an_earlier_run_is_compared_as_well(
    tmp_path: Path, source: Path, before: str
) -> None:
    place = tmp_path / "key.asc"
    place.write_text(before)
    with pytest.raises(file_set.KeyRefusedError):
        file_set.plan_file_changes([key_item(place, source, [OTHER])], [])
    steps = file_set.plan_file_changes([key_item(place, source, [FINGERPRINT])], [])
    assert [step["after"]["content"] for step in steps] == [KEY.encode()] * (before != KEY)


class FakeModule:
    """The parts of AnsibleModule that `write_files` uses: its parameters, and its end."""

    asked: ClassVar[dict[str, Any]] = {}
    params: ClassVar[dict[str, Any]] = {}

    def __init__(self, **asked: Any) -> None:
        type(self).asked = asked

    def fail_json(self, msg: str) -> None:
        raise SystemExit(msg)


@pytest.mark.parametrize(
    ("code", "setting"),
    [
        ("NC-110", "nccl_repository_fingerprints"),
        ("CT-111", "container_toolkit_repository_fingerprints"),
    ],
)
def test_a_refused_key_shows_code_fingerprints_and_setting(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Path, code: str, setting: str
) -> None:
    place = tmp_path / "key.asc"
    params = {
        "files": [key_item(place, source, [OTHER])],
        "absent": [],
        "key_code": code,
        "key_setting": setting,
    }
    monkeypatch.setattr(FakeModule, "params", params)
    monkeypatch.setattr(write_files, "AnsibleModule", FakeModule)
    with pytest.raises(SystemExit) as refused:
        write_files.main()
    message = str(refused.value)
    assert message.startswith(
        f"[{code}] file://{source} has the fingerprint {FINGERPRINT}, expected"
    )
    assert f"expected: {OTHER}" in message
    assert "Fix: compare the fingerprint seen" in message
    assert f"set {setting} to it" in message
    assert not place.exists()
    # a key cannot be requested without fingerprints
    assert FakeModule.asked["argument_spec"]["files"]["required_together"] == [
        ["url", "fingerprints"]
    ]


def entries_with_url(tree: object) -> Iterator[dict[str, Any]]:
    """List every mapping in a YAML tree with a path and a source URL."""
    if isinstance(tree, dict):
        if {"path", "url"} <= tree.keys():
            yield tree
        for value in tree.values():
            yield from entries_with_url(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from entries_with_url(value)


SIGNED = sorted(
    {
        template.parent.parent.name
        for template in ROOT.glob("roles/*/templates/*")
        if any(word in template.read_text() for word in ("gpgkey=", "Signed-By:"))
    }
)


def test_roles_that_sign_are_found() -> None:
    assert SIGNED == ["container_toolkit", "nccl"]


@pytest.mark.parametrize("role", SIGNED)
def test_a_role_that_installs_a_repository_key_compares_its_fingerprint(role: str) -> None:
    folder = ROOT / "roles" / role
    found = [
        entry
        for path in sorted(folder.glob("*/*.yml"))
        for entry in entries_with_url(yaml.safe_load(path.read_text()))
    ]
    assert found
    assert all(entry["fingerprints"] == f"{{{{ __{role}_fingerprints }}}}" for entry in found)
    known = [
        fingerprint
        for path in folder.glob("vars/*.yml")
        for fingerprint in yaml.safe_load(path.read_text()).get(f"__{role}_vendor_fingerprints", [])
    ]
    assert known
    assert all(re.fullmatch("[0-9A-F]{40}", one) for one in known)


def test_no_key_is_accepted_unchecked() -> None:
    """No task lets dnf accept a key, except for repositories whose key was checked."""
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in [*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("playbooks/**/*.yml")]
        for line in path.read_text().splitlines()
        if re.search(r"rpm_key|apt_key|--import|assumeyes|nogpgcheck|disable_gpg_check", line)
        and not line.strip().startswith("#")
    ]
    assert found == [
        "roles/container_toolkit/tasks/install_dnf.yml: - \"{{ __theirs | ternary('--assumeno', '--assumeyes') }}\"",
        # streams: no package is installed
        "roles/nvidia_driver/tasks/install_dnf.yml: argv: [dnf, --assumeyes, module, reset, "
        "\"{{ __nvidia_driver_offers['stream'] }}\"]",
        "roles/nvidia_driver/tasks/install_dnf.yml: argv: [dnf, --assumeyes, module, enable, "
        "\"{{ __nvidia_driver_todo['leave'] }}\"]",
        # with an empty gpgkey=
        "roles/nvidia_driver/tasks/restore_versions_dnf.yml: - --assumeyes",
    ]
