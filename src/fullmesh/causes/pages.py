"""Pages of causes, for the site and ``explain``."""

from __future__ import annotations

import importlib

from fullmesh.causes.engine import PACKAGE, Cause, load_cause, load_causes
from fullmesh.causes.logs import LogCause, Severity

FOLDER = "docs/causes"
READMES = {
    "DG": "docs/diagnose.md",
    "EC": "docs/ec2.md",
    "EF": "docs/ec2.md",
    "HG": "docs/hang.md",
    "LG": "docs/explain-log.md",
    "VC": "roles/verify_cluster/README.md",
}
# the groups whose codes are on pages of their own -> name and title; those of logs have a page for each family
PAGES = {
    "DG": ("diagnose", "Causes of diagnose and verify"),
    "HG": ("hang", "Why a job hangs"),
}
SEVERITIES = {
    Severity.SYMPTOM: "A symptom: the cause is in another line, or in the log of another rank.",
    Severity.UNKNOWN: "Not a cause, and not harmless: explain-log does not know this error.",
    Severity.HARMLESS: "Harmless.",
}
COMMANDS = ("./fullmesh", "journalctl", "sysctl", "df", "ausearch", "getent", "nvidia-smi")


class _FieldNames(dict[str, str]):
    """Shows the name of a field in place of its value."""

    def __missing__(self, key: str) -> str:
        return key.upper()


NAMES = _FieldNames(
    port_note="port PORT", who="rank RANK on HOST", Who="Rank RANK on HOST", libraries=""
)


def fill_template(template: str) -> str:
    """Fill a template with names instead of values."""
    return " ".join(template.format_map(NAMES).split())


def format_page_link(code: str) -> str:
    """Return the path of a code's section on the site."""
    name, _ = PAGES.get(code[:2], PAGES["DG"])
    if code.startswith("LG"):
        cause = load_cause(code)
        name = cause.family if cause else name
    return f"{FOLDER}/{name}.md#{code.lower()}"


def render_cause_section(cause: Cause) -> list[str]:
    """Render one code as lines of Markdown."""
    lines = [f"## {cause.code}: {cause.page.meaning}", ""]
    lines += _render_log_parts(cause) if isinstance(cause, LogCause) else _render_parts(cause)
    return [*lines, "", f"**Source:** {cause.page.source}."] if cause.page.source else lines


def _render_parts(cause: Cause) -> list[str]:
    page = cause.page
    is_prose = cause.code.startswith("HG") or "`" in page.prove  # code cannot hold backticks
    check = page.prove if is_prose else f"`{page.prove}`"
    lines = [page.why, "", f"**Check:** {check}", "", f"**Fix:** {page.fix}"]
    made = "; or ".join(case.how for case in cause.cases)
    return [*lines, "", f"**Test:** {made}."] if made else lines


def _render_log_parts(cause: LogCause) -> list[str]:
    page = cause.page
    kind = SEVERITIES.get(Severity(cause.severity), "")
    lines = [f"{kind} {fill_template(page.why)}".strip()]
    if page.where:
        lines += ["", f"**Where:** {fill_template(page.where)}."]
    if cause.examples:
        shown = [line for text in cause.examples for line in text.split("\n")]
        lines += ["", "**Lines:**", "", "```", *shown, "```"]
    else:
        lines += ["", "**Lines:** none has it alone. Several lines or logs show it together."]
    check = fill_template(page.prove)
    is_command = page.prove.split(" ", 1)[0] in COMMANDS and "(" not in page.prove
    lines += ["", f"**Check:** {f'`{check}`' if is_command else check}"]
    lines += ["", f"**Fix:** {fill_template(page.fix)}"]
    if parents := _describe_parents(cause):
        lines += ["", f"**Folded under:** {parents}, if that is found as well."]
    return lines


def _describe_parents(cause: LogCause) -> str:
    parents = [
        f"[{code}]"
        for code, one in sorted(load_causes("LG").items())
        if any(cause.code in explained.codes for explained in one.explains)
    ]
    return ", ".join([*parents, *(["any cause"] if cause.follows_any else [])])


def render_pages_of_causes() -> dict[str, str]:
    """Return the site's pages of causes: path -> Markdown."""
    pages: dict[str, list[str]] = {}
    held = [cause for group in READMES for cause in load_causes(group).values()]
    for cause in sorted(held, key=lambda one: one.code):
        path = format_page_link(cause.code).partition("#")[0]
        lines = pages.setdefault(path, _render_page_head(cause))
        lines += ["", f'<a id="{cause.code.lower()}"></a>', "", *render_cause_section(cause)]
    return {path: "\n".join(lines) + "\n" for path, lines in pages.items()}


def _render_page_head(cause: Cause) -> list[str]:
    """Render the lines above the first cause of a page."""
    if not isinstance(cause, LogCause):
        _, title = PAGES.get(cause.code[:2], PAGES["DG"])
        text = "`./fullmesh explain CODE` prints a section. Replace words in CAPITALS with your own names."
        return [f"# {title}", "", text]
    title = (importlib.import_module(f"{PACKAGE}.{cause.family}").__doc__ or "").strip()
    return [
        f"# {title.rstrip('.')}: messages and their causes",
        "",
        "`./fullmesh explain CODE` prints a section. `./fullmesh explain-log FILE` finds these lines in your logs.",
        "Words in CAPITALS are values from the log.",
    ]


def explain_cause(cause: Cause) -> str:
    """Render a section for the terminal."""
    lines = [*render_cause_section(cause), "", f"More: {READMES[cause.code[:2]]}"]
    return "\n".join(lines).replace("**", "").removeprefix("## ") + "\n"
