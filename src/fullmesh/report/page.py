"""Render report.html: one file, without external requests, readable without scripts."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from fullmesh.report import blocks, causes, health, matrix, model, rails, view
from fullmesh.report.compare import Comparison
from fullmesh.report.model import scrub_texts
from fullmesh.result.types import Result

HERE = Path(__file__).parent


@cache
def create_jinja_env() -> Environment:
    """Create Jinja2 with autoescape, so that no value of a result becomes markup."""
    made = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(evidence=model.list_evidence)
    made.filters["figure"] = model.format_figure
    # a browser would break the terminal's arrow in two
    made.filters["arrows"] = lambda value: str(value).replace("->", "→")
    return made


@cache
def load_asset(name: str) -> tuple[Markup, str]:
    """Load a file for the page, and its hash for the page's content security policy."""
    text = (HERE / name).read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return Markup(text), f"sha256-{digest}"  # noqa: S704 (our own file, not a value)


def embed_json(data: matrix.MatrixData) -> Markup:
    """Encode JSON for a script element. No character of it can end the element or start a comment."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704 (no <, > or & is left)


def render_report_page(raw: Result, against: Comparison | None = None) -> str:
    """Render the page of a result, with its comparison to another run if given."""
    result = scrub_texts(raw)
    word, more = model.describe_verdict(result)
    style, style_hash = load_asset("page.css")
    script, script_hash = load_asset("page.js")
    nodes = model.get_plan_nodes(result)
    detail = matrix.build_matrix_data(result)
    rail_matrices = rails.build_rail_matrices(result)
    return (
        create_jinja_env()
        .get_template("page.html.j2")
        .render(
            result=result,
            word=word,
            more=more,
            size=model.describe_size(result),
            known=causes.collect_known_causes(result),
            alarms=model.list_alarms(result),
            remarks=model.list_remarks(result),
            not_looked_at=model.list_not_observed(result),
            nodes=nodes,
            checks=view.build_shown_checks(result),
            table=view.build_matrix_rows(result)
            if result["links"] and len(nodes) <= matrix.TABLE_NODES
            else [],
            heats=matrix.draw_heatmaps(result),
            rails=rail_matrices,
            rail_nodes=matrix.TABLE_NODES,
            failed_tries=rails.list_failed_tries(rail_matrices),
            node_rows=view.build_node_rows(result) if blocks.count_links(result)[1] else [],
            tried=blocks.count_links(result)[1],
            differing=view.select_differing_nodes(result),
            broken=view.list_broken_links(result),
            most_broken=view.MOST_BROKEN,
            slow=view.list_slow_links(result),
            states=list(model.STATES.values()),
            health=health.draw_health(result),
            versions=view.compare_versions(result),
            looked_at=view.describe_measured(result),
            logs=view.list_failed_logs(result),
            log_lines=_split_log_lines(raw),
            against=against,
            data=embed_json(detail) if detail else "",
            style=style,
            script=script,
            policy=f"default-src 'none'; style-src '{style_hash}'; script-src '{script_hash}'; "
            "base-uri 'none'; form-action 'none'",
        )
    )


def _split_log_lines(raw: Result) -> dict[int, list[str]]:
    """Split logs into lines. All other values of a result are one line."""
    return {
        rank.get("rank", -1): [scrub_texts(line) for line in str(rank["log"]).splitlines()]
        for rank in view.list_failed_logs(raw)
    }
