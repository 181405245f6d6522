"""Pages of causes of a cluster and of a job that hangs, for the site and ``explain``."""

from __future__ import annotations

from fullmesh.causes.engine import Cause, load_causes

HANG_PATH = "docs/causes/hang.md"
# path -> title, groups of codes
PAGES = {
    "docs/causes/diagnose.md": (
        "Causes that ./fullmesh diagnose and ./fullmesh verify name",
        ("DG", "EC", "VC"),
    ),
    HANG_PATH: ("Why a job hangs", ("HG",)),
}
READMES = {
    "DG": "docs/diagnose.md",
    "EC": "docs/ec2.md",
    "HG": "docs/hang.md",
    "VC": "roles/verify_cluster/README.md",
}


def format_hang_link(code: str) -> str:
    """Return the path of a code's section on the site."""
    return f"{HANG_PATH}#{code.lower()}"


def render_cause_section(cause: Cause) -> list[str]:
    """One code, as lines of Markdown."""
    page = cause.page
    prove = page.prove if cause.code.startswith("HG") else f"`{page.prove}`"
    lines = [
        f"## {cause.code}: {page.meaning}",
        "",
        page.why,
        "",
        f"**Prove it:** {prove}",
        "",
        f"**Fix it:** {page.fix}",
    ]
    if cause.cases:
        made = "; or ".join(case.how for case in cause.cases)
        lines += ["", f"**How the tests make it:** {made}."]
    if page.source:
        lines += ["", f"**Source:** {page.source}."]
    return lines


def render_causes_page(path: str) -> str:
    """Return a page of the site."""
    title, groups = PAGES[path]
    lines = [
        f"# {title}",
        "",
        "`./fullmesh explain CODE` prints a section. Words in CAPITALS stand for names of yours.",
    ]
    held = [cause for group in groups for cause in load_causes(group).values()]
    for cause in sorted(held, key=lambda one: one.code):
        lines += ["", f'<a id="{cause.code.lower()}"></a>', "", *render_cause_section(cause)]
    return "\n".join(lines) + "\n"


def explain_cause(cause: Cause) -> str:
    """A section for the terminal."""
    lines = [*render_cause_section(cause), "", f"More: {READMES[cause.code[:2]]}"]
    return "\n".join(lines).replace("**", "").removeprefix("## ") + "\n"
