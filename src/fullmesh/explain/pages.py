"""The pages of the codes, for the site and ``fullmesh explain``."""

from __future__ import annotations

import difflib
from pathlib import Path

from fullmesh.causes import pages as cause_pages
from fullmesh.settings import ROOT

READMES = {
    "CL": "README.md",
    "DR": "docs/status.md",
    "ST": "docs/status.md",
    "WA": "docs/watch.md",
    "LB": "docs/development/lab.md",
    "PL": "inventory/prod",
    "UN": "docs/architecture.md",
    "HC": "docs/check.md",
    "MF": "docs/architecture.md",
}


def find_code_readme(code: str, titles: dict[str, tuple[str, str]]) -> str:
    """Return the file with details about a code that does not come from a log."""
    prefix = code[:2]
    if prefix in READMES:
        return READMES[prefix]
    title = titles.get(prefix, ("", ""))[1]
    role = title.removeprefix("role ").split(",")[0] if title.startswith("role ") else "preflight"
    return f"roles/{role}/README.md"


def find_table_rows(path: Path, code: str) -> list[str]:
    """Return the text about a code in a README's table."""
    if not path.is_file():
        return []
    rows = [
        line
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith("|") and code in line
    ]
    return [" - ".join(cell.strip() for cell in row.strip("| ").split(" | ")) for row in rows]


def explain_code(code: str, meaning: str, titles: dict[str, tuple[str, str]]) -> str:
    """Explain a code that is not a cause, for the terminal."""
    readme = find_code_readme(code, titles)
    lines = [
        f"{code}: {meaning}",
        "",
        f"Owner: {titles[code[:2]][1]}",
        *find_table_rows(ROOT / readme, code),
        f"More: {readme}",
    ]
    return "\n".join(lines) + "\n"


def find_similar_codes(code: str, known: list[str]) -> list[str]:
    """Return the codes that the user may have meant."""
    if longer := [one for one in known if len(code) > 3 and one.startswith(code)]:  # noqa: PLR2004 (XX- alone matches too much)
        return longer[:6]
    same = [one for one in known if one.startswith(code[:2])]
    return difflib.get_close_matches(code, same or known, n=4, cutoff=0.5) or same[:4] or known[:4]


def render_pages() -> dict[str, str]:
    """Return every page of the site that is made from the codes: path -> Markdown."""
    from fullmesh import codes  # noqa: PLC0415 (codes imports the command line, which imports this)

    return {"docs/errors.md": codes.render_codes_page(), **cause_pages.render_pages_of_causes()}
