"""docs/services.md's tables, made from the presets (``python -m fullmesh.model.service_pages``)."""

from __future__ import annotations

import re
from pathlib import Path

from fullmesh.model.service_presets import MASTER, PRESETS, Preset
from fullmesh.settings import ROOT

PAGE = "docs/services.md"
BEGIN, END = "<!-- BEGIN PRESETS -->", "<!-- END PRESETS -->"


def render_preset_table(preset: Preset) -> list[str]:
    """One preset's heading, remark and ports."""
    lines = ["", f"### {preset.title} (`{preset.name}`)", "", preset.remark]
    if preset.ports:
        lines += ["", "| part | port | what listens | on | reached by | source |"]
        lines.append("|---|---|---|---|---|---|")
    for one in preset.ports:
        where = "the master" if one.where == MASTER else "every node"
        reach = ", ".join(one.reach)
        lines.append(
            f"| {one.part} | {one.ports} | {one.meaning} | {where} | {reach} | {one.source} |"
        )
    return lines


def render_preset_tables() -> str:
    """All of them, between their marks."""
    lines = [line for preset in PRESETS for line in render_preset_table(preset)]
    return "\n".join([BEGIN, *lines, "", END])


def render_services_page(root: Path) -> str:
    """The page of *root* with its tables made anew."""
    text = (root / PAGE).read_text(encoding="utf-8")
    return re.sub(f"{BEGIN}.*{END}", lambda _found: render_preset_tables(), text, flags=re.DOTALL)


if __name__ == "__main__":
    made = render_services_page(ROOT)
    (ROOT / PAGE).write_text(made, encoding="utf-8")
