"""What all reports share: clean text, the words of a link, how a finding reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

from fullmesh.printed import clean_and_shorten
from fullmesh.result.types import FindingBase, LinkRow, MissedRow, Result

LONGEST = 4000  # characters of one value; a log's last words are longer than a node's name
OPEN, SELF, UNKNOWN = "open", "self", "unknown"
T = TypeVar("T")
Evidence = Literal["direction", "port", "seen", "expected", "fix"]
EVIDENCE: tuple[tuple[str, Evidence], ...] = (
    ("link", "direction"),
    ("port", "port"),
    ("seen", "seen"),
    ("expected", "expected"),
    ("fix", "fix"),
)


@dataclass(frozen=True)
class LinkState:
    """How the state of a link is shown.

    Attributes:
        word: as result.json has it.
        letter: stands in the matrix, so that no state is told by its colour alone.
        says: one line for the legend.
    """

    word: str
    letter: str
    says: str


STATES = {
    state.word: state
    for state in (
        LinkState(OPEN, "✓", "open: connected, both ends proved, payload there and back"),
        LinkState("dropped", "D", "dropped: silence, twice"),
        LinkState("rejected", "R", "rejected: an ICMP answer says prohibited"),
        LinkState("refused", "F", "refused: a reset comes back although a listener is there"),
        LinkState("no_route", "N", "no route, or nobody answers ARP"),
        LinkState("reset", "X", "reset: connected and then cut off"),
        LinkState("wrong_source", "S", "wrong source address"),
        LinkState("someone_else", "E", "someone else answers"),
        LinkState("mtu_black_hole", "M", "MTU black hole: large packets are lost"),
        LinkState(UNKNOWN, "?", "not tried"),
    )
}
WORST = tuple(word for word in STATES if word not in (OPEN, UNKNOWN))


def get_link_state(word: str) -> LinkState:
    """How a word is shown; one that this version does not know counts as not tried, with its own name."""
    return STATES.get(word) or LinkState(UNKNOWN, "?", word.replace("_", " "))


def scrub_texts(value: T) -> T:
    """The same data with every text made harmless: what a terminal or a reader would obey is shown instead."""
    return cast("T", scrub_value(value))


def scrub_value(value: Any) -> Any:
    """A text made harmless, or all texts in a list or dictionary."""
    if isinstance(value, str):
        return clean_and_shorten(value.replace("\t", " "), LONGEST)
    if isinstance(value, Mapping):
        return {scrub_value(str(key)): scrub_value(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [scrub_value(held) for held in value]
    return value


def list_evidence(finding: FindingBase) -> list[tuple[str, str]]:
    """Label and value of what a finding rests on."""
    return [(label, finding[key]) for label, key in EVIDENCE if finding[key]]


def format_finding(finding: FindingBase) -> str:
    """Code and cause."""
    return f"[{finding['code']}] {finding['cause'].rstrip('.')}."


def list_alarms(result: Result) -> list[str]:
    """What changes the meaning of the verdict itself."""
    found = []
    if result["firewall_mode"] == "off":
        found.append("THE FIREWALL IS OFF on the nodes: this result says nothing about one.")
    if result["check_mode"]:
        found.append("Check mode: nothing was configured, so nothing was demanded.")
    return found


def list_remarks(result: Result) -> list[str]:
    """What the nodes are, what roles left to say, what could not be tested."""
    found = [result["lab"]] if result["lab"] else []
    by_text: dict[str, list[str]] = {}
    for note in result["notes"]:
        by_text.setdefault(f"[{note['code']}] {note['text']}", []).append(note["node"])
    found += [f"{text} ({', '.join(nodes)})" for text, nodes in by_text.items()]
    for rung in result["rungs"]:
        found += [f"{rung['id']}: {text}" for text in rung["details"].get("notes", [])]
    return found


def list_loud_notes(result: Result) -> list[str]:
    """Everything that must not be overlooked beside the verdict."""
    return [*list_alarms(result), *list_remarks(result)]


def list_not_observed(result: Result) -> list[MissedRow]:
    """What could not be looked at, and the rungs that were not run, those with one reason together."""
    by_reason: dict[str, list[str]] = {}
    for rung in result["rungs"]:
        if rung["status"] in ("skipped", "not_run"):
            by_reason.setdefault(rung["reason"], []).append(rung["id"])
    climbed: list[MissedRow] = [
        {"node": "", "what": ", ".join(ids), "why": why} for why, ids in by_reason.items()
    ]
    return result.get("not_looked_at", []) + climbed


def index_links(result: Result) -> dict[tuple[str, str], LinkRow]:
    """The links by their ends."""
    return {(link["from"], link["to"]): link for link in result["links"]}


def list_ordered_pairs(nodes: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Every ordered pair."""
    return ((source, target) for source in nodes for target in nodes if source != target)


def get_link_rate(link: LinkRow) -> float | None:
    """Bandwidth of one link in Gbit/s, when it was sampled."""
    value = link.get("mbit_s")
    return None if value is None else value / 1000


def describe_size(result: Result) -> str:
    """Nodes, ranks and seconds in words."""
    plan = result["plan"]
    ranks = f"{plan['world_size']} ranks, " if plan.get("world_size") else ""
    nodes = len(plan.get("nodes") or result["nodes"])
    return f"{nodes} node{'s' if nodes != 1 else ''}, {ranks}{result['seconds']:.1f} s"


def describe_verdict(result: Result) -> tuple[str, str]:
    """The verdict's word and what belongs to it."""
    rungs = result["rungs"]
    if result["check_mode"]:
        held = sum(rung["status"] == "passed" for rung in rungs)
        return "CHECK MODE", f"{held} of {len(rungs)} rungs hold already"
    if result["verdict"] == "ok":
        unsure = [r["id"] for r in rungs if r["status"] in ("skipped", "not_run")]
        return "OK", f"not run: {', '.join(unsure)}" if unsure else ""
    if result.get("kind") == "diagnose" or not result["failed_rungs"]:
        causes = sum(f["severity"] != "warning" for f in result["findings"])
        return "FAILED", f"{causes} cause{'s' if causes != 1 else ''} found"
    return "FAILED", f"at {', '.join(result['failed_rungs'])}"


def format_headline(result: Result) -> str:
    """The verdict in one line."""
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
    """The nodes in the plan's order."""
    return list(result["plan"].get("nodes") or result["nodes"])


def format_figure(value: float | None, unit: str) -> str:
    """A figure with three digits."""
    if value is None:
        return ""
    return f"{value:.3g} {unit}" if value < 1000 else f"{value:.0f} {unit}"  # noqa: PLR2004 (no 1e+03)
