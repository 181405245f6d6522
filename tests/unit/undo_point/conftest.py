"""A node with a simulated systemd."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.state import undo
from undo_node import SimulatedSystemd


@pytest.fixture
def systemd() -> SimulatedSystemd:
    return SimulatedSystemd()


@pytest.fixture
def node(tmp_path: Path, systemd: SimulatedSystemd) -> undo.NodeSystem:
    for directory in ("etc", "proc/sys/net/ipv4", "var/lib/dpkg"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/status").write_text("Package: base\n")
    return undo.NodeSystem(str(tmp_path), systemd)
