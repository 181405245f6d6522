"""The result of a verification: one dictionary, written as ``runs/<time>/result.json`` (docs/result.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from fullmesh import __version__
from fullmesh.diagnose.deepen import deepened
from fullmesh.verify import ladder as verify
from fullmesh.verify import node as verify_node
from fullmesh.verify import pairs as verify_links
from fullmesh.verify import ranks as verify_ranks
from fullmesh.verify import software as verify_software
from fullmesh.verify.model import FAILED, Finding, Rung, Seen

SCHEMA = 1
SCHEMA_PATH = Path(__file__).parent / "schema" / f"result-{SCHEMA}.json"
COLLECTIVES = ("L3", "L4", "L5", "L7", "L8")


@dataclass(frozen=True)
class Run:
    """What is known of a run besides the observations.

    Attributes:
        name: of the directory under ``runs``.
        started: ISO 8601 with offset.
        finished: the same.
        lab: what the nodes are, when they are no real machines.
        notes: node -> what its roles want said.
        systems: node -> operating system in words.
        why_not_outside: why the controller did not try the master port.
    """

    name: str
    started: str
    finished: str
    lab: str = ""
    notes: Mapping[str, Sequence[Mapping[str, str]]] = field(default_factory=dict)
    systems: Mapping[str, str] = field(default_factory=dict)
    why_not_outside: str = ""


@cache
def validator() -> Any:
    """The schema, read once."""
    # Slow to import (0.2 s), and every fork of Ansible that uses a filter imports this file.
    from jsonschema import Draft202012Validator  # noqa: PLC0415 (see above)

    return Draft202012Validator(json.loads(SCHEMA_PATH.read_text(encoding="utf-8")))


def complaints(result: Any) -> list[str]:
    """Where a result does not follow the schema."""
    return [
        f"{'/'.join(map(str, error.absolute_path)) or 'result'}: {error.message}"
        for error in validator().iter_errors(result)
    ]


def node_summary(seen: Seen, name: str, system: str) -> dict[str, Any]:
    """What is worth keeping of one node."""
    facts = seen.facts(name)
    versions = facts.get("versions", {})
    kept = ("interface", "names", "limits", "sysctls", "cpus", "clock")
    return {
        "address": seen.address(name),
        "interface": str(facts.get("interface", {}).get("name", "")),
        "os": system,
        "kernel": str(facts.get("kernel", "")),
        "python": str(versions.get("python", "")),
        "torch": str(versions.get("torch", "")),
        "torch_nccl": str(versions.get("torch_nccl", "")),
        "nccl": verify_node.versions_of(seen, name)["nccl (system)"],
        "facts": {key: held for key, held in facts.items() if key in kept}
        | {"software": verify_software.software(seen, name)},
    }


def flat_notes(notes: Mapping[str, Sequence[Mapping[str, str]]]) -> list[dict[str, str]]:
    """Notes of all nodes, each with its node."""
    return [
        {"node": node, "code": str(note["code"]), "text": str(note["text"])}
        for node, held in notes.items()
        for note in held
    ]


def seconds_between(started: str, finished: str) -> float:
    """How long the run took; a clock that was set back meanwhile counts as nothing."""
    spent = datetime.fromisoformat(finished) - datetime.fromisoformat(started)
    return round(max(0.0, spent.total_seconds()), 3)


def assemble(
    seen: Seen, run: Run, rungs: Sequence[Rung], found: Sequence[Finding]
) -> dict[str, Any]:
    """Put everything into the shape of the schema."""
    failed = [rung.id for rung in rungs if rung.status == FAILED]
    climbed = any(r.id in COLLECTIVES and r.status in ("passed", FAILED) for r in rungs)
    return {
        "schema": SCHEMA,
        "fullmesh": __version__,
        "kind": "verify",
        "run": run.name,
        "started": run.started,
        "finished": run.finished,
        "seconds": seconds_between(run.started, run.finished),
        "verdict": "failed" if failed else "ok",
        "exit_code": 1 if failed else 0,
        "failed_rungs": failed,
        "check_mode": seen.check_mode,
        "lab": run.lab,
        "notes": flat_notes(run.notes),
        "firewall_mode": seen.mode,
        "plan": dict(seen.plan),
        "nodes": {n: node_summary(seen, n, run.systems.get(n, "")) for n in seen.plan["nodes"]},
        "rungs": [rung.as_dict() for rung in rungs],
        "links": verify_links.matrix(seen),
        "collectives": verify_ranks.collectives(seen) if climbed else {},
        "findings": [finding.as_dict() for finding in found],
    }


def build(seen: Seen, run: Run) -> dict[str, Any]:
    """Judge the observations and return the result.

    Raises:
        ValueError: the result does not follow its own schema, which is a defect of Fullmesh.
    """
    rungs, found = verify.climb(seen, run.why_not_outside)
    found = deepened(seen, found)
    result: dict[str, Any] = json.loads(json.dumps(assemble(seen, run, rungs, found)))
    check(result)
    return result


def check(result: Mapping[str, Any]) -> None:
    """Compare a result with its schema before it is kept.

    Raises:
        ValueError: it does not follow it, which is a defect of Fullmesh.
    """
    wrong = complaints(result)
    if wrong:
        raise ValueError(f"the result does not follow {SCHEMA_PATH.name}: {'; '.join(wrong[:5])}")


def load(path: Path) -> dict[str, Any]:
    """Read a result.

    Raises:
        ValueError: it is no result of this version.
    """
    try:
        result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is no JSON: {error}") from error
    wrong = complaints(result)
    if wrong:
        raise ValueError(f"{path} is no result of schema {SCHEMA}: {'; '.join(wrong[:3])}")
    return result
