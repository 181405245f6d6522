"""Keeps a result.json, and puts junit.xml and report.html beside it."""

from __future__ import annotations

import os
from pathlib import Path

from fullmesh.report import junit, page, table
from fullmesh.report.compare import Comparison
from fullmesh.result import read
from fullmesh.result.types import Result

HTML, JUNIT = "report.html", "junit.xml"


def replace(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text, encoding="utf-8")
    os.replace(fresh, path)


def keep(runs: Path, run: str, text: str) -> Path:
    """Write result.json of a run whole or not at all, and let ``latest`` name the run; returns the file.

    Raises:
        OSError: it cannot be written.
    """
    folder = runs / run
    folder.mkdir(parents=True, exist_ok=True)
    replace(folder / "result.json", text)
    fresh = runs / "latest.new"
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(run)
    os.replace(fresh, runs / "latest")
    return folder / "result.json"


def write(folder: Path, result: Result, against: Comparison | None = None) -> list[Path]:
    """Write both files of a result into a directory; returns their paths."""
    replace(folder / JUNIT, junit.render(result))
    replace(folder / HTML, page.render(result, against))
    return [folder / JUNIT, folder / HTML]


def write_tables(path: Path) -> list[Path]:
    """Write a result's tables beside it; returns their paths.

    Raises:
        ValueError: it is no result.
    """
    made = table.tables(read.load(path))
    for name, text in made.items():
        replace(path.parent / name, text)
    return [path.parent / name for name in made]


def write_beside(path: Path, against: Comparison | None = None) -> list[Path]:
    """Write both files beside a result.json.

    Raises:
        ValueError: it is no result.
    """
    return write(path.parent, read.load(path), against)
