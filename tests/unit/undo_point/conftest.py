"""A node whose units a simulated systemd holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.state import undo
from undo_node import Systemd


@pytest.fixture
def systemd() -> Systemd:
    return Systemd()


@pytest.fixture
def node(tmp_path: Path, systemd: Systemd) -> undo.NodeSystem:
    for directory in ("etc", "proc/sys/net/ipv4", "var/lib/dpkg"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/status").write_text("Package: base\n")
    return undo.NodeSystem(str(tmp_path), systemd)
