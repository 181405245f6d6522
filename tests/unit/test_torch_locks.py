"""Locks of torch for many Pythons and machines: select lines, and download files on the controller."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils.fullmesh import wheelhouse

from fullmesh import cli
from fullmesh.observed import wheel_locks
from fullmesh.roles import torch_locks

SHA = "0" * 64
LINUX = "sys_platform == 'linux'"
# As uv pip compile --universal writes it.
RESOLVED = f"""\
filelock==4.1.0 ; python_full_version < '3.11' and {LINUX} \\
    --hash=sha256:{SHA} \\
    --hash=sha256:{SHA[1:]}1
filelock==4.2.12 ; python_full_version >= '3.11' and {LINUX} \\
    --hash=sha256:{SHA}
networkx==3.6.1 ; python_full_version == '3.11.*' and {LINUX} \\
    --hash=sha256:{SHA}
sympy==1.13.0 ; python_full_version >= '3.11' and python_full_version < '3.13' and {LINUX} \\
    --hash=sha256:{SHA}
nvidia-cuda-runtime-cu12==12.8.90 ; platform_machine == 'x86_64' and {LINUX} \\
    --hash=sha256:{SHA}
colorama==0.4.6 ; sys_platform == 'win32' \\
    --hash=sha256:{SHA}
setuptools==84.2.1 ; (python_full_version >= '3.12' and {LINUX}) or (platform_machine == 'x86_64' and {LINUX}) \\
    --hash=sha256:{SHA}
torch==2.10.0 ; {LINUX} \\
    --hash=sha256:{SHA}
"""


def list_requirements(text: str) -> list[str]:
    return [line.split(" --hash")[0].rstrip() for line in wheel_locks.parse_logical_lines(text)]


def test_markers_contain_only_differences_between_targets() -> None:
    assert list_requirements(torch_locks.render_lock_entries(RESOLVED)) == [
        "filelock==4.1.0 ; python_version == '3.10'",
        "filelock==4.2.12 ; python_version >= '3.11'",
        "networkx==3.6.1 ; python_version == '3.11'",
        "sympy==1.13.0 ; python_version >= '3.11' and python_version <= '3.12'",
        "nvidia-cuda-runtime-cu12==12.8.90 ; platform_machine == 'x86_64'",
        "setuptools==84.2.1 ; (python_full_version >= '3.12' and sys_platform == 'linux') or "
        "(platform_machine == 'x86_64' and sys_platform == 'linux')",
        "torch==2.10.0",
    ]
    alone = list_requirements(torch_locks.render_lock_entries(RESOLVED, ["x86_64"]))
    assert "nvidia-cuda-runtime-cu12==12.8.90" in alone
    assert "setuptools==84.2.1" in alone


@pytest.mark.parametrize("served", [torch_locks.MACHINES, ("x86_64",)])
@pytest.mark.parametrize("python", torch_locks.PYTHONS)
def test_a_short_marker_equals_the_long_one(python: str, served: list[str]) -> None:
    short = torch_locks.render_lock_entries(RESOLVED, served)
    for machine in served:
        before = wheel_locks.filter_lock_lines(RESOLVED, python, machine)
        after = wheel_locks.filter_lock_lines(short, python, machine)
        assert [line.split() for line in after] == [line.split() for line in before]


def test_a_lock_has_one_line_for_each_package() -> None:
    lines = torch_locks.render_lock_entries(RESOLVED).splitlines()
    assert all("==" in line and " --hash=sha256:" in line for line in lines)
    assert len({line.split()[0] for line in lines}) == len(lines)


def test_a_torch_without_an_old_python_is_resolved_from_a_newer_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = []

    def resolve(_wanted: object, _index: str, python: str) -> str:
        tried.append(python)
        if python == "3.10":
            raise torch_locks.TorchLockError("(>=3.10) does not satisfy Python>=3.11")
        return RESOLVED

    monkeypatch.setattr(torch_locks, "resolve_from_python", resolve)
    assert torch_locks.resolve_requirements(["torch==2.15.0"], "") == RESOLVED
    assert tried == ["3.10", "3.11"]


def test_another_error_of_the_resolution_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def resolve(_wanted: object, _index: str, _python: str) -> str:
        raise torch_locks.TorchLockError("no network")

    monkeypatch.setattr(torch_locks, "resolve_from_python", resolve)
    with pytest.raises(torch_locks.TorchLockError, match="no network"):
        torch_locks.resolve_requirements(["torch==2.15.0"], "")


def test_a_cpu_build_is_recognized_by_missing_packages() -> None:
    assert torch_locks.find_target_accelerator(RESOLVED, ("3.12", "x86_64")) == "cuda12.8"
    assert torch_locks.find_target_accelerator(RESOLVED, ("3.12", "aarch64")) == "cpu"


@pytest.mark.parametrize(
    ("torch", "wanted"), [("2.10.0", "torchaudio<=2.10.0"), ("2.13.0+cu126", "torchaudio<=2.13.0")]
)
def test_torchaudio_is_never_newer_than_torch(torch: str, wanted: str) -> None:
    assert torch_locks.limit_companions(torch, ["torchvision", "torchaudio"]) == [
        "torchvision",
        wanted,
    ]


def params(path: Path, machine: str) -> dict[str, object]:
    names = [f"manylinux_2_28_{machine}", f"linux_{machine}"]
    return {"requirements": str(path), "python": "3.10", "platforms": names}


def test_the_controller_downloads_the_packages_of_the_node(tmp_path: Path) -> None:
    """With another Python than its own: pip would judge the markers by the one that runs it."""
    path = tmp_path / "lock.txt"
    path.write_text(RESOLVED)
    wanted = wheelhouse.select_node_requirements(params(path, "aarch64"), str(tmp_path))
    assert wanted["requirements"] != str(path)
    lines = Path(wanted["requirements"]).read_text().splitlines()
    assert [line.split(" --hash")[0] for line in lines] == ["filelock==4.1.0", "torch==2.10.0"]
    assert lines[0].count("--hash=sha256:") == 2


def test_a_lock_without_markers_is_used_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "lock.txt"
    path.write_text(f"# one; for all\ntorch==2.10.0 --hash=sha256:{SHA}\n")
    given = params(path, "x86_64")
    assert wheelhouse.select_node_requirements(given, str(tmp_path)) == given


def test_an_unknown_accelerator(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["torch-lock", "--accelerator", "gpu"]) == 1
    assert "[CL-115] No lock of torch 2.13.0 for gpu: the accelerator is unknown" in (
        capsys.readouterr().err
    )
