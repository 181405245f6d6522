"""A node in a temporary folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.transaction import engine as transaction_engine
from rollback_machine import RollbackNode


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RollbackNode:
    node_machine = RollbackNode(tmp_path)
    monkeypatch.setattr(transaction_engine, "STORE", str(node_machine.store))
    monkeypatch.setattr(transaction_engine, "UNITS", str(node_machine.units))
    return node_machine
