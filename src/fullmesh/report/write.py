"""Save a result.json, with junit.xml and report.html next to it."""

from __future__ import annotations

import os
from pathlib import Path

from fullmesh.report import junit, page, table
from fullmesh.report.compare import Comparison
from fullmesh.result import read
from fullmesh.result.types import Result

HTML, JUNIT = "report.html", "junit.xml"


def write_whole_file(path: Path, text: str) -> None:
    """Write a file atomically."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text, encoding="utf-8")
    os.replace(fresh, path)


def save_result(runs: Path, run: str, text: str) -> Path:
    """Write result.json of a run atomically, point ``latest`` to the run, and return the file.

    Raises:
        OSError: it cannot be written.
    """
    folder = runs / run
    folder.mkdir(parents=True, exist_ok=True)
    write_whole_file(folder / "result.json", text)
    fresh = runs / "latest.new"
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(run)
    os.replace(fresh, runs / "latest")
    return folder / "result.json"


def write_reports(folder: Path, result: Result, against: Comparison | None = None) -> list[Path]:
    """Write both files of a result into a directory, and return their paths."""
    write_whole_file(folder / JUNIT, junit.render_junit(result))
    write_whole_file(folder / HTML, page.render_report_page(result, against))
    return [folder / JUNIT, folder / HTML]


def write_csv_tables(path: Path) -> list[Path]:
    """Write a result's tables next to it, and return their paths.

    Raises:
        ValueError: it is not a result.
    """
    made = table.render_csv_tables(read.load_result(path))
    for name, text in made.items():
        write_whole_file(path.parent / name, text)
    return [path.parent / name for name in made]


def write_reports_beside(path: Path, against: Comparison | None = None) -> list[Path]:
    """Write both files next to a result.json.

    Raises:
        ValueError: it is not a result.
    """
    return write_reports(path.parent, read.load_result(path), against)
