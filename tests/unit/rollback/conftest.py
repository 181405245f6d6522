"""A node whose files a change may spoil, in a folder of the test."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.transaction import engine as transaction_engine
from rollback_machine import Machine


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path)
    monkeypatch.setattr(transaction_engine, "STORE", str(machine.store))
    monkeypatch.setattr(transaction_engine, "UNITS", str(machine.units))
    return machine
