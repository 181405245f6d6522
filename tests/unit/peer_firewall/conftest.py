"""A root with firewalld's own files, and a simulated machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.firewall import (
    firewalld,
    preserve,
)
from ansible.module_utils.fullmesh.transaction import engine, session
from firewall_machine import PUBLIC, Machine, write_file


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_file(tmp_path, "/usr/lib/firewalld/zones/public.xml", PUBLIC)
    write_file(tmp_path, "/usr/lib/firewalld/zones/trusted.xml", '<zone target="ACCEPT"/>')
    text = '<service><port port="22" protocol="tcp"/></service>'
    write_file(tmp_path, "/usr/lib/firewalld/services/ssh.xml", text)
    return tmp_path


@pytest.fixture
def machine(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    write_file(root, "/etc/firewalld/firewalld.conf", "DefaultZone=public\n")
    monkeypatch.setattr(session, "list_ssh_clients", lambda environ, pid: [])
    monkeypatch.setattr(session, "find_ssh_session", lambda environ, pid: [])
    monkeypatch.setattr(session, "list_ssh_ports", lambda environ, pid: [22])
    monkeypatch.setattr(preserve, "PLACE", str(tmp_path / "kept"))
    monkeypatch.setattr(firewalld, "query_libnftables", lambda: "")
    monkeypatch.setattr(engine, "STORE", str(tmp_path / "rollback"))
    monkeypatch.setattr(engine, "UNITS", str(tmp_path / "units"))
    return Machine(root)
