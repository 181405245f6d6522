"""What stand-in GPUs play, and what they refuse to."""

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
    held = gpus.values(lines)
    assert (held["gpus"], held["*.memory"]) == ("8", str(81559 * 1024 * 1024))
    assert len({held[f"{at}.bus"] for at in range(8)}) == 8
    assert gpus.check_lines(lines) == lines
    assert not [line for line in gpus.play("l40sx2") if "link" in line or "fabric" in line]


def test_specific_settings_come_last_and_win() -> None:
    lines = gpus.play("h100x8", ["gpus=7", "3.ecc_lost=2"])
    held = gpus.values(lines)
    assert (held["gpus"], held["pci"]) == ("7", "8")
    assert lines[-1] == "3.ecc_lost=2"


def test_meaningless_lines_are_refused_all_at_once() -> None:
    with pytest.raises(
        LabError, match=r"\[LB-119\].*'ecc=1', '3.gpus=7', '3.colour=red', 'x'"
    ) as told:
        gpus.check_lines(["ecc=1", "3.gpus=7", "3.colour=red", "x", "driver=580.1", "*.ecc=0"])
    assert "links_down" in str(told.value)


def test_unknown_gpu_models_are_refused() -> None:
    with pytest.raises(LabError, match=r"\[LB-118\] no GPUs are called 'b200x8'. Known: h100x8"):
        gpus.check_play("b200x8")
    assert gpus.check_play(gpus.NONE) == "none"


def test_every_key_is_read_by_the_stand_in_or_installer() -> None:
    read = set(re.findall(r'"([a-z_]+)"', SOURCE))
    assert set(gpus.EACH) - read == set(gpus.IN_FILES)
    assert {"driver", "cuda", "gpus", "error", "nvml"} - read == set()
    files = set(re.findall(r'"([a-z_]+)"', FILES))
    assert set(gpus.WHOLE) | set(gpus.IN_FILES) <= read | files


def test_the_header_is_pinned() -> None:
    text = Path(ROOT / "lab/gpu/nvml-wheel.txt").read_text()
    assert re.search(r"^nvidia-nvml-dev-cu12==\S+ --hash=sha256:[0-9a-f]{64}$", text, re.MULTILINE)


def test_the_command_refuses_before_it_looks_for_a_lab(capsys: pytest.CaptureFixture[str]) -> None:
    def asked(**words: object) -> int:
        wanted = {"name": "none-such", "node": "el1", "play": "h100x8", "line": [], **words}
        return cli.guarded(cli.gpus)(cli.argparse.Namespace(**wanted))

    assert asked(play="b200") == 2
    assert asked(line=["3.colour=red"]) == 2
    told = capsys.readouterr().err
    assert "[LB-118]" in told
    assert "[LB-119]" in told
