"""report.html: one file, no request to anywhere, readable without scripts."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from fullmesh.report import blocks, causes, matrix, model, view
from fullmesh.report.compare import Comparison
from fullmesh.report.model import scrub
from fullmesh.result.types import Result

HERE = Path(__file__).parent


@cache
def environment() -> Environment:
    """Jinja2 with autoescape: no value of a result becomes markup."""
    made = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(evidence=model.evidence)
    made.filters["figure"] = model.number
    # a browser would break the terminal's arrow in two
    made.filters["arrows"] = lambda value: str(value).replace("->", "→")
    return made


@cache
def asset(name: str) -> tuple[Markup, str]:
    """A file of ours as it goes into the page, and its hash for the page's own security policy."""
    text = (HERE / name).read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return Markup(text), f"sha256-{digest}"  # noqa: S704 (our own file, not a value)


def embedded(data: matrix.Detail) -> Markup:
    """JSON inside a script element: no character of it can end the element or start a comment."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 (no <, > or & is left)


def render(raw: Result, against: Comparison | None = None) -> str:
    """The page of a result, with what changed against another run when it is given."""
    result = scrub(raw)
    word, more = model.verdict_words(result)
    style, style_hash = asset("page.css")
    script, script_hash = asset("page.js")
    nodes = model.nodes_of(result)
    detail = matrix.detail_data(result)
    return (
        environment()
        .get_template("page.html.j2")
        .render(
            result=result,
            word=word,
            more=more,
            size=model.size(result),
            known=causes.known(result),
            alarms=model.alarms(result),
            remarks=model.remarks(result),
            not_looked_at=model.not_looked_at(result),
            nodes=nodes,
            rungs=view.rungs(result),
            table=view.table(result)
            if result["links"] and len(nodes) <= matrix.TABLE_NODES
            else [],
            heats=matrix.heats(result),
            node_rows=view.node_rows(result) if blocks.counts(result)[1] else [],
            tried=blocks.counts(result)[1],
            differing=view.differing(result),
            broken=view.broken_links(result),
            most_broken=view.MOST_BROKEN,
            slow=view.slow_links(result),
            states=list(model.STATES.values()),
            versions=view.versions(result),
            looked_at=view.looked_at(result),
            logs=view.logs(result),
            log_lines=_log_lines(raw),
            against=against,
            data=embedded(detail) if detail else "",
            style=style,
            script=script,
            policy=f"default-src 'none'; style-src '{style_hash}'; script-src '{script_hash}'; "
            "base-uri 'none'; form-action 'none'",
        )
    )


def _log_lines(raw: Result) -> dict[int, list[str]]:
    """Logs keep their lines; everything else in a result is one line."""
    return {
        rank.get("rank", -1): [scrub(line) for line in str(rank["log"]).splitlines()]
        for rank in view.logs(raw)
    }
