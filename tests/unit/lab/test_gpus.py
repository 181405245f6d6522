"""The scenarios of simulated GPUs, and the settings that are rejected."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from devtools.lab import cli, gpus
from devtools.lab.errors import LabError
from fullmesh.settings import ROOT

SOURCE = (ROOT / "lab/gpu/nvml.c").read_text()
FILES = (ROOT / "src/devtools/lab/gpu_files.py").read_text()


def test_healthy_gpus_have_a_line_for_each_fact() -> None:
    lines = gpus.play("h100x8")
    values = gpus.values(lines)
    assert (values["gpus"], values["*.memory"]) == ("8", str(81559 * 1024 * 1024))
    assert len({values[f"{at}.bus"] for at in range(8)}) == 8
    assert gpus.check_lines(lines) == lines
    assert not [line for line in gpus.play("l40sx2") if "link" in line or "fabric" in line]


def test_specific_settings_come_last_and_win() -> None:
    lines = gpus.play("h100x8", ["gpus=7", "3.ecc_lost=2"])
    values = gpus.values(lines)
    assert (values["gpus"], values["pci"]) == ("7", "8")
    assert lines[-1] == "3.ecc_lost=2"


def test_all_invalid_lines_are_listed() -> None:
    with pytest.raises(
        LabError, match=r"\[LB-119\].*'ecc=1', '3.gpus=7', '3.colour=red', 'x'"
    ) as error:
        gpus.check_lines(["ecc=1", "3.gpus=7", "3.colour=red", "x", "driver=580.1", "*.ecc=0"])
    assert "links_down" in str(error.value)


def test_unknown_gpu_models_are_rejected() -> None:
    with pytest.raises(LabError, match=r"\[LB-118\] no GPUs are called 'b200x8'. Known: h100x8"):
        gpus.check_play("b200x8")
    assert gpus.check_play(gpus.NONE) == "none"


def test_every_key_is_read_by_the_library_or_installer() -> None:
    read_keys = set(re.findall(r'"([a-z_]+)"', SOURCE))
    assert set(gpus.EACH) - read_keys == set(gpus.IN_FILES)
    assert {"driver", "cuda", "gpus", "error", "nvml"} - read_keys == set()
    files = set(re.findall(r'"([a-z_]+)"', FILES))
    assert set(gpus.WHOLE) | set(gpus.IN_FILES) <= read_keys | files


def test_the_nvml_header_is_pinned() -> None:
    text = Path(ROOT / "lab/gpu/nvml-wheel.txt").read_text()
    assert re.search(r"^nvidia-nvml-dev-cu12==\S+ --hash=sha256:[0-9a-f]{64}$", text, re.MULTILINE)


def test_invalid_arguments_are_reported_without_a_lab(capsys: pytest.CaptureFixture[str]) -> None:
    def run_gpus_command(**options: object) -> int:
        arguments = {"name": "none-such", "node": "el1", "play": "h100x8", "line": [], **options}
        return cli.guarded(cli.gpus)(cli.argparse.Namespace(**arguments))

    assert run_gpus_command(play="b200") == 2
    assert run_gpus_command(line=["3.colour=red"]) == 2
    error = capsys.readouterr().err
    assert "[LB-118]" in error
    assert "[LB-119]" in error
