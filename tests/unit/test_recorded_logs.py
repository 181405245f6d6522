"""explain-log on the logs of jobs that were really broken, as they came (tests/unit/data/logs/README.md says how)."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_explain_log import RANGE, list_folded, list_harmless, list_heads

from fullmesh.causes.logs import ExplainOptions
from fullmesh.explain import judge, reader
from fullmesh.explain.unpack import UnreadableLogError
from fullmesh.printed import CONTROL
from fullmesh.verbs import explain as explain_cli

LOGS = Path(__file__).parent / "data/logs"
# job -> the heads in order, what is folded under them
EXPECTED: dict[str, tuple[list[str], list[str]]] = {
    "c10d-store-dropped": (["LG-203"], ["LG-210", "LG-304"]),
    "data-dropped": (["LG-115"], ["LG-105"]),
    "data-rejected": (["LG-102"], ["LG-105"]),
    "data-reset": (["LG-103"], ["LG-105"]),
    "duplicate-rank": (["LG-210"], []),
    "elastic-master-missing": (["LG-202"], ["LG-301"]),
    "elastic-node-missing": (["LG-302"], []),
    "elastic-restart": (["LG-319"], ["LG-103", "LG-105", "LG-112", "LG-303", "LG-304", "LG-310"]),
    "env-missing": (["LG-311"], []),
    "gpu-gloo-send": (["LG-119"], []),
    "gpu-healthy-info": ([], []),
    "gpu-kernel-endless": (["LG-415"], ["LG-421"]),
    "gpu-link-cut": (["LG-455"], ["LG-415"]),
    "gpu-rank-asleep": (["LG-456"], ["LG-415"]),
    "gpu-rank-killed": (["LG-421"], []),
    "healthy": ([], []),
    "import-error": (["LG-346"], ["LG-210", "LG-304"]),
    "interface-absent": (["LG-108"], ["LG-210"]),
    "interface-loopback": (["LG-106"], ["LG-105"]),
    "killed-plain": (["LG-112"], []),
    "killed-worker": (["LG-305"], ["LG-112", "LG-304"]),
    "master-localhost": (["LG-204"], ["LG-201"]),
    "master-missing": (["LG-202"], []),
    "master-unknown-name": (["LG-206"], ["LG-201", "LG-202"]),
    "port-differs": (["LG-202"], ["LG-201", "LG-205"]),
    "port-in-use": (["LG-213"], ["LG-215"]),
    "rank-missing": (["LG-201"], []),
    "rank-too-large": (["LG-116"], ["LG-210"]),
    "store-dropped": (["LG-202"], ["LG-201"]),
    "store-rejected": (["LG-202"], ["LG-201", "LG-205"]),
    "torchrun-stopped": (["LG-309"], ["LG-112", "LG-304", "LG-310"]),
    "world-size-differs": (["LG-201"], ["LG-210"]),
    "wrong-master": (["LG-202"], ["LG-201"]),
}


def verdict_of(*parts: tuple[str, bytes]) -> judge.LogVerdict:
    """The verdict over the bytes of some logs."""
    tally = judge.Tally(ExplainOptions(RANGE))
    for name, data in parts:
        log = reader.Log(name)
        # damaged bytes may look like an archive of a kind that is refused
        with contextlib.suppress(UnreadableLogError):
            for block in reader.split_blocks(
                reader.decode_log(reader.unpack_log(iter([data]), log))
            ):
                tally.take(name, block)
    return judge.judge_logs(tally)


def logs_of(job: str) -> list[tuple[str, bytes]]:
    """The logs of a job."""
    return [(path.name, path.read_bytes()) for path in sorted((LOGS / job).glob("*.log"))]


def test_every_job_has_an_expectation_and_a_described_fault() -> None:
    jobs = {path.name for path in LOGS.iterdir() if path.is_dir()}
    assert jobs == EXPECTED.keys()
    for job in jobs:
        assert (LOGS / job / "how").read_text().strip()
        assert logs_of(job)


@pytest.mark.parametrize("job", EXPECTED)
def test_the_cause_is_named(job: str) -> None:
    verdict = verdict_of(*logs_of(job))
    assert (list_heads(verdict), sorted(set(list_folded(verdict)))) == EXPECTED[job]
    assert verdict.bad is ("healthy" not in job)
    assert all(head.prove and head.fix for head in verdict.heads)


@pytest.mark.parametrize("job", sorted(job for job in EXPECTED if "healthy" not in job))
def test_a_single_log_with_an_error_is_never_healthy(job: str) -> None:
    for name, data in logs_of(job):
        if b"Error" in data:
            assert verdict_of((name, data)).bad, name


def test_facts_of_a_log_of_nccl_2_28() -> None:
    seen = verdict_of(*logs_of("gpu-healthy-info")).overview
    assert (seen.ranks, seen.world_size, seen.programs["NCCL"]) == ([0, 1], 2, {"2.28.9"})


def test_a_defect_of_other_cpus_is_not_suspected() -> None:
    assert verdict_of(*logs_of("gpu-rank-killed")).overview.list_defects() == []
    assert "Arm" in verdict_of(*logs_of("gpu-link-cut")).overview.list_defects()[0]


CHOICES = st.sampled_from(sorted(EXPECTED) or ["none"])


@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])
@given(CHOICES, st.data())
def test_damaged_logs_do_no_harm(job: str, data: st.DataObject) -> None:
    parts = []
    for name, text in logs_of(job):
        start = data.draw(st.integers(0, len(text)))
        stop = data.draw(st.integers(start, len(text)))
        at = data.draw(st.integers(start, stop))
        junk = data.draw(st.binary(max_size=40))
        parts.append((name, text[start:at] + junk + text[at:stop]))
    verdict = verdict_of(*parts)
    shown = explain_cli.render_verdict(verdict, [])
    assert not CONTROL.search(shown.replace("\n", ""))
    assert len(shown) < 40_000
    assert len(list_harmless(verdict)) < 40
