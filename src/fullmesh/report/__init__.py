"""What a run leaves for people and programs: the terminal's summary, report.html, junit.xml, comparisons."""

from __future__ import annotations

from fullmesh.report.terminal import failure, print_summary, summary_lines

__all__ = ["failure", "print_summary", "summary_lines"]
