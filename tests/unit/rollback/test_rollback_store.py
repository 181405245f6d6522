"""The rollback: files come back exactly, and nothing is left behind."""

from __future__ import annotations

import os
from pathlib import Path

from ansible.module_utils.fullmesh.transaction import engine as transaction_engine
from hypothesis import given
from hypothesis import strategies as st
from rollback_machine import NAME, Machine, furnish, manifest


def spoil(paths: list[Path]) -> None:
    """Change everything that can be changed."""
    plain, private, link, new, deep = paths
    plain.write_text("changed")
    plain.chmod(0o600)
    private.unlink()
    link.unlink()
    link.write_text("no link any more")
    new.write_text("x")
    deep.parent.mkdir(parents=True)
    deep.write_text("y")


def test_files_modes_owners_times_and_links_are_restored_exactly(node: Machine) -> None:
    paths = furnish(node)
    before = manifest(node.etc)
    node.arm(*paths, commands=[["touch", str(node.root / "ran")], f"echo $0 > {node.root}/shell"])
    spoil(paths)
    node.engine("restore", str(node.folder))
    assert manifest(node.etc) == before
    assert (node.root / "ran").exists()
    assert (node.root / "shell").exists()
    report = transaction_engine.report_of(NAME)
    assert sorted(report["files"]) == sorted(map(str, paths))
    assert report["faults"] == []
    assert transaction_engine.disarm(node.run, NAME) == "fired"
    assert transaction_engine.disarm(node.run, NAME) == "idle"


def test_extended_attributes_come_back(node: Machine) -> None:
    """SELinux's labels are such; ext4, xfs, overlay, and tmpfs since Linux 6.6, take ours as well."""
    path = node.etc / "labelled"
    path.write_text("one")
    os.setxattr(path, "user.fullmesh", b"label")
    before = manifest(node.etc)
    node.arm(path)
    path.unlink()
    node.engine("restore", str(node.folder))
    assert manifest(node.etc) == before


def test_a_confirmed_change_leaves_only_the_log(node: Machine) -> None:
    paths = furnish(node)
    node.arm(*paths)
    assert (node.units / transaction_engine.BOOT).exists()
    spoil(paths)
    after = manifest(node.etc)
    assert transaction_engine.disarm(node.run, NAME) == "disarmed"
    assert manifest(node.etc) == after
    assert sorted(path.name for path in node.store.iterdir()) == ["engine.py", "lock", "log"]
    assert not node.units.exists()
    assert [line.split(": ")[1] for line in node.log().splitlines()] == [
        "armed for 30 s",
        "confirmed",
    ]


def test_the_boot_unit_is_there_while_armed_and_gone_after(node: Machine) -> None:
    node.units.mkdir()
    before = manifest(node.units)
    node.arm()
    unit = (node.units / transaction_engine.BOOT).read_text()
    assert (
        f"ExecStart={transaction_engine.find_system_python()} {node.store}/engine.py boot {node.store}"
        in unit
    )
    for line in ("Before=network-pre.target", "firewalld.service", "systemd-networkd.service"):
        assert line in unit
    assert (
        node.units / transaction_engine.WANTS / transaction_engine.BOOT
    ).resolve() == node.units / transaction_engine.BOOT
    node.engine("restore", str(node.folder))
    assert manifest(node.units) == before


def test_only_root_can_read_the_backup(node: Machine) -> None:
    node.arm(*furnish(node))
    assert node.store.stat().st_mode & 0o077 == 0
    assert node.folder.stat().st_mode & 0o077 == 0


def test_the_log_is_bounded_and_keeps_the_newest(node: Machine) -> None:
    node.store.mkdir()
    for number in range(3000):
        transaction_engine.append_log(str(node.store), f"line {number} " + "x" * 60)
    assert (node.store / "log").stat().st_size < transaction_engine.LOG_BYTES + 200
    assert node.log().splitlines()[-1].split()[2] == "2999"
    assert all(line.split()[1] == "line" for line in node.log().splitlines())


@given(st.lists(st.binary(max_size=200), max_size=4), st.lists(st.booleans(), min_size=4))
def test_any_bytes_come_back(contents: list[bytes], gone: list[bool]) -> None:
    import tempfile  # noqa: PLC0415 (hypothesis has no function-scoped tmp_path)

    with tempfile.TemporaryDirectory() as top:
        kept = Path(top) / "kept"
        kept.mkdir()
        paths = [Path(top) / str(number) for number in range(len(contents))]
        for path, data in zip(paths, contents):
            path.write_bytes(data)
        before = manifest(Path(top))
        entries = [transaction_engine.save_path(str(p), n, str(kept)) for n, p in enumerate(paths)]
        for path, away in zip(paths, gone):
            path.unlink() if away else path.write_bytes(b"changed")
        for entry in entries:
            transaction_engine.restore_saved_path(entry, str(kept))
        for saved in kept.iterdir():
            saved.unlink()
        assert manifest(Path(top)) == before
