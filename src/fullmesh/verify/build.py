"""Build the result of a verification, ``runs/<time>/result.json`` (docs/result.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from fullmesh import __version__, contract
from fullmesh.result import read
from fullmesh.result.findings import Finding
from fullmesh.result.types import CheckId, NodeSummary, NoteRow, Result
from fullmesh.verify import mesh as verify_mesh
from fullmesh.verify import node as verify_node
from fullmesh.verify import pairs
from fullmesh.verify import ranks as verify_ranks
from fullmesh.verify.model import FAILED, CheckOutcome, ClusterObservations

SCHEMA: Final = 1
COLLECTIVES: tuple[CheckId, ...] = ("L3", "L4", "L5", "L7", "L8")


@dataclass(frozen=True)
class VerificationRun:
    """The data of a run apart from the observations.

    Attributes:
        name: of the directory under ``runs``.
        started: ISO 8601 with offset.
        finished: the same.
        lab: the kind of nodes, if they are not real machines.
        notes: node -> the notes of its roles.
        systems: node -> its operating system.
        why_not_outside: why the controller did not test the master port.
    """

    name: str
    started: str
    finished: str
    lab: str = ""
    notes: Mapping[str, Sequence[Mapping[str, str]]] = field(default_factory=dict)
    systems: Mapping[str, str] = field(default_factory=dict)
    why_not_outside: str = ""


def summarize_node(seen: ClusterObservations, name: str, system: str) -> NodeSummary:
    """Summarize one node."""
    facts = seen.facts(name)
    versions = facts.get("versions", {})
    kept = ("interface", "names", "limits", "sysctls", "cpus", "clock", "health")
    return {
        "address": seen.address(name),
        "interface": str(facts.get("interface", {}).get("name", "")),
        "os": system,
        "kernel": str(facts.get("kernel", "")),
        "python": str(versions.get("python", "")),
        "torch": str(versions.get("torch", "")),
        "torch_nccl": str(versions.get("torch_nccl", "")),
        "nccl": verify_node.get_versions(seen, name)["nccl (system)"],
        "facts": {key: held for key, held in facts.items() if key in kept}
        | {"software": verify_node.get_software(seen, name)},
    }


def flatten_notes(notes: Mapping[str, Sequence[Mapping[str, str]]]) -> list[NoteRow]:
    """List the notes of all nodes, each with its node."""
    return [
        {"node": node, "code": str(note["code"]), "text": str(note["text"])}
        for node, held in notes.items()
        for note in held
    ]


def compute_duration(started: str, finished: str) -> float:
    """Return the duration of the run in seconds, or 0 if the clock was set back during the run."""
    spent = datetime.fromisoformat(finished) - datetime.fromisoformat(started)
    return round(max(0.0, spent.total_seconds()), 3)


def assemble_result(
    seen: ClusterObservations,
    run: VerificationRun,
    checks: Sequence[CheckOutcome],
    found: Sequence[Finding],
) -> Result:
    """Assemble everything into the form of the schema."""
    failed = [check.id for check in checks if check.status == FAILED]
    rows = pairs.build_link_rows(seen)
    mesh = verify_mesh.summarize_mesh(seen)
    job_ran = any(r.id in COLLECTIVES and r.status in ("passed", FAILED) for r in checks)
    made: Result = {
        "schema": SCHEMA,
        "fullmesh": __version__,
        "kind": "verify",
        "run": run.name,
        "started": run.started,
        "finished": run.finished,
        "seconds": compute_duration(run.started, run.finished),
        "verdict": "failed" if failed else "ok",
        "exit_code": 1 if failed else 0,
        "failed_rungs": failed,
        "check_mode": seen.check_mode,
        "lab": run.lab,
        "notes": flatten_notes(run.notes),
        "firewall_mode": seen.mode,
        "plan": dict(seen.plan),
        "nodes": {n: summarize_node(seen, n, run.systems.get(n, "")) for n in seen.plan["nodes"]},
        "rungs": [check.as_dict() for check in checks],
        "links": rows,
        "collectives": verify_ranks.summarize_collectives(seen) if job_ran else {},
        "findings": [finding.as_dict() for finding in found],
    }
    if mesh:
        made["mesh"] = mesh
    if seen.bisect:
        made["bisect"] = list(seen.bisect)
    return made


def validate_result(result: Result) -> Result:
    """Return the result as its file will have it.

    Raises:
        ValueError: it does not follow its schema, which is a bug in Fullmesh.
    """
    try:
        return read.parse_result(json.loads(json.dumps(result)))
    except contract.ContractError as error:
        raise ValueError(f"the result does not follow schema {SCHEMA}: {error}") from error
