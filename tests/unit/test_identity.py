"""Machine identities: their digests, and the findings for two nodes of one image."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import records
from ansible.module_utils.fullmesh.survey import identity
from causes import changes

ID = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(identity, "MACHINE_ID", str(tmp_path / "machine-id"))
    monkeypatch.setattr(identity, "HOST_KEYS", str(tmp_path / "ssh_host_*_key.pub"))
    return tmp_path


@pytest.mark.parametrize("text", ["", "uninitialized\n", ID[:-1], ID.upper()])
def test_an_invalid_machine_id_is_ignored(place: Path, text: str) -> None:
    (place / "machine-id").write_text(text)
    assert identity.hash_machine_id() == ""


def test_neither_id_nor_key_leaves_the_node(place: Path) -> None:
    key = place / "ssh_host_ed25519_key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    (place / "machine-id").write_text(ID + "\n")
    (place / "ssh_host_rsa_key.pub").write_text("no key at all\n")
    found = identity.survey_identity()
    shown = subprocess.run(
        ["ssh-keygen", "-lf", f"{key}.pub"], check=True, capture_output=True, text=True
    ).stdout
    assert found["host_keys"] == [shown.split()[1]]
    public = Path(f"{key}.pub").read_text().split()[1]
    assert len(found["machine_id"]) == len(identity.hash_machine_id()) > 0
    assert ID not in str(found)
    assert public not in str(found)


def test_nodes_of_one_image_are_one_finding() -> None:
    world = records.load_world("healthy")
    changes.copy_image("machine_id", "host_keys")(world)
    (finding,) = records.diagnose_answers(world)["findings"]
    assert "one machine-id, ssh host keys" in finding["cause"]
    assert finding["seen"] == "555555555555, SHA256:one"
    assert "systemd-machine-id-setup" in finding["fix"]
    assert "ssh-keygen -A" in finding["fix"]


def test_nodes_without_a_common_identity_are_distinct() -> None:
    world = records.load_world("healthy")
    changes.copy_image()(world)
    assert records.diagnose_answers(world)["findings"] == []
