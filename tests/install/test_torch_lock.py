"""``fullmesh torch-lock`` against the package index: the new lock serves the same systems as the committed one."""

from __future__ import annotations

from pathlib import Path

import pytest

from fullmesh import cli
from fullmesh.roles import torch_locks, torch_runtime


@pytest.mark.rest  # the index changes on its own, and CI must not depend on new releases
def test_a_lock_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch, accelerator = torch_locks.COMMITTED[1]
    path = tmp_path / "torch.txt"
    words = ["torch-lock", "--torch", torch, "--accelerator", accelerator, "-o", str(path)]
    assert cli.main(words) == 0
    text = path.read_text()
    committed = (torch_locks.FILES / f"torch-{torch}-{accelerator}.txt").read_text()
    assert torch_runtime.parse_lock_targets(text) == torch_runtime.parse_lock_targets(committed)
    assert torch_runtime.find_lock_faults(str(path), text) == []
    assert torch_runtime.parse_lock_pins(text)["torch"] == torch
    assert f"torch_runtime_requirements: {path}" in capsys.readouterr().out


def test_an_unpublished_torch_version_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "torch.txt"
    assert cli.main(["torch-lock", "--torch", "99.0.0", "-o", str(path)]) == 1
    assert "[CL-115] No lock of torch 99.0.0 for cuda13.0" in capsys.readouterr().err
    assert not path.exists()
