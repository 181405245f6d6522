"""Shared by the tests of the rollback: a simulated node with files, links and attributes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from ansible.module_utils.fullmesh.transaction import engine as transaction_engine

NAME = "static_ip"


class RollbackNode:
    """Simulate a root of files, and a systemd that records its commands."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.etc = root / "etc"
        self.etc.mkdir()
        self.store = root / "store"
        self.units = root / "units"
        self.calls: list[list[str]] = []
        self.rc = 0
        self.ignores_trial = False

    def run(self, argv: list[str]) -> tuple[int, str]:
        self.calls.append(argv)
        if argv[-1].endswith(" rehearse") and not self.ignores_trial:
            # the real chain: sh, the script, the engine as a program
            chain = argv[argv.index("/bin/sh") :]
            return subprocess.run(chain, check=False, timeout=60).returncode, ""
        return (self.rc, "no") if argv[0] == "systemd-run" else (0, "")

    def arm(self, *paths: Path, commands: list[Any] | None = None, **more: Any) -> None:
        transaction_engine.arm(
            self.run, NAME, 30, [str(path) for path in paths], commands or [], **more
        )

    def list_guards(self) -> list[list[str]]:
        """List the commands that start guards, in order."""
        return [call for call in self.calls if call[-1].endswith(" guard")]

    def pass_time(self, seconds: int) -> None:
        """Let the time of the waiting change pass."""
        journal = json.loads((self.folder / "journal.json").read_text())
        journal["monotonic"] -= seconds
        (self.folder / "journal.json").write_text(json.dumps(journal))

    def run_engine(self, *words: str) -> None:
        """Run the engine as systemd would."""
        command = [sys.executable, str(self.store / "engine.py"), *words]
        subprocess.run(command, check=True, timeout=60)

    @property
    def folder(self) -> Path:
        return self.store / NAME

    def read_log(self) -> str:
        return (self.store / "log").read_text()


def describe_files(top: Path) -> list[tuple[Any, ...]]:
    """Describe all files of a directory: kind, mode, owner, bytes, times, extended attributes."""
    found = []
    for path in sorted(top.rglob("*")):
        info = path.lstat()
        data = os.readlink(path) if path.is_symlink() else path.is_file() and path.read_bytes()
        names = os.listxattr(path, follow_symlinks=False)
        values = [os.getxattr(path, name, follow_symlinks=False) for name in names]
        when = 0 if path.is_dir() else info.st_mtime_ns
        found.append((str(path), info.st_mode, info.st_uid, info.st_gid, data, when, names, values))
    return found


def write_sample_files(node: RollbackNode) -> list[Path]:
    """Write files of every kind. Return their paths, and some of missing files."""
    plain, private, link = node.etc / "plain", node.etc / "pri'vate", node.etc / "link"
    plain.write_text("one\n")
    private.write_bytes(b"\x00two")
    private.chmod(0o4750)
    os.utime(private, ns=(1, 1234567890123456789))
    if os.geteuid() == 0:
        os.chown(private, 12, 34)
    link.symlink_to("plain")
    return [plain, private, link, node.etc / "new", node.etc / "a/b/new"]
