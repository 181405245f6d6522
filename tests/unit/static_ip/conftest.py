"""A node whose network a simulated machine holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.fullmesh.network import links as network_links
from static_ip_node import Machine, make_machine


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real engine with another root, and no time to lose."""
    tx, root = network_links.engine, str(tmp_path)
    monkeypatch.setattr(tx, "STORE", root + "/store")
    monkeypatch.setattr(tx, "UNITS", root + "/units")
    monkeypatch.setattr(tx, "wait_for_exit", lambda process: None)
    monkeypatch.setattr(tx, "read_kernel_view", lambda names: {"links": {}, "routes": []})
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    monkeypatch.setattr(network_links.session, "find_ssh_session", lambda *_: [])
    arm, apply = tx.arm, tx.apply_change

    def rooted_arm(
        run: Any, name: str, seconds: int, paths: list[str], *more: Any, **by: Any
    ) -> None:
        arm(run, name, seconds, [root + path for path in paths], *more, **by)

    def rooted_apply(run: Any, name: str, files: dict[str, Any], *more: Any, **by: Any) -> None:
        apply(run, name, {root + path: then for path, then in files.items()}, *more, **by)

    monkeypatch.setattr(tx, "arm", rooted_arm)
    monkeypatch.setattr(tx, "apply_change", rooted_apply)


@pytest.fixture(params=["networkmanager", "netplan"])
def machine(
    request: pytest.FixtureRequest, tmp_path: Path, engine: None, monkeypatch: pytest.MonkeyPatch
) -> Machine:
    return make_machine(tmp_path, request.param, monkeypatch)
