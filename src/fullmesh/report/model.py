"""Share code between all reports: clean text, states of links, texts of findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

from fullmesh.printed import clean_and_shorten
from fullmesh.result.types import FindingBase, LinkRow, MissedRow, Result

LONGEST = 4000  # characters of one value. The end of a log is longer than a node's name.
OPEN, SELF, UNKNOWN = "open", "self", "unknown"
T = TypeVar("T")
Evidence = Literal["direction", "port", "seen", "expected", "check", "fix"]
EVIDENCE: tuple[tuple[str, Evidence], ...] = (
    ("link", "direction"),
    ("port", "port"),
    ("seen", "seen"),
    ("expected", "expected"),
    ("check", "check"),
    ("fix", "fix"),
)


@dataclass(frozen=True)
class LinkState:
    """The display of a link's state.

    Attributes:
        word: its name in result.json.
        letter: shown in the matrix, so that color is not the only sign.
        says: one line for the legend.
    """

    word: str
    letter: str
    says: str


STATES = {
    state.word: state
    for state in (
        LinkState(OPEN, "✓", "open: connected, both ends verified, data sent in both directions"),
        LinkState("dropped", "D", "dropped: no reply, twice"),
        LinkState("rejected", "R", "rejected: ICMP prohibited"),
        LinkState("refused", "F", "refused: a reset comes back although a listener is there"),
        LinkState("no_route", "N", "no route, or no reply to ARP"),
        LinkState("reset", "X", "reset: connected, then cut off"),
        LinkState("wrong_source", "S", "wrong source address"),
        LinkState("someone_else", "E", "another program answers"),
        LinkState("mtu_black_hole", "M", "MTU black hole: large packets are lost"),
        LinkState(UNKNOWN, "?", "not tried"),
    )
}
WORST = tuple(word for word in STATES if word not in (OPEN, UNKNOWN))


def get_link_state(word: str) -> LinkState:
    """Return the display of a state. An unknown one counts as not tested, with its own name."""
    return STATES.get(word) or LinkState(UNKNOWN, "?", word.replace("_", " "))


def scrub_texts(value: T) -> T:
    """Clean all texts of a result, so that none controls a terminal or misleads a reader."""
    return cast("T", scrub_value(value))


def scrub_value(value: Any) -> Any:
    """Clean a text, or all texts in a list or dictionary."""
    if isinstance(value, str):
        return clean_and_shorten(value.replace("\t", " "), LONGEST)
    if isinstance(value, Mapping):
        return {scrub_value(str(key)): scrub_value(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [scrub_value(held) for held in value]
    return value


def list_evidence(finding: FindingBase) -> list[tuple[str, str]]:
    """List the evidence of a finding as label and value."""
    return [(label, finding[key]) for label, key in EVIDENCE if finding[key]]


def format_finding(finding: FindingBase) -> str:
    """Format code and cause."""
    return f"[{finding['code']}] {finding['cause'].rstrip('.')}."


def list_alarms(result: Result) -> list[str]:
    """List notes that change the meaning of the verdict itself."""
    found = []
    if result["firewall_mode"] == "off":
        found.append("THE FIREWALL IS OFF on the nodes, so this result does not cover a firewall.")
    if result["check_mode"]:
        found.append("Check mode: nothing was configured, so nothing was required.")
    return found


def list_remarks(result: Result) -> list[str]:
    """List the kind of nodes, the notes of roles, and the parts that could not be tested."""
    found = [result["lab"]] if result["lab"] else []
    by_text: dict[str, list[str]] = {}
    for note in result["notes"]:
        by_text.setdefault(f"[{note['code']}] {note['text']}", []).append(note["node"])
    found += [f"{text} ({', '.join(nodes)})" for text, nodes in by_text.items()]
    for check in result["rungs"]:
        found += [f"{check['id']}: {text}" for text in check["details"].get("notes", [])]
    return found


def list_loud_notes(result: Result) -> list[str]:
    """List everything that a reader must see next to the verdict."""
    return [*list_alarms(result), *list_remarks(result)]


def list_not_observed(result: Result) -> list[MissedRow]:
    """List the parts that could not be checked, and the checks that were not run, grouped by reason."""
    by_reason: dict[str, list[str]] = {}
    for check in result["rungs"]:
        if check["status"] in ("skipped", "not_run"):
            by_reason.setdefault(check["reason"], []).append(check["id"])
    unfinished: list[MissedRow] = [
        {"node": "", "what": ", ".join(ids), "why": why} for why, ids in by_reason.items()
    ]
    return result.get("not_looked_at", []) + unfinished


def index_links(result: Result) -> dict[tuple[str, str], LinkRow]:
    """Map the links by their ends."""
    return {(link["from"], link["to"]): link for link in result["links"]}


def get_link_rate(link: LinkRow) -> float | None:
    """Return the bandwidth of a link in Gbit/s, or None if it was not sampled."""
    value = link.get("mbit_s")
    return None if value is None else value / 1000


def describe_size(result: Result) -> str:
    """Describe nodes, ranks and seconds."""
    plan = result["plan"]
    ranks = f"{plan['world_size']} ranks, " if plan.get("world_size") else ""
    nodes = len(plan.get("nodes") or result["nodes"])
    return f"{nodes} node{'s' if nodes != 1 else ''}, {ranks}{result['seconds']:.1f} s"


def describe_verdict(result: Result) -> tuple[str, str]:
    """Return the verdict's word and its details."""
    checks = result["rungs"]
    if result["check_mode"]:
        held = sum(check["status"] == "passed" for check in checks)
        return "CHECK MODE", f"{held} of {len(checks)} checks already pass"
    if result["verdict"] == "ok":
        unsure = [r["id"] for r in checks if r["status"] in ("skipped", "not_run")]
        return "OK", f"not run: {', '.join(unsure)}" if unsure else ""
    if result.get("kind") == "diagnose" or not result["failed_rungs"]:
        causes = sum(f["severity"] != "warning" for f in result["findings"])
        return "FAILED", f"{causes} cause{'s' if causes != 1 else ''} found"
    return "FAILED", f"at {', '.join(result['failed_rungs'])}"


def format_headline(result: Result) -> str:
    """Format the verdict in one line."""
    word, more = describe_verdict(result)
    if word == "FAILED":
        return (
            f"{word} {more}: {describe_size(result)}"
            if more.startswith("at ")
            else f"{word}: {more}: {describe_size(result)}"
        )
    if word == "OK":
        return f"{word}: {describe_size(result)}" + (f" ({more})" if more else "")
    return f"{word}: {more}: {describe_size(result)}"


def get_plan_nodes(result: Result) -> list[str]:
    """Return the nodes in the plan's order."""
    return list(result["plan"].get("nodes") or result["nodes"])


def format_figure(value: float | None, unit: str) -> str:
    """Format a value with three digits."""
    if value is None:
        return ""
    return f"{value:.3g} {unit}" if value < 1000 else f"{value:.0f} {unit}"  # noqa: PLR2004 (no 1e+03)
