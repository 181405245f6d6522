"""The pages of the codes, for the site and ``fullmesh explain``."""

from __future__ import annotations

import difflib
from pathlib import Path

from fullmesh.causes import pages as cause_pages
from fullmesh.causes.engine import load_cause
from fullmesh.explain.judge import CAUSES, FAMILIES
from fullmesh.explain.model import ANY_CAUSE, LogCause, Severity
from fullmesh.hang import pages as hang_pages
from fullmesh.settings import ROOT

FOLDER = "docs/causes"
READMES = {
    "CL": "README.md",
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


def find_cause_family(code: str) -> str:
    """The family, and so the page, of a log's cause."""
    return next(
        name for name, (_, causes) in FAMILIES.items() if any(c.code == code for c in causes)
    )


def format_cause_link(code: str) -> str:
    """Return the path of a cause's section on the site."""
    return f"{FOLDER}/{find_cause_family(code)}.md#{code.lower()}"


def _describe_parents(cause: LogCause) -> str:
    follows = [
        f"[{code}]" if code != ANY_CAUSE else "any cause that is found" for code in cause.follows
    ]
    return ", ".join(follows)


def render_cause(code: str) -> list[str]:
    """The page of one cause, as lines of Markdown."""
    cause = CAUSES[code]
    lines = [
        f"## {code}: {cause.title}",
        "",
        f"**What it is:** {SEVERITIES[cause.severity]}. {fill_template(cause.says)}",
    ]
    if cause.where:
        lines += ["", f"**Where:** {fill_template(cause.where)}."]
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
    lines += [
        "",
        f"**How to prove it:** `{fill_template(cause.prove)}`"
        if _is_command(cause)
        else f"**How to prove it:** {fill_template(cause.prove)}",
    ]
    lines += ["", f"**How to fix it:** {fill_template(cause.fix)}"]
    if cause.follows:
        lines += ["", f"**Folded under:** {_describe_parents(cause)}, when that is found, too."]
    return [*lines, "", f"**Source:** {cause.source}."]


def _is_command(cause: LogCause) -> bool:
    first = cause.prove.split(" ", 1)[0]
    return (
        first in {"./fullmesh", "journalctl", "sysctl", "df", "ausearch", "getent", "nvidia-smi"}
        and "(" not in cause.prove
    )


def render_family_page(name: str) -> str:
    """Return docs/causes/NAME.md of the site."""
    title, causes = FAMILIES[name]
    lines = [
        f"# {title}: what a log says and what it means",
        "",
        "`./fullmesh explain CODE` prints a section, `./fullmesh explain-log FILE` finds these lines in your logs.",
        "Words in CAPITALS stand for what the log has there.",
    ]
    for cause in sorted(causes, key=lambda one: one.code):
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
    if code in hang_pages.PAGES:
        return hang_pages.explain_hang_code(code, meaning)
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

    logs = {f"{FOLDER}/{name}.md": render_family_page(name) for name in FAMILIES}
    own = {
        cause_pages.PATH: cause_pages.render_causes_page(),
        hang_pages.PATH: hang_pages.render_hang_causes(),
    }
    return {"docs/errors.md": codes.render_codes_page(), **logs, **own}
