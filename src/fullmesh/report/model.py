"""What all reports share: clean text, the words of a link, how a finding reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fullmesh.explain.model import clean

LONGEST = 4000  # characters of one value; a log's last words are longer than a node's name
BLANK: dict[str, Any] = dict.fromkeys(
    ("code", "severity", "rung", "cause", "node", "direction", "port", "seen", "expected", "fix"),
    "",
)
OPEN, SELF, UNKNOWN = "open", "self", "unknown"
EVIDENCE = (
    ("link", "direction"),
    ("port", "port"),
    ("seen", "seen"),
    ("expected", "expected"),
    ("fix", "fix"),
)


@dataclass(frozen=True)
class State:
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
        State(OPEN, "✓", "open: connected, both ends proved, payload there and back"),
        State("dropped", "D", "dropped: silence, twice"),
        State("rejected", "R", "rejected: an ICMP answer says prohibited"),
        State("refused", "F", "refused: a reset comes back although a listener is there"),
        State("no_route", "N", "no route, or nobody answers ARP"),
        State("reset", "X", "reset: connected and then cut off"),
        State("wrong_source", "S", "wrong source address"),
        State("someone_else", "E", "someone else answers"),
        State("mtu_black_hole", "M", "MTU black hole: large packets are lost"),
        State(UNKNOWN, "?", "not tried"),
    )
}
WORST = tuple(word for word in STATES if word not in (OPEN, UNKNOWN))


def state_of(word: str) -> State:
    """How a word is shown; one that this version does not know counts as not tried, with its own name."""
    return STATES.get(word) or State(UNKNOWN, "?", word.replace("_", " "))


def scrub(value: Any) -> Any:
    """The same data with every text made harmless: what a terminal or a reader would obey is shown instead."""
    if isinstance(value, str):
        return clean(value.replace("\t", " "), LONGEST)
    if isinstance(value, Mapping):
        return {scrub(str(key)): scrub(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [scrub(held) for held in value]
    return value


def evidence(finding: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Label and value of what a finding rests on."""
    return [(label, str(finding[key])) for label, key in EVIDENCE if finding.get(key)]


def followers(finding: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What follows from a finding: findings folded under it, or only their codes or sentences."""
    found = finding.get("follows") or []
    return [BLANK | (held if isinstance(held, dict) else {"cause": str(held)}) for held in found]


def sentence(finding: Mapping[str, Any]) -> str:
    """Code and cause."""
    code = finding.get("code")
    cause = str(finding.get("cause", "")).rstrip(".")
    return f"[{code}] {cause}." if code else f"{cause}."


def alarms(result: Mapping[str, Any]) -> list[str]:
    """What changes the meaning of the verdict itself."""
    found = []
    if result.get("firewall_mode") == "off":
        found.append("THE FIREWALL IS OFF on the nodes: this result says nothing about one.")
    if result.get("check_mode"):
        found.append("Check mode: nothing was configured, so nothing was demanded.")
    return found


def remarks(result: Mapping[str, Any]) -> list[str]:
    """What the nodes are, what roles left to say, what could not be tested."""
    found = [str(result["lab"])] if result.get("lab") else []
    by_text: dict[str, list[str]] = {}
    for note in result.get("notes") or []:
        by_text.setdefault(f"[{note['code']}] {note['text']}", []).append(note["node"])
    found += [f"{text} ({', '.join(nodes)})" for text, nodes in by_text.items()]
    for rung in result.get("rungs") or []:
        found += [f"{rung['id']}: {text}" for text in rung["details"].get("notes", [])]
    return found


def loud_notes(result: Mapping[str, Any]) -> list[str]:
    """Everything that must not be overlooked beside the verdict."""
    return [*alarms(result), *remarks(result)]


def could_not_look(result: Mapping[str, Any]) -> list[dict[str, str]]:
    """What could not be looked at for lack of rights, tools or time, with the node and the reason."""
    rows = []
    for item in result.get("not_looked_at") or []:
        if isinstance(item, Mapping):
            what = item.get("what") or item.get("name") or ""
            why = item.get("why") or item.get("reason") or item.get("text") or ""
            rows.append({"node": str(item.get("node", "")), "what": str(what), "why": str(why)})
        else:
            rows.append({"node": "", "what": str(item), "why": ""})
    return rows


def not_looked_at(result: Mapping[str, Any]) -> list[dict[str, str]]:
    """The same, and the rungs that were not climbed, those with one reason together."""
    by_reason: dict[str, list[str]] = {}
    for rung in result.get("rungs") or []:
        if rung["status"] in ("skipped", "not_run"):
            by_reason.setdefault(rung["reason"], []).append(rung["id"])
    climbed = [{"node": "", "what": ", ".join(ids), "why": why} for why, ids in by_reason.items()]
    return could_not_look(result) + climbed


def by_pair(result: Mapping[str, Any]) -> dict[tuple[str, str], Mapping[str, Any]]:
    """The links by their ends."""
    return {(link["from"], link["to"]): link for link in result.get("links") or []}


def pairs(nodes: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Every ordered pair."""
    return ((source, target) for source in nodes for target in nodes if source != target)


def rate(link: Mapping[str, Any]) -> float | None:
    """Bandwidth of one link in Gbit/s, when it was sampled."""
    value = link.get("mbit_s")
    return None if value is None else float(value) / 1000


def size(result: Mapping[str, Any]) -> str:
    """Nodes, ranks and seconds in words."""
    plan = result["plan"]
    ranks = f"{plan['world_size']} ranks, " if plan.get("world_size") else ""
    nodes = len(plan.get("nodes") or result["nodes"])
    return f"{nodes} node{'s' if nodes != 1 else ''}, {ranks}{result['seconds']:.1f} s"


def verdict_words(result: Mapping[str, Any]) -> tuple[str, str]:
    """The verdict's word and what belongs to it."""
    rungs = result.get("rungs") or []
    if result.get("check_mode"):
        held = sum(rung["status"] == "passed" for rung in rungs)
        return "CHECK MODE", f"{held} of {len(rungs)} rungs hold already"
    if result["verdict"] == "ok":
        unsure = [r["id"] for r in rungs if r["status"] in ("skipped", "not_run")]
        return "OK", f"not climbed: {', '.join(unsure)}" if unsure else ""
    if result.get("kind") == "diagnose" or not result["failed_rungs"]:
        causes = sum(f.get("severity") != "warning" for f in result["findings"])
        return "FAILED", f"{causes} cause{'s' if causes != 1 else ''} found"
    return "FAILED", f"at {', '.join(result['failed_rungs'])}"


def headline(result: Mapping[str, Any]) -> str:
    """The verdict in one line."""
    word, more = verdict_words(result)
    if word == "FAILED":
        return (
            f"{word} {more}: {size(result)}"
            if more.startswith("at ")
            else f"{word}: {more}: {size(result)}"
        )
    if word == "OK":
        return f"{word}: {size(result)}" + (f" ({more})" if more else "")
    return f"{word}: {more}: {size(result)}"
