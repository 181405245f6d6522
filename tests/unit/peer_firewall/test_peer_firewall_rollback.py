"""The peers' firewall: the confirmation and the rollback."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.firewall import peers as firewall_peers
from ansible.module_utils.fullmesh.transaction import engine, session
from firewall_machine import Machine, firewall, ours, put


def test_a_confirmed_change_stays(machine: Machine) -> None:
    firewall(machine).present()
    assert firewall(machine).confirmed()["rollback"] == "disarmed"
    assert len(ours(machine)) == 5


def test_a_connection_from_before_the_change_does_not_confirm(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Established connections pass by the new rules; only one that they let in proves that there is a way in."""
    with socket.create_server(("127.0.0.1", 0)) as sshd:

        def login() -> socket.socket:
            client = socket.create_connection(sshd.getsockname())
            ends = [*client.getsockname(), *sshd.getsockname()]
            words = [str(word) for word in ends]
            monkeypatch.setattr(session, "find_ssh_session", lambda environ, pid: words)
            return client

        with login():
            firewall(machine).present()
            with pytest.raises(firewall_peers.FirewallRefusedError, match="older than the change"):
                firewall(machine).confirmed()
            assert engine.state_of(engine.folder("peer_firewall")) == "armed"
            engine.restore_transaction(engine.folder("peer_firewall"), "nobody came back")
            with pytest.raises(firewall_peers.FirewallRefusedError, match=r"\[PF-120\]"):
                firewall(machine).confirmed()
            firewall(machine).present()
        with login():
            assert firewall(machine).confirmed()["rollback"] == "disarmed"


def test_a_late_confirmation_is_reported(machine: Machine) -> None:
    firewall(machine).present()
    put(Path(engine.STORE), "/peer_firewall/fired", "")
    with pytest.raises(firewall_peers.FirewallRefusedError, match=r"\[PF-120\]"):
        firewall(machine).confirmed()
