"""The pages of the codes, for the site and ``fullmesh explain``."""

from __future__ import annotations

import difflib
import importlib
from pathlib import Path

from fullmesh.causes import pages as cause_pages
from fullmesh.causes.engine import PACKAGE, load_cause
from fullmesh.causes.logs import LogCause, Severity
from fullmesh.explain.judge import CAUSES, PAGES
from fullmesh.settings import ROOT

READMES = {
    "CL": "README.md",
    "DR": "docs/status.md",
    "ST": "docs/status.md",
    "EF": "docs/ec2.md",
    "WA": "docs/watch.md",
    "LB": "docs/lab.md",
    "PL": "inventory/prod",
    "UN": "docs/architecture.md",
    "MF": "docs/architecture.md",
}
SEVERITIES = {
    Severity.CAUSE: "a cause",
    Severity.SYMPTOM: "a symptom: the cause stands in another line or in another rank's log",
    Severity.UNKNOWN: "not a cause, and not harmless: an error whose meaning explain-log does not know",
    Severity.HARMLESS: "harmless",
}


class _FieldNames(dict[str, str]):
    """Shows the name of a field where a finding has its value."""

    def __missing__(self, key: str) -> str:
        return key.upper()


NAMES = _FieldNames(
    port_note="port PORT", who="rank RANK on HOST", Who="Rank RANK on HOST", libraries=""
)


def fill_template(template: str) -> str:
    """A template with names instead of values."""
    return " ".join(template.format_map(NAMES).split())


def _describe_parents(cause: LogCause) -> str:
    parents = [
        f"[{one.code}]"
        for one in CAUSES.values()
        if any(cause.code in explained.codes for explained in one.explains)
    ]
    return ", ".join([*parents, *(["any cause that is found"] if cause.follows_any else [])])


def render_cause(code: str) -> list[str]:
    """The page of one cause, as lines of Markdown."""
    cause = CAUSES[code]
    page = cause.page
    lines = [
        f"## {code}: {page.meaning}",
        "",
        f"**What it is:** {SEVERITIES[Severity(cause.severity)]}. {fill_template(page.why)}",
    ]
    if page.where:
        lines += ["", f"**Where:** {fill_template(page.where)}."]
    if cause.looks:
        lines += [
            "",
            "**How it looks:**",
            "",
            "```",
            *(line for look in cause.looks for line in look.split("\n")),
            "```",
        ]
    else:
        lines += [
            "",
            "**How it looks:** no line says so; it shows when several lines or logs are put together.",
        ]
    prove = fill_template(page.prove)
    lines += ["", f"**How to prove it:** {f'`{prove}`' if _is_command(page.prove) else prove}"]
    lines += ["", f"**How to fix it:** {fill_template(page.fix)}"]
    if parents := _describe_parents(cause):
        lines += ["", f"**Folded under:** {parents}, when that is found, too."]
    return [*lines, "", f"**Source:** {page.source}."]


def _is_command(text: str) -> bool:
    first = text.split(" ", 1)[0]
    return (
        first in {"./fullmesh", "journalctl", "sysctl", "df", "ausearch", "getent", "nvidia-smi"}
        and "(" not in text
    )


def render_family_page(name: str) -> str:
    """Return docs/causes/NAME.md of the site."""
    title = (importlib.import_module(f"{PACKAGE}.{name}").__doc__ or "").rstrip(".\n")
    lines = [
        f"# {title}: what a log says and what it means",
        "",
        "`./fullmesh explain CODE` prints a section, `./fullmesh explain-log FILE` finds these lines in your logs.",
        "Words in CAPITALS stand for what the log has there.",
    ]
    for cause in CAUSES.values():
        if cause.family == name:
            lines += ["", f'<a id="{cause.code.lower()}"></a>', "", *render_cause(cause.code)]
    return "\n".join(lines) + "\n"


def find_code_readme(code: str, titles: dict[str, tuple[str, str]]) -> str:
    """The file that has more about a code that is not of a log."""
    prefix = code[:2]
    if prefix in READMES:
        return READMES[prefix]
    title = titles.get(prefix, ("", ""))[1]
    role = title.removeprefix("role ").split(",")[0] if title.startswith("role ") else "preflight"
    return f"roles/{role}/README.md"


def find_table_rows(path: Path, code: str) -> list[str]:
    """What a README's table says about a code."""
    if not path.is_file():
        return []
    rows = [
        line
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith("|") and code in line
    ]
    return [" - ".join(cell.strip() for cell in row.strip("| ").split(" | ")) for row in rows]


def explain_code(code: str, meaning: str, titles: dict[str, tuple[str, str]]) -> str:
    """Everything that is known of a code, for the terminal."""
    if code in CAUSES:
        lines = [*render_cause(code), "", "More: docs/explain-log.md"]
        return "\n".join(lines).replace("**", "").removeprefix("## ") + "\n"
    if cause := load_cause(code):
        return cause_pages.explain_cause(cause)
    readme = find_code_readme(code, titles)
    owner = "the manifest" if code.startswith("MF") else titles[code[:2]][1]
    lines = [
        f"{code}: {meaning}",
        "",
        f"Owner: {owner}",
        *find_table_rows(ROOT / readme, code),
        f"More: {readme}",
    ]
    return "\n".join(lines) + "\n"


def find_similar_codes(code: str, known: list[str]) -> list[str]:
    """Codes that may have been meant."""
    if longer := [one for one in known if len(code) > 3 and one.startswith(code)]:  # noqa: PLR2004 (XX- is no start)
        return longer[:6]
    same = [one for one in known if one.startswith(code[:2])]
    return difflib.get_close_matches(code, same or known, n=4, cutoff=0.5) or same[:4] or known[:4]


def render_pages() -> dict[str, str]:
    """Return every page of the site that is made from the codes: path -> Markdown."""
    from fullmesh import codes  # noqa: PLC0415 (codes imports the command line, which imports this)

    logs = {
        f"{PAGES}/{name}.md": render_family_page(name)
        for name in dict.fromkeys(cause.family for cause in CAUSES.values())
    }
    own = {path: cause_pages.render_causes_page(path) for path in cause_pages.PAGES}
    return {"docs/errors.md": codes.render_codes_page(), **logs, **own}
