"""Export judged jobs: as JSON, and as a folder with the state of every rank for ``explain-log``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fullmesh.causes.hang.job import HangFinding
from fullmesh.causes.pages import format_page_link
from fullmesh.hang.jobs import QueriedJob, number_job_file
from fullmesh.hang.judge import load_hang_causes
from fullmesh.observed.hang import Rank
from fullmesh.printed import clean_and_shorten

SCHEMA = 1
MOST_NAMED = 8  # jobs that are not judged
LONGEST = 400  # characters of a sentence
MOST_RANKS = 4096  # explain-log reads as many files of a folder
RANKS, FINDINGS = "ranks", "hang.json"

Judged = Sequence[tuple[QueriedJob, Sequence[HangFinding]]]


def jobs_to_json(judged: Judged, rest: Sequence[str] = ()) -> str:
    """Return the first job as JSON for programs, and the others as ``others``."""
    first, *others = [
        {
            "schema": SCHEMA,
            "job": clean_and_shorten(job.name),
            "account": clean_and_shorten(job.account),
            "ranks": len(job.samples[-1]),
            "looks": len(job.samples),
            "findings": [hang_finding_to_data(one) for one in found],
        }
        for job, found in judged
    ]
    data = {
        **first,
        "others": others,
        "not_judged": [clean_and_shorten(name) for name in rest[:MOST_NAMED]],
    }
    return json.dumps(data, indent=2)


def hang_finding_to_data(finding: HangFinding) -> dict[str, Any]:
    """Return a finding as data for programs: rank, collective and line are separate fields."""
    found = {
        name: clean_and_shorten(value, LONGEST) if isinstance(value, str) else value
        for name, value in finding.as_dict().items()
    }
    follows = [hang_finding_to_data(one) for one in finding.follows]
    return {
        **found,
        "prove": finding.check or load_hang_causes()[finding.code].page.prove,
        "page": format_page_link(finding.code),
        "follows": follows,
    }


def select_dumped_ranks(sample: Sequence[Rank]) -> list[Rank]:
    """Return the ranks to write: those that answered first, since a node may claim to have started millions."""
    return sorted(sample, key=lambda one: (not one["pid"], one["rank"]))[:MOST_RANKS]


def write_hang_dump(folder: Path, judged: Judged) -> Path:
    """Write what is known about hung jobs to a new folder, and return the folder that ``explain-log`` reads.

    Raises:
        OSError: it cannot be written.
    """
    folder.mkdir(parents=True)
    (folder / FINDINGS).write_text(jobs_to_json(judged) + "\n", "utf-8")
    for number, (job, _) in enumerate(judged, 1):
        ranks = number_job_file(folder / RANKS, number)
        ranks.mkdir()
        for one in select_dumped_ranks(job.samples[-1]):
            # explain-log knows such a file by a word in its first bytes
            text = json.dumps({"taken_ns": one["taken_ns"], **one})
            (ranks / f"rank{one['rank']}.json").write_text(text, "utf-8")
    return folder / RANKS
