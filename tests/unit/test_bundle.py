"""The archive of an air-gapped installation: whole or refused, and only for the machines that it was made for."""

from __future__ import annotations

import base64
import importlib
import io
import json
import os
import stat
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.fullmesh import openpgp
from ansible.module_utils.fullmesh.bundle import archive, packages

from fullmesh.roles import bundle

DEBIAN = {"distribution": "Ubuntu", "distribution_major_version": "24", "architecture": "x86_64"}
LOCK = "torch==2.13.0 --hash=sha256:…"
CONTENTS = {
    "kinds": ["CentOS-9-x86_64", "Ubuntu-24-x86_64"],
    "wheels": [{"python": "3.12", "machine": "x86_64", "lock": bundle.derive_lock_name(LOCK)}],
}


@pytest.fixture
def packed(tmp_path: Path) -> dict[str, Any]:
    """An archive with a project, a wheel and packages."""
    project = tmp_path / "project"
    (project / "roles").mkdir(parents=True)
    (project / ".venv").mkdir()
    for name in ("site.yml", "roles/main.yml", ".venv/python"):
        (project / name).write_text(name)
    (project / "same").symlink_to("roles")
    for name in ("a.whl", "el.tar"):
        (tmp_path / name).write_bytes(name.encode() * 1000)
    order = {
        "path": str(tmp_path / "b.tar"),
        "contents": CONTENTS,
        "sources": [
            {"place": "project.tar", "project": str(project)},
            {"place": "wheels", "path": str(tmp_path / "a.whl")},
            {"place": "packages/CentOS-9-x86_64.tar", "file": str(tmp_path / "el.tar")},
        ],
    }
    archive.pack_bundle(order)
    return {"path": order["path"], "folder": str(tmp_path / "opened")}


def test_a_packed_file_is_unpacked_unchanged(packed: dict[str, Any]) -> None:
    opened = archive.open_bundle(packed)
    folder = Path(opened["folder"])
    assert opened["contents"] == CONTENTS
    assert (folder / "wheels/a.whl").read_bytes() == b"a.whl" * 1000
    with tarfile.open(folder / "project.tar") as tar:
        assert sorted(tar.getnames()) == [
            "fullmesh/roles/main.yml",
            "fullmesh/same",
            "fullmesh/site.yml",
        ]
        assert tar.getmember("fullmesh/same").linkname == "roles"
    before = (folder / "wheels/a.whl").stat().st_mtime_ns
    assert archive.open_bundle(packed) == opened
    assert (folder / "wheels/a.whl").stat().st_mtime_ns == before
    done = subprocess.run(
        ["sha256sum", "-c", "b.tar.sha256"],
        cwd=Path(packed["path"]).parent,
        check=False,
        capture_output=True,
    )
    assert done.returncode == 0


def nothing_unpacked(packed: dict[str, Any]) -> bool:
    folder = Path(packed["folder"])
    return not folder.exists() or list(folder.iterdir()) == []


@pytest.mark.parametrize("place", [600, 5000, -2000])
def test_one_changed_byte_is_found(packed: dict[str, Any], place: int) -> None:
    path = Path(packed["path"])
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    with pytest.raises(archive.BundleError, match=r"\[BN-102\].*expected"):
        archive.open_bundle(packed)
    assert nothing_unpacked(packed)


def seal_archive(path: Path, files: list[tuple[str, bytes, str]]) -> None:
    """An archive whose own checksum is right and whose inside is not."""
    index = {"schema": 1, "contents": {}, "files": {name: digest for name, _, digest in files}}
    with tarfile.open(path, "w") as tar:
        for name, data in [("bundle.json", json.dumps(index).encode())] + [f[:2] for f in files]:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    Path(f"{path}.sha256").write_text(f"{archive.hash_file(str(path))}  b.tar\n")


@pytest.mark.parametrize("name", ["wheels/a.whl", "../outside"])
def test_a_file_that_differs_from_the_index_is_refused(tmp_path: Path, name: str) -> None:
    seal_archive(tmp_path / "b.tar", [(name, b"x", "0" * 64)])
    order = {"path": str(tmp_path / "b.tar"), "folder": str(tmp_path / "opened")}
    with pytest.raises(archive.BundleError, match="BN-102"):
        archive.open_bundle(order)
    assert nothing_unpacked(order)
    assert not (tmp_path / "outside").exists()


def test_a_missing_or_foreign_bundle_is_reported(packed: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(archive.BundleError, match=r"\[BN-101\] There is no bundle"):
        archive.open_bundle({**packed, "path": str(tmp_path / "nowhere.tar")})
    Path(packed["path"] + ".sha256").unlink()
    with pytest.raises(archive.BundleError, match=r"\[BN-101\] The checksum"):
        archive.open_bundle(packed)


def test_a_node_with_wrong_system_python_or_lock_is_refused() -> None:
    def codes(
        facts: dict[str, str], python: str = "/usr/bin/python3.12", lock: str = LOCK
    ) -> list[str]:
        return [
            fault.code for fault in bundle.find_bundle_faults(CONTENTS, "n1", facts, python, lock)
        ]

    assert codes(DEBIAN) == []
    assert codes({**DEBIAN, "distribution_major_version": "22"}) == ["BN-103"]
    assert codes({**DEBIAN, "architecture": "aarch64"}) == ["BN-103", "BN-104"]
    assert codes(DEBIAN, python="/usr/bin/python3.11") == ["BN-104"]
    assert codes(DEBIAN, lock="another") == ["BN-104"]
    assert codes(DEBIAN, python="/opt/own/python") == []
    (fault,) = bundle.find_bundle_faults(CONTENTS, "n1", DEBIAN, "/usr/bin/python3.12", "another")
    assert "this lock" in fault.text


def test_one_machine_of_each_kind_is_queried() -> None:
    facts = {"a": DEBIAN, "b": {**DEBIAN}, "c": {**DEBIAN, "distribution": "Rocky"}}
    assert bundle.list_first_of_kind(facts) == ["a", "c"]


def test_messages_of_apt_are_parsed() -> None:
    said = (
        "Inst libmnl0 (1.0.4-3 Ubuntu:24.04 [amd64])\n"
        "Inst chrony [4.2-1] (4.3-2+deb12u3 localhost [amd64]) []\nConf chrony (4.3-2 x)\n"
    )
    assert packages.APT_CHOSEN.findall(said) == [
        ("libmnl0", "1.0.4-3"),
        ("chrony", "4.3-2+deb12u3"),
    ]


def test_a_package_manager_that_cannot_is_named(tmp_path: Path) -> None:
    def run(argv: list[str], **_: Any) -> tuple[int, str, str]:
        return 1, "", "E: Unable to locate package nosuch\n"

    order = {"names": ["nosuch"], "url": "", "key": "", "fingerprints": [], "base": str(tmp_path)}
    for manager in ("apt", "dnf"):
        if manager == "apt" and not Path("/etc/apt/sources.list.d").is_dir():
            continue
        with pytest.raises(packages.PackageFetchError, match=r"\[BN-105\].*nosuch"):
            packages.fetch_package_bundle(run, {**order, "manager": manager})
        assert list(tmp_path.iterdir()) == []


# made with gpg for this test; the fingerprint is what gpg says
KEY = """\
-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEawN6FBYJKwYBBAHaRw8BAQdA9DWw2C2Tciaw+NvyAy9CiEY4/iESt/xXa76L
7cd7uMe0BHRlc3SIkAQTFggAOBYhBF86U7f99kLPNP6zbCkA5CZkDORIBQJrA3oU
AhsDBQsJCAcCBhUKCQgLAgQWAgMBAh4BAheAAAoJECkA5CZkDORIUuIA/Rg9cQir
ic2JUKEPetD6T0gtDpUgXmeb+x5Wl/kuhX3cAP4tuJb2ytnvUwSYvZYLzNcErhR4
ZyheTIvua9ijYBVVCQ==
=aGCH
-----END PGP PUBLIC KEY BLOCK-----
"""
FINGERPRINT = "5F3A53B7FDF642CF34FEB36C2900E426640CE448"


@pytest.fixture
def order(tmp_path: Path) -> dict[str, Any]:
    """Packages from a repository that is signed with KEY."""
    (tmp_path / "key.pub").write_text(KEY)
    (tmp_path / "base").mkdir()
    return {
        "names": ["a"],
        "manager": "dnf",
        "url": "https://mirror.example/cuda",
        "key": f"file://{tmp_path}/key.pub",
        "fingerprints": [FINGERPRINT],
        "base": str(tmp_path / "base"),
    }


class Dnf:
    """dnf and rpm, which remember what they were asked and what they saw."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.modes: list[int] = []

    def __call__(self, argv: list[str], **_: Any) -> tuple[int, str, str]:
        self.asked.append(argv)
        for word in argv:
            if word.startswith("--downloaddir="):
                folder = Path(word.partition("=")[2])
                self.modes.append(stat.S_IMODE(folder.parent.stat().st_mode))
                (folder / "a-1-1.x86_64.rpm").write_bytes(b"rpm")
        if argv[:2] == ["rpm", "--query"] and "--package" in argv:
            form = argv[argv.index("--queryformat") + 1]
            return 0, "a\tx86_64\t0\t1\t1\t9\tOne\n" if form.startswith("%{NAME}") else "", ""
        return int(argv[:2] == ["rpm", "--query"]), "", ""


def test_packages_are_collected_in_a_private_folder(order: dict[str, Any]) -> None:
    base, dnf = Path(order["base"]), Dnf()
    # names that a local user could guess (an old name, a link) are not used
    (base / "fullmesh-bundle").symlink_to(base.parent)
    (base / "fullmesh-bundle-fullmesh-nccl.asc").write_text("somebody's key")
    found = packages.fetch_package_bundle(dnf, order)
    work = Path(found["folder"])
    assert work.parent == base
    assert dnf.modes == [0o700]
    assert (work.stat().st_uid, stat.S_IMODE(work.stat().st_mode)) == (os.geteuid(), 0o755)
    assert (work / "key.asc").read_text() == KEY
    said = next(" ".join(argv) for argv in dnf.asked if argv[0] == "dnf")
    assert (
        f"fullmesh-bundle.gpgcheck=1 --setopt=fullmesh-bundle.gpgkey=file://{work}/key.asc" in said
    )
    with tarfile.open(found["tar"]) as tar:
        assert "./a-1-1.x86_64.rpm" in tar.getnames()
        assert not any("key" in name for name in tar.getnames())
    assert packages.fetch_package_bundle(Dnf(), order)["folder"] != found["folder"]


def test_only_an_explicit_no_skips_the_signature(order: dict[str, Any]) -> None:
    dnf = Dnf()
    packages.fetch_package_bundle(dnf, {**order, "key": "", "fingerprints": []})
    said = next(" ".join(argv) for argv in dnf.asked if argv[0] == "dnf")
    assert "gpgcheck=0" in said
    assert "gpgkey" not in said


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
def test_a_folder_that_others_can_write_to_is_rejected(order: dict[str, Any], mode: int) -> None:
    base = Path(order["base"])
    base.chmod(mode)
    with pytest.raises(
        packages.PackageFetchError, match=rf"\[BN-107\] {base} belongs to user \d+ and has mode"
    ):
        packages.fetch_package_bundle(Dnf(), order)
    assert list(base.iterdir()) == []
    base.chmod(0o1777)
    assert packages.fetch_package_bundle(Dnf(), order)["files"] == ["a-1-1.x86_64.rpm"]


def test_a_folder_of_another_account_is_refused(
    order: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    info = os.stat_result((stat.S_IFDIR | 0o755, 0, 0, 1, 1000, 1000, 0, 0, 0, 0))
    with monkeypatch.context() as patch:
        patch.setattr(packages.os, "geteuid", lambda: 0)
        patch.setattr(packages.os, "stat", lambda _: info)
        with pytest.raises(packages.PackageFetchError, match=r"\[BN-107\] .* belongs to user 1000"):
            packages.make_private_folder(order["base"])
    with pytest.raises(packages.PackageFetchError, match=r"BN-107.*cannot be used"):
        packages.fetch_package_bundle(Dnf(), {**order, "base": "/nonexistent"})


def test_a_key_that_is_not_the_known_one_is_refused(order: dict[str, Any]) -> None:
    wanted = "0" * 40
    with pytest.raises(
        packages.PackageFetchError, match=rf"\[BN-108\].*{FINGERPRINT}, expected: {wanted}"
    ):
        packages.fetch_package_bundle(Dnf(), {**order, "fingerprints": [wanted]})
    # EL 10: no fingerprint is known, and the key was taken all the same
    with pytest.raises(
        packages.PackageFetchError, match=rf"\[BN-108\].*{FINGERPRINT}, expected: not known"
    ):
        packages.fetch_package_bundle(Dnf(), {**order, "fingerprints": []})
    Path(order["key"][7:]).write_text("<html>not found</html>")
    with pytest.raises(
        packages.PackageFetchError, match=r"\[BN-108\].*is not a key: this is not an OpenPGP key"
    ):
        packages.fetch_package_bundle(Dnf(), order)
    Path(order["key"][7:]).unlink()
    with pytest.raises(
        packages.PackageFetchError, match=r"\[BN-105\] the key file:.*cannot be fetched"
    ):
        packages.fetch_package_bundle(Dnf(), order)
    assert list(Path(order["base"]).iterdir()) == []


def test_a_second_key_in_the_file_is_not_overlooked(order: dict[str, Any]) -> None:
    raw = openpgp.decode_armor(KEY.encode())
    other = bytearray(raw)
    other[20] ^= 1
    Path(order["key"][7:]).write_bytes(raw + bytes(other))
    with pytest.raises(packages.PackageFetchError, match="BN-108"):
        packages.fetch_package_bundle(Dnf(), order)


def test_fingerprints_are_gpgs() -> None:
    raw = openpgp.decode_armor(KEY.encode())
    assert openpgp.list_fingerprints(KEY.encode()) == [FINGERPRINT]
    assert openpgp.list_fingerprints(KEY.replace("\n", "\r\n").encode()) == [FINGERPRINT]
    assert openpgp.list_fingerprints(raw) == [FINGERPRINT]
    assert openpgp.list_fingerprints((KEY + KEY).encode()) == [FINGERPRINT, FINGERPRINT]
    begin, end = openpgp.parse_packet_header(raw, 0)[1:]
    body = raw[begin:end]
    for head in (
        b"\x99" + len(body).to_bytes(2, "big"),
        b"\xc6\xff" + len(body).to_bytes(4, "big"),
    ):
        assert openpgp.list_fingerprints(head + body) == [FINGERPRINT]
    long = b"\x04" + b"k" * 299
    two = b"\xc6" + bytes([((300 - 192) >> 8) + 192, (300 - 192) & 255])
    assert openpgp.list_fingerprints(two + long) == openpgp.list_fingerprints(
        b"\x9a\x00\x00\x01\x2c" + long
    )


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "no public key"),
        (b"\x99\x00\x10abc", "middle of a packet"),
        (b"\x99", "middle of a packet"),
        (b"\xc6\xe1abc", "partial lengths"),
        (b"\x9babc", "without a length"),
        (b"\x99\x00\x03\x03ab", "version 3"),
        (openpgp.BEGIN, "has no body"),
        (openpgp.BEGIN + b"\n\n<html>\n", "no base64"),
        (base64.b64encode(b"x"), "not an OpenPGP key"),
    ],
)
def test_an_invalid_key_is_reported(raw: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        openpgp.list_fingerprints(raw)


def test_an_already_configured_machine_is_reported() -> None:
    def run(argv: list[str], **_: Any) -> tuple[int, str, str]:
        rows = "chrony\t4\tinstalled\tinstall\tchrony\ngone\t1\tconfig-files\tdeinstall\tgone\n"
        return int(argv[-1] == "absent"), rows, ""

    names = {"names": ["chrony", "absent"]}
    assert packages.list_installed_packages(run, {**names, "manager": "dnf"}) == ["chrony"]
    assert packages.list_installed_packages(run, {**names, "manager": "apt"}) == ["chrony"]
    assert packages.describe_installed_warning(["chrony"]).startswith(
        "[BN-106] Installed here already: chrony."
    )


def test_the_repository_that_is_written_for_dnf(tmp_path: Path) -> None:
    (tmp_path / "a-1.0-1.x86_64.rpm").write_bytes(b"rpm")

    def run(argv: list[str], **_: Any) -> tuple[int, str, str]:
        form = argv[argv.index("--queryformat") + 1]
        if form.startswith("%{NAME}"):
            return 0, "a\tx86_64\t0\t1.0\t1\t9\tAn <odd> one\n/usr/bin/a\n", ""
        if "REQUIRENAME" in form:
            return 0, "b\t12\t2:1.5-3\nrpmlib(X)\t16777226\t1\nc\t0\t\n", ""
        return 0, "a\t8\t1.0-1\n" if "PROVIDENAME" in form else "(none)\t0\t\n", ""

    packages.index_dnf_packages(run, str(tmp_path), ["a-1.0-1.x86_64.rpm"])
    etree = importlib.import_module("xml.etree.ElementTree")
    primary = etree.parse(tmp_path / "repodata/primary.xml").getroot()
    entries = {
        e.get("name"): dict(e.attrib) for e in primary.iter(f"{{{packages.NAMESPACE}rpm}}entry")
    }
    assert entries["b"] == {"name": "b", "flags": "GE", "epoch": "2", "ver": "1.5", "rel": "3"}
    assert entries["a"]["flags"] == "EQ"
    assert entries["c"] == {"name": "c"}
    assert set(entries) == {"a", "b", "c"}
    repomd = (tmp_path / "repodata/repomd.xml").read_text()
    assert packages.hash_file(str(tmp_path / "repodata/primary.xml")) in repomd
