"""Write the tables of docs/services.md from the presets (``python -m fullmesh.model.service_pages``)."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from fullmesh.model.service_presets import MASTER, PRESETS, Preset
from fullmesh.settings import ROOT

PAGE = "docs/services.md"
COLUMNS = 100
BEGIN, END = "<!-- BEGIN PRESETS -->", "<!-- END PRESETS -->"


def render_preset_table(preset: Preset) -> list[str]:
    """Render one preset's heading, remark, ports and sources."""
    heading = f"### {preset.title} (`{preset.name}`)"
    lines = ["", heading, "", *textwrap.wrap(preset.remark, COLUMNS)]
    if preset.ports:
        lines += ["", "| part | port | listener | on | reached by |"]
        lines.append("|---|---|---|---|---|")
    for one in preset.ports:
        where = "the master" if one.where == MASTER else "every node"
        reach = ", ".join(one.reach)
        lines.append(f"| {one.part} | {one.ports} | {one.meaning} | {where} | {reach} |")
    sources = " · ".join(dict.fromkeys(one.source for one in preset.ports))
    if sources:
        lines += ["", *textwrap.wrap(f"Sources: {sources}.", COLUMNS)]
    return lines


def render_preset_tables() -> str:
    """Render all presets, between their marks."""
    lines = [line for preset in PRESETS for line in render_preset_table(preset)]
    return "\n".join([BEGIN, *lines, "", END])


def render_services_page(root: Path) -> str:
    """Return the page of *root* with new tables."""
    text = (root / PAGE).read_text(encoding="utf-8")
    return re.sub(f"{BEGIN}.*{END}", lambda _found: render_preset_tables(), text, flags=re.DOTALL)


if __name__ == "__main__":
    made = render_services_page(ROOT)
    (ROOT / PAGE).write_text(made, encoding="utf-8")
