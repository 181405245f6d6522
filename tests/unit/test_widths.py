"""Tables, progress and prompts at 60, 80 and 120 columns, and without a terminal."""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from report_samples import build_result, large, link, make_dropped_link
from rich.console import Console

from fullmesh import cli
from fullmesh.play import foresight, lines, options, run
from fullmesh.play.live import TerminalView
from fullmesh.play.progress import RunPhase, TaskChange
from fullmesh.report import terminal
from fullmesh.verbs import init, playbook

WIDTHS = (60, 80, 120)
CONNECTION = "/etc/NetworkManager/system-connections/fullmesh-enp1s0f0.nmconnection"
NODES = ("gpu-node-01", "gpu-node-02", "gpu-node-03")
CHANGES = [
    TaskChange(node, "network", role, "Write", (what,))
    for role, what in (
        ("static_ip", CONNECTION),
        ("container_toolkit", "package nvidia-container-toolkit"),
        ("container_toolkit", "service docker.service"),
    )
    for node in NODES
]


class Window(io.StringIO):
    """A terminal that keeps its output."""

    def isatty(self) -> bool:
        return True


def print_checks(result: Any, width: int, **more: bool) -> list[str]:
    stream = io.StringIO()
    terminal.print_result(result, Console(file=stream, width=width), **more)
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("width", WIDTHS)
def test_the_name_of_a_check_stays_on_its_line(width: int) -> None:
    result = make_dropped_link()
    shown = print_checks(result, width)
    begun = next(at for at, line in enumerate(shown) if line.startswith("id "))
    end = next(at for at, line in enumerate(shown) if line.startswith("from "))
    table = shown[begun:end]
    assert max(map(len, table)) <= width
    for rung in result["rungs"]:
        (row,) = (line for line in table if line.startswith(rung["id"]))
        assert f"{rung['name']} " in row
        assert rung["status"].replace("_", " ") in row
    text = " ".join(" ".join(table).split())
    assert result["rungs"][2]["reason"] in text
    assert ("seconds" in text) is (width > 60)
    assert ("remark" in text) is (width == 120)


def test_a_table_of_links_that_does_not_fit_is_omitted() -> None:
    names = [f"gpu-node-with-a-name-{at}" for at in range(8)]
    result = large(8, broken=False)
    result["links"] = [link(one, two, 0.1) for one in names for two in names if one != two]
    result["plan"]["nodes"] = dict.fromkeys(names, result["plan"]["nodes"]["gpu-000"])
    shown = print_checks(result, 80)
    assert "The table of links is wider than this terminal: see report.html." in shown
    assert not any(line.startswith("from ") for line in shown)
    assert any(line.startswith("from ") for line in print_checks(result, 240))
    assert any(line.startswith("from ") for line in print_checks(build_result(), 60))


@pytest.mark.parametrize("width", WIDTHS)
def test_a_preview_truncates_neither_paths_nor_node_names(width: int) -> None:
    table = foresight.render_change_table(CHANGES, len(NODES), width)
    text = "\n".join(table)
    words = text.replace(",", " ").replace(":", " ").split()
    assert CONNECTION in words
    assert set(NODES) <= set(words)
    assert all(len(line) <= width or CONNECTION in line for line in table)
    # three names in a row, never one on each line
    assert not [line for line in table if line.strip() in NODES]


def test_a_preview_that_fits_is_a_table() -> None:
    for width in (0, 200):
        head, first, second, third = foresight.render_change_table(CHANGES, 3, width)
        assert head.split() == ["role", "what", "would", "change", "nodes"]
        assert first.split()[:2] == ["static_ip", CONNECTION]
        assert second.split()[0] == "container_toolkit"
        assert third.startswith(" ")
    at_eighty = foresight.render_change_table(CHANGES, 3, 80)
    assert at_eighty == [
        f"static_ip on {', '.join(NODES)}:",
        f"  {CONNECTION}",
        f"container_toolkit on {', '.join(NODES)}:",
        "  package nvidia-container-toolkit",
        "  service docker.service",
    ]


@pytest.mark.parametrize(("columns", "stacked"), [("80", True), ("200", False), ("", False)])
def test_plan_prints_for_the_terminal_that_it_has(
    columns: str, stacked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inventory = tmp_path / "hosts.yml"
    inventory.touch()
    out = Window() if columns else io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setenv("COLUMNS", columns or "80")
    monkeypatch.setattr(playbook, "RUNS", tmp_path)

    def record(_command: list[str], shown: Any, folder: Path) -> run.RunOutcome:
        shown.progress.changes += CHANGES
        return run.RunOutcome(0, folder / "ansible.log")

    monkeypatch.setattr(playbook.run, "run_with_view", record)
    assert cli.main(["plan", "-i", str(inventory)]) == cli.OK
    told = out.getvalue()
    assert (f"static_ip on {NODES[0]}" in told) is stacked
    assert ("what would change" in told) is not stacked


@pytest.mark.parametrize("width", WIDTHS)
def test_the_line_of_a_phase_fits(width: int) -> None:
    phase = RunPhase("clock and kernel", 0.0, 12.5)
    phase.failed = dict.fromkeys(f"gpu-node-{at:02}" for at in range(9))
    shown = io.StringIO()
    TerminalView(Console(file=shown, width=width)).ended(phase)
    told = shown.getvalue()
    assert max(map(len, told.splitlines())) <= width
    assert lines.describe_phase_outcome(phase) in " ".join(told.replace("  12.5 s", "").split())


@pytest.mark.parametrize("width", WIDTHS)
def test_rows_of_the_live_view_are_cut_at_the_edge(width: int) -> None:
    view = TerminalView(Console(file=io.StringIO(), width=width))
    view.progress.waiting = {f"gpu-node-{'x' * 90}-{at}": time.time() for at in range(12)}
    (row,) = view.rows(time.time())
    assert row.cell_len < width
    view.progress.waiting = {"x" * 200: time.time()}
    assert [one.cell_len < width for one in view.rows(time.time())] == [True]


@pytest.mark.parametrize("width", WIDTHS)
def test_the_question_of_undo_fits(width: int) -> None:
    hosts, roles = [f"gpu-node-{at:02}" for at in range(12)], ["static_ip", "peer_firewall"] * 6
    *notice, preview = lines.render_undo_notice(hosts, roles, "./fullmesh undo", width)
    assert max(map(len, notice)) <= width
    assert max(map(len, notice)) > width - 20
    assert preview == "To preview: ./fullmesh undo"


def make_machine_rows() -> list[tuple[str, ...]]:
    return [
        ("node", "ssh", "system", "GPUs", "cluster address", "NIC", "speed", "managed by"),
        ("gpu-node-01", "admin@gpu-node-01", "Ubuntu 24.04", "8", "10.0.0.1/24", "enp1s0f0", "-", "-"),
    ]  # fmt: skip


@pytest.mark.parametrize("width", WIDTHS)
def test_the_machines_of_init_fit(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys, "stdout", Window())
    shown = init.align_machine_rows(make_machine_rows())
    assert max(map(len, shown)) <= width
    assert (shown[0].split()[0], len(shown)) == (("node", 2) if width == 120 else ("node", 8))
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert len(init.align_machine_rows(make_machine_rows())) == 2


@pytest.mark.parametrize(
    ("kind", "settings", "coloured"),
    [
        (Window, {"TERM": "xterm-256color"}, True),
        (Window, {"TERM": "xterm-256color", "NO_COLOR": "1"}, False),
        (Window, {"TERM": "dumb"}, False),
        (io.StringIO, {"TERM": "xterm-256color"}, False),
        (io.StringIO, {"TERM": "xterm-256color", "FORCE_COLOR": "1"}, False),
    ],
)
def test_colours_are_for_terminals_that_want_them(
    kind: type[io.StringIO],
    settings: dict[str, str],
    coloured: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    stream = kind()
    terminal.print_result(build_result(), terminal.make_console(stream))
    assert ("\x1b[1;32m" in stream.getvalue()) is coloured
    monkeypatch.setattr(sys, "stderr", stream)
    moves = isinstance(run.choose_view(options.AUTO), TerminalView)
    assert moves is (kind is Window and settings["TERM"] != "dumb")
