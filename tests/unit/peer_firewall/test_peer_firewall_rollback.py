"""The peers' firewall: confirmation and rollback."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.firewall import peers as firewall_peers
from ansible.module_utils.fullmesh.transaction import engine, session
from firewall_machine import Machine, list_own_files, make_firewall, write_file


def test_confirmed_change_is_kept(machine: Machine) -> None:
    make_firewall(machine).present()
    assert make_firewall(machine).confirmed()["rollback"] == "disarmed"
    assert len(list_own_files(machine)) == 5


def test_old_connection_does_not_confirm(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Established connections bypass the new rules. Only a new connection proves that the node is reachable."""
    with socket.create_server(("127.0.0.1", 0)) as sshd:

        def open_ssh_session() -> socket.socket:
            client = socket.create_connection(sshd.getsockname())
            ends = [*client.getsockname(), *sshd.getsockname()]
            fields = [str(word) for word in ends]
            monkeypatch.setattr(session, "find_ssh_session", lambda environ, pid: fields)
            return client

        with open_ssh_session():
            make_firewall(machine).present()
            with pytest.raises(firewall_peers.FirewallRefusedError, match="older than the change"):
                make_firewall(machine).confirmed()
            assert engine.state_of(engine.folder("peer_firewall")) == "armed"
            engine.restore_transaction(engine.folder("peer_firewall"), "nobody came back")
            with pytest.raises(firewall_peers.FirewallRefusedError, match=r"\[PF-120\]"):
                make_firewall(machine).confirmed()
            make_firewall(machine).present()
        with open_ssh_session():
            assert make_firewall(machine).confirmed()["rollback"] == "disarmed"


def test_a_late_confirmation_is_reported(machine: Machine) -> None:
    make_firewall(machine).present()
    write_file(Path(engine.STORE), "/peer_firewall/fired", "")
    with pytest.raises(firewall_peers.FirewallRefusedError, match=r"\[PF-120\]"):
        make_firewall(machine).confirmed()
