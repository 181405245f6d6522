"""Pages of causes of a cluster, for the site and ``explain``."""

from __future__ import annotations

from fullmesh.causes.engine import Cause, load_causes

PATH = "docs/causes/diagnose.md"
READMES = {"DG": "docs/diagnose.md", "EC": "docs/ec2.md", "VC": "roles/verify_cluster/README.md"}


def render_cause_section(cause: Cause) -> list[str]:
    """One code, as lines of Markdown."""
    page = cause.page
    lines = [
        f"## {cause.code}: {page.meaning}",
        "",
        page.why,
        "",
        f"**Prove it:** `{page.prove}`",
        "",
        f"**Fix it:** {page.fix}",
    ]
    if cause.cases:
        made = "; or ".join(case.how for case in cause.cases)
        lines += ["", f"**How the tests make it:** {made}."]
    if page.source:
        lines += ["", f"**Source:** {page.source}."]
    return lines


def render_causes_page() -> str:
    """Return docs/causes/diagnose.md of the site."""
    lines = [
        "# Causes that ./fullmesh diagnose and ./fullmesh verify name",
        "",
        "`./fullmesh explain CODE` prints a section. Words in CAPITALS stand for names of yours.",
    ]
    held = [cause for group in READMES for cause in load_causes(group).values()]
    for cause in sorted(held, key=lambda one: one.code):
        lines += ["", f'<a id="{cause.code.lower()}"></a>', "", *render_cause_section(cause)]
    return "\n".join(lines) + "\n"


def explain_cause(cause: Cause) -> str:
    """A section for the terminal."""
    lines = [*render_cause_section(cause), "", f"More: {READMES[cause.code[:2]]}"]
    return "\n".join(lines).replace("**", "").removeprefix("## ") + "\n"
