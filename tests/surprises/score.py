"""Score a diagnosis against the results of the oracle. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fullmesh.diagnose.run import list_boot_codes

Failed = Mapping[tuple[str, str, int], str]
EVERY = ("", "all")


@dataclass(frozen=True)
class Score:
    """The score of one fault.

    Attributes:
        seed: of the generator.
        kind, script, victim: the fault.
        hit: the oracle found broken connections.
        codes: of the primary findings.
        found: an error names a link or a node that the oracle found broken.
        node, direction, port: the primary finding has them right.
        one: there is one primary error.
        named: the finding names the mechanism of the fault.
        false: an error although the oracle found nothing.
        cause: the primary finding's sentence.
    """

    seed: int
    kind: str
    script: str
    victim: str
    hit: bool
    codes: tuple[str, ...]
    found: bool
    node: bool
    direction: bool
    port: bool
    one: bool
    named: bool
    false: bool
    cause: str
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the score as it is stored."""
        return asdict(self)


def is_flawless(row: Score) -> bool:
    """Return whether the diagnosis has no flaw."""
    return not row.false and (not row.hit or (row.found and row.node and row.direction))


def list_pairs(finding: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Return the links of a finding and of its consequences."""
    found = {(str(a), str(b)) for a, b in finding.get("pairs", [])}
    for one in finding.get("follows", []):
        found |= list_pairs(one)
    return found


def list_named_ports(text: str) -> list[tuple[int, int]]:
    """Return the ports that a finding names: 29500/tcp, 32768-60999/tcp."""
    return [(int(a), int(b or a)) for a, b in re.findall(r"\b(\d{2,5})(?:-(\d{2,5}))?", text)]


def list_doubted_ports(findings: Sequence[Mapping[str, Any]], most: int = 16) -> list[int]:
    """Return the ports that findings or their rules report as blocked: ``40296-40296 shut``, ``60999: dropped``."""
    text = " ".join(str(finding.get("seen", "")) for finding in findings)
    found = {
        int(port)
        for span in re.findall(r"\b(\d{4,5})-(\d{4,5}) shut|\b(\d{4,5}): (?!open)", text)
        for port in span
        if port
    }
    for ports in re.findall(r"\b[sd]port (?:!= )?(\{[^}]*\}|[\d-]+)", text):
        found |= {int(port) for port in re.findall(r"\d{4,5}", ports)}
    return sorted(found)[:most]


def is_port_right(finding: Mapping[str, Any], failed: Failed, tried: int) -> bool:
    """Return whether a named port failed. All ports may only be named if most failed."""
    text = str(finding.get("port", ""))
    ports = {port for _, _, port in failed}
    if text in EVERY:
        return True if not text else 2 * len(failed) >= tried
    spans = list_named_ports(re.sub(r"\(\d+ of \d+ tried\)", "", text))
    return any(first <= port <= last for port in ports for first, last in spans)


def join_finding_text(finding: Mapping[str, Any]) -> str:
    """Return the whole text of a finding."""
    words = [str(finding.get(key, "")) for key in ("cause", "seen", "check", "fix", "expected")]
    return (
        " ".join(words)
        + " "
        + " ".join(join_finding_text(one) for one in finding.get("follows", []))
    )


def drop_boot_findings(findings: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Drop findings about the next boot: these nodes' addresses were set by hand and do not survive one."""
    return [finding for finding in findings if finding["code"] not in list_boot_codes()]


def score_diagnosis(
    about: Mapping[str, Any],
    words: Sequence[str],
    failed: Failed,
    tried: int,
    findings: Sequence[Mapping[str, Any]],
) -> Score:
    """Score one diagnosis.

    Args:
        about: seed, kind, script, victim.
        words: texts of which the finding that names the mechanism must contain one.
        failed: the broken connections of the oracle.
        tried: the number of its connections.
        findings: the primary ones.
    """
    errors = [f for f in findings if f.get("severity") == "error"]
    broken = {(a, b) for a, b, _ in failed}
    warned = [f for f in findings if f not in errors]
    first = errors[0] if errors else {}
    hit = bool(failed)
    if (
        hit and not errors and warned
    ):  # a fault for some accounts is a warning, because the job's account is unknown
        errors, first = warned, warned[0]
    pairs = set().union(*(list_pairs(f) for f in errors)) if errors else set()
    ends = {str(f.get(key)) for f in errors for key in ("node", "peer")}
    found = (
        hit and bool(errors) and (bool(pairs & broken) or (not pairs and about["victim"] in ends))
    )
    return Score(
        **about,
        hit=hit,
        codes=tuple(str(f["code"]) for f in findings),
        found=found,
        node=found and first.get("node") == about["victim"],
        direction=found and (not pairs or broken <= pairs),
        port=found and any(is_port_right(f, failed, tried) for f in errors),
        one=len(errors) == 1,
        named=found and any(word in join_finding_text(f) for f in errors for word in words),
        false=not hit and bool(errors),
        cause=str(first.get("cause", "")),
    )
