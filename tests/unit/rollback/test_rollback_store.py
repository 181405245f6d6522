"""The rollback: files are restored exactly, and nothing is left behind."""

from __future__ import annotations

import os
from pathlib import Path

from ansible.module_utils.fullmesh.transaction import engine as transaction_engine
from hypothesis import given
from hypothesis import strategies as st
from rollback_machine import NAME, RollbackNode, describe_files, write_sample_files


def change_files(paths: list[Path]) -> None:
    """Change all files in all ways."""
    plain, private, link, new, deep = paths
    plain.write_text("changed")
    plain.chmod(0o600)
    private.unlink()
    link.unlink()
    link.write_text("no link any more")
    new.write_text("x")
    deep.parent.mkdir(parents=True)
    deep.write_text("y")


def test_files_modes_owners_times_and_links_are_restored_exactly(node: RollbackNode) -> None:
    paths = write_sample_files(node)
    before = describe_files(node.etc)
    node.arm(*paths, commands=[["touch", str(node.root / "ran")], f"echo $0 > {node.root}/shell"])
    change_files(paths)
    node.run_engine("restore", str(node.folder))
    assert describe_files(node.etc) == before
    assert (node.root / "ran").exists()
    assert (node.root / "shell").exists()
    report = transaction_engine.report_of(NAME)
    assert sorted(report["files"]) == sorted(map(str, paths))
    assert report["faults"] == []
    assert transaction_engine.disarm(node.run, NAME) == "fired"
    assert transaction_engine.disarm(node.run, NAME) == "idle"


def test_extended_attributes_are_restored(node: RollbackNode) -> None:
    """As SELinux labels. ext4, xfs, overlay, and tmpfs since Linux 6.6 also support user attributes."""
    path = node.etc / "labelled"
    path.write_text("one")
    os.setxattr(path, "user.fullmesh", b"label")
    before = describe_files(node.etc)
    node.arm(path)
    path.unlink()
    node.run_engine("restore", str(node.folder))
    assert describe_files(node.etc) == before


def test_a_confirmed_change_leaves_only_the_log(node: RollbackNode) -> None:
    paths = write_sample_files(node)
    node.arm(*paths)
    assert (node.units / transaction_engine.BOOT).exists()
    change_files(paths)
    after = describe_files(node.etc)
    assert transaction_engine.disarm(node.run, NAME) == "disarmed"
    assert describe_files(node.etc) == after
    assert sorted(path.name for path in node.store.iterdir()) == ["engine.py", "lock", "log"]
    assert not node.units.exists()
    assert [line.split(": ")[1] for line in node.read_log().splitlines()] == [
        "armed for 30 s",
        "confirmed",
    ]


def test_boot_unit_exists_only_while_armed(node: RollbackNode) -> None:
    node.units.mkdir()
    before = describe_files(node.units)
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
    node.run_engine("restore", str(node.folder))
    assert describe_files(node.units) == before


def test_only_root_can_read_the_backup(node: RollbackNode) -> None:
    node.arm(*write_sample_files(node))
    assert node.store.stat().st_mode & 0o077 == 0
    assert node.folder.stat().st_mode & 0o077 == 0


def test_log_is_bounded_and_keeps_the_newest_lines(node: RollbackNode) -> None:
    node.store.mkdir()
    for number in range(3000):
        transaction_engine.append_log(str(node.store), f"line {number} " + "x" * 60)
    assert (node.store / "log").stat().st_size < transaction_engine.LOG_BYTES + 200
    assert node.read_log().splitlines()[-1].split()[2] == "2999"
    assert all(line.split()[1] == "line" for line in node.read_log().splitlines())


@given(st.lists(st.binary(max_size=200), max_size=4), st.lists(st.booleans(), min_size=4))
def test_any_content_is_restored(contents: list[bytes], deleted: list[bool]) -> None:
    import tempfile  # noqa: PLC0415 (hypothesis has no function-scoped tmp_path)

    with tempfile.TemporaryDirectory() as top:
        kept = Path(top) / "kept"
        kept.mkdir()
        paths = [Path(top) / str(number) for number in range(len(contents))]
        for path, data in zip(paths, contents):
            path.write_bytes(data)
        before = describe_files(Path(top))
        entries = [transaction_engine.save_path(str(p), n, str(kept)) for n, p in enumerate(paths)]
        for path, away in zip(paths, deleted):
            path.unlink() if away else path.write_bytes(b"changed")
        for entry in entries:
            transaction_engine.restore_saved_path(entry, str(kept))
        for saved in kept.iterdir():
            saved.unlink()
        assert describe_files(Path(top)) == before
