"""Compare two runs: checks, findings, links, versions. Pure."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal, TypeVar

from fullmesh.printed import shorten_time, wrap_text
from fullmesh.report import model, view
from fullmesh.result.types import FindingRow, LinkRow, Result

WORSE, BETTER, OTHER = "worse", "better", "other"
WORDS = {WORSE: "worse", BETTER: "better", OTHER: "different"}
MARKS = {WORSE: "↓", BETTER: "↑", OTHER: "·"}
# Two runs of one healthy lab differ by this much (measured: 0.027 and 0.052 ms): a change has to be larger than both.
LATENCY_RATIO, LATENCY_FLOOR_MS = 1.5, 0.2
RATE_RATIO = 1.25
# of a collective over all ranks, on a machine with other load (measured: 183 and 316 µs)
COLLECTIVE_RATIO = 2.0
SPREADS = 3.0  # a link stands out if it changed by this many spreads more than its cluster
RANKED = {"passed": 0, "skipped": 1, "not_run": 2, "failed": 3}
MOST = 200
K = TypeVar("K", bound=Hashable)
RATES: tuple[tuple[Literal["bus_gbit_s", "latency_us"], str, str, bool], ...] = (
    ("bus_gbit_s", "all_reduce, bus bandwidth", "Gbit/s", True),
    ("latency_us", "all_reduce, smallest", "µs", False),
)


@dataclass(frozen=True)
class RunChange:
    """One difference."""

    kind: str
    area: str
    what: str
    before: str
    after: str

    @property
    def mark(self) -> str:
        """Return a sign to show next to the color."""
        return MARKS[self.kind]

    @property
    def word(self) -> str:
        """Return the word to show for the kind."""
        return WORDS[self.kind]


@dataclass(frozen=True)
class Comparison:
    """All differences.

    Attributes:
        run: name of the other, older run.
        started: of the other run.
        changes: worse first.
        left_out: the number of changes that are not shown.
        notes: reasons why something could not be compared.
    """

    run: str
    started: str
    changes: Sequence[RunChange] = field(default_factory=tuple)
    left_out: int = 0
    notes: Sequence[str] = field(default_factory=tuple)

    @property
    def worse(self) -> bool:
        """Return whether anything got worse."""
        return any(change.kind == WORSE for change in self.changes)


def is_same_kind(old: Result, new: Result) -> bool:
    """Return whether both runs are verifications, or both are diagnoses."""
    return old.get("kind", "verify") == new.get("kind", "verify")


def compare_checks(old: Result, new: Result) -> list[RunChange]:
    """List the checks whose status changed."""
    alike = is_same_kind(old, new)
    before = {check["id"]: check for check in old["rungs"]}
    found = []
    for check in new["rungs"]:
        was = before.get(check["id"])
        if was is None or was["status"] == check["status"]:
            continue
        # a diagnosis does not run every check of a verification
        if not alike and not {was["status"], check["status"]} <= {"passed", "failed"}:
            continue
        worse = RANKED[check["status"]] > RANKED[was["status"]]
        words = [held["status"].replace("_", " ") for held in (was, check)]
        what = f"{check['id']} {check['name']}"
        found.append(RunChange(WORSE if worse else BETTER, "check", what, *words))
    return found


def make_finding_key(finding: FindingRow) -> tuple[str, ...]:
    """Return the identity of a finding. It does not include its text, which has measured values."""
    return finding["code"], finding["node"], finding["peer"], finding["direction"]


def compare_findings(old: Result, new: Result) -> list[RunChange]:
    """List the findings that are new or gone."""
    before = {make_finding_key(finding): finding for finding in old["findings"]}
    after = {make_finding_key(finding): finding for finding in new["findings"]}
    found = [
        RunChange(WORSE, "finding", model.format_finding(finding), "", "new")
        for key, finding in after.items()
        if key not in before
    ]
    return found + [
        RunChange(BETTER, "finding", model.format_finding(finding), "", "gone")
        for key, finding in before.items()
        if key not in after
    ]


def estimate_noise(ratios: Sequence[float]) -> float:
    """Estimate the usual variation of links between two runs, as a standard deviation from the median distance."""
    middle = median(ratios)
    return 1.4826 * median(abs(ratio - middle) for ratio in ratios)


def find_moved_links(
    before: Mapping[K, float], after: Mapping[K, float], least: float
) -> dict[K, float]:
    """Find links whose value changed by more than the noise, with the logarithm of after/before."""
    both = {k: (before[k], after[k]) for k in after if before.get(k, 0) > 0 and after[k] > 0}
    ratios = {key: math.log(new / old) for key, (old, new) in both.items()}
    if not ratios:
        return {}
    limit = max(math.log(least), SPREADS * estimate_noise(list(ratios.values())))
    return {key: ratio for key, ratio in ratios.items() if abs(ratio) > limit}


def compare_links(old: Result, new: Result) -> list[RunChange]:
    """List the links whose state, latency or bandwidth changed."""
    before, after = model.index_links(old), model.index_links(new)
    found = []
    for pair, link in after.items():
        was = before.get(pair)
        if was is not None and was["verdict"] != link["verdict"]:
            kind = BETTER if link["verdict"] == model.OPEN else WORSE
            words = [held["verdict"].replace("_", " ") for held in (was, link)]
            found.append(RunChange(kind, "link", " → ".join(pair), *words))
    return found + compare_latencies(before, after) + compare_rates(before, after)


Links = Mapping[tuple[str, str], LinkRow]


def compare_latencies(before: Links, after: Links) -> list[RunChange]:
    """List the round trips that changed by more than the noise."""
    old, new = (
        {p: x["rtt_ms"] for p, x in links.items() if x["rtt_ms"]} for links in (before, after)
    )
    found = []
    for pair, ratio in find_moved_links(old, new, LATENCY_RATIO).items():
        if abs(new[pair] - old[pair]) >= LATENCY_FLOOR_MS:
            words = [model.format_figure(value, "ms") for value in (old[pair], new[pair])]
            kind = WORSE if ratio > 0 else BETTER
            found.append(RunChange(kind, "round trip", " → ".join(pair), *words))
    return found


def compare_rates(before: Links, after: Links) -> list[RunChange]:
    """List the bandwidths that changed by more than the noise."""
    old, new = (
        {p: value for p, x in links.items() if (value := model.get_link_rate(x)) is not None}
        for links in (before, after)
    )
    found = []
    for pair, ratio in find_moved_links(old, new, RATE_RATIO).items():
        words = [model.format_figure(value, "Gbit/s") for value in (old[pair], new[pair])]
        kind = BETTER if ratio > 0 else WORSE
        found.append(RunChange(kind, "bandwidth", " → ".join(pair), *words))
    return found


def compare_collectives(old: Result, new: Result) -> list[RunChange]:
    """Compare the values of all_reduce if both runs have them."""
    found = []
    for key, what, unit, high_is_good in RATES:
        was, now = old["collectives"].get(key), new["collectives"].get(key)
        if not was or not now or max(was / now, now / was) <= COLLECTIVE_RATIO:
            continue
        kind = BETTER if (now > was) == high_is_good else WORSE
        words = [model.format_figure(value, unit) for value in (was, now)]
        found.append(RunChange(kind, "collective", what, *words))
    return found


def compare_nodes(old: Result, new: Result) -> list[RunChange]:
    """List nodes that are new or gone, and changed versions and settings of the others."""
    found = [
        RunChange(OTHER, "node", name, "", "new")
        for name in new["nodes"]
        if name not in old["nodes"]
    ]
    found += [
        RunChange(OTHER, "node", name, "was there", "gone")
        for name in old["nodes"]
        if name not in new["nodes"]
    ]
    stayed = [name for name in new["nodes"] if name in old["nodes"]]
    # a diagnosis does not survey everything that a verification does
    alike = is_same_kind(old, new)
    by_change: dict[tuple[str, str, str], list[str]] = {}
    was_held, is_held = (
        {name: view.list_properties(held["nodes"][name]) for name in stayed} for held in (old, new)
    )
    for label in view.LABELS:
        for name in stayed:
            was, now = was_held[name][label], is_held[name][label]
            if was != now and (alike or (was and now)):
                by_change.setdefault((label, was or "none", now or "none"), []).append(name)
    return found + [
        RunChange(OTHER, "version", f"{label} on {view.join_node_names(held)}", was, now)
        for (label, was, now), held in by_change.items()
    ]


def compare_results(old: Result, new: Result) -> Comparison:
    """Compare an older run with a newer one."""
    old, new = model.scrub_texts(old), model.scrub_texts(new)
    found = [
        *compare_checks(old, new),
        *compare_findings(old, new),
        *compare_links(old, new),
        *compare_collectives(old, new),
        *compare_nodes(old, new),
    ]
    order = {WORSE: 0, OTHER: 1, BETTER: 2}
    found.sort(key=lambda change: order[change.kind])
    notes = []
    if old["plan"].get("nodes", {}).keys() != new["plan"].get("nodes", {}).keys():
        notes.append("The two runs have different sets of nodes.")
    if not is_same_kind(old, new):
        notes.append("One run is a verification, the other one is a diagnosis.")
    return Comparison(old["run"], old["started"], found[:MOST], max(0, len(found) - MOST), notes)


def format_comparison(found: Comparison, width: int = 0) -> list[str]:
    """Format the comparison as lines of *width* columns (0: any width)."""
    head = f"against {found.run} ({shorten_time(found.started)}): "
    if not found.changes:
        return [head + "nothing changed beyond the noise", *found.notes]
    counts = {kind: sum(c.kind == kind for c in found.changes) for kind in (WORSE, OTHER, BETTER)}
    head += f"{counts[WORSE]} worse, {counts[OTHER]} different, {counts[BETTER]} better"
    body = []
    for change in found.changes:
        columns = f"{change.word:<11}{change.area:<11}"
        if change.before:
            text = f"{change.what}: {change.before} -> {change.after}"
        else:
            text = f"{change.after}: {change.what}"
        body += wrap_text(columns + text, width, more=" " * len(columns))
    more = [f"and {found.left_out} more"] if found.left_out else []
    return [head, *found.notes, *body, *more]
