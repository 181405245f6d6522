"""hang: pages, records and logs."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path

import hang_records
import pytest
from causes.cases import JOBS
from hang_records import RECORDED
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fullmesh import cli
from fullmesh.causes.hang.job import format_ranks as in_words
from fullmesh.hang import recorder
from fullmesh.hang.judge import judge_job, load_hang_causes
from fullmesh.observed.hang import Rank


def test_ranks_are_formatted() -> None:
    assert in_words([3]) == "rank 3"
    assert in_words([0, 2, 3, 4, 7, 8]) == "ranks 0, 2-4, 7, 8"
    assert in_words(list(range(0, 60, 2))) == "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 22 more"


# -- pages and explain-log
def test_every_code_has_a_page() -> None:
    for cause in load_hang_causes().values():
        assert cause.page.why


def explained(argv: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = cli.main(["explain-log", *argv])
    out, err = capsys.readouterr()
    return code, out, err


def dumps(name: str, ranks: int = 2) -> list[str]:
    return [str(RECORDED / f"{name}_{rank}") for rank in range(ranks)]


def test_explain_log_reads_dumps(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = explained(dumps("groups_crossed"), capsys)
    assert code == 1
    assert "1. [HG-124] ranks 0, 1 entered two groups in opposite order" in out
    assert "all_reduce 2 of tensor at /home/user/train.py:16" in out
    assert "page:     ./fullmesh explain HG-124" in out
    assert "2 logs read" in out


def test_explain_log_reads_torchs_json(capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(RECORDED / f"late_sleep-{rank}.json") for rank in (0, 1)]
    code, out, _ = explained(["--json", *files], capsys)
    (finding,) = json.loads(out)["findings"]
    assert (code, finding["code"], finding["where"]) == (1, "HG-110", "rank 1")
    assert finding["evidence"] == [
        {"file": files[1], "line": 0, "rank": "1", "text": "it entered 3 last"}
    ]
    assert finding.keys() == {
        *("code", "severity", "cause", "where", "evidence"),
        *("count", "prove", "fix", "page", "follows"),
    }


def test_explain_log_reads_collector_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = []
    for one in hang_records.load_raw("late_lock")[-1]:
        files.append(tmp_path / f"answer{one['rank']}.json")
        files[-1].write_text(json.dumps(one))
    code, out, _ = explained([str(path) for path in files], capsys)
    assert code == 1
    assert "[HG-108] rank 1 (n2) waits for a lock" in out


def test_records_and_logs_are_judged_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "rank0.log"
    log.write_text("RuntimeError: CUDA error: out of memory\n[rank0]: connection refused\n" * 2)
    alone = explained([str(log)], capsys)[1].count("[LG-")
    code, out, _ = explained([*dumps("kinds"), str(log)], capsys)
    assert code == 1
    assert "1. [HG-121]" in out
    assert out.count("[LG-") == alone


def test_a_healthy_record_is_no_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both were between two steps."""
    files = []
    for rank in (0, 1):
        data = json.loads((RECORDED / f"healthy-{rank}.json").read_text())
        data["entries"] = [one for one in data["entries"] if one["retired"]][:20]
        files.append(tmp_path / f"dump_{rank}.json")
        files[-1].write_text(json.dumps(data))
    code, out, _ = explained([str(path) for path in files], capsys)
    assert code == 0
    assert "nothing wrong found" in out


def test_two_records_of_one_rank_count_once(capsys: pytest.CaptureFixture[str]) -> None:
    both = [str(RECORDED / "late_sleep-1.json"), str(RECORDED / "late_sleep-0.json")]
    code, out, _ = explained([*dumps("late_sleep"), *both], capsys)
    assert code == 1
    assert out.count("[HG-110]") == 1
    assert "is also a record of rank 1" in out
    # The one with stacks is taken, whichever comes first.
    assert "/home/user/train.py:19" in explained([*both, *dumps("late_sleep")], capsys)[1]


def test_a_record_that_is_refused_does_not_hide_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "dump_7"
    bad.write_bytes(b"\x80\x02cos\nsystem\n.")
    code, out, err = explained([str(bad), *dumps("kinds")], capsys)
    assert (code, "[HG-121]" in out) == (1, True)
    assert "[HG-171]" in err
    assert explained([str(bad)], capsys)[0] == 2
    cut = tmp_path / "dump_8"
    cut.write_bytes((RECORDED / "kinds_0").read_bytes()[:500])
    code, _, err = explained([str(cut)], capsys)
    assert (code, "[HG-173]" in err) == (2, True)


def test_a_record_cannot_control_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = json.loads((RECORDED / "kinds-0.json").read_text())
    for entry in data["entries"]:
        entry["profiling_name"] = "gloo:\x1b]0;x\x07\u202e" + entry["profiling_name"]
        entry["process_group"][1] = "\x1b[2J"
    bad = tmp_path / "dump_0"
    bad.write_text(json.dumps(data))
    out = explained([str(bad), str(RECORDED / "kinds-1.json")], capsys)[1]
    assert "[HG-121]" in out
    assert "\x1b" not in out
    assert "\u202e" not in out


def test_a_page_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "HG-124"]) == 0
    assert "More: docs/hang.md" in capsys.readouterr().out


def test_a_rank_without_number_gets_the_next_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = []
    for rank, name in enumerate(("first", "second")):
        files.append(tmp_path / name)
        files[-1].write_bytes((RECORDED / f"kinds_{rank}").read_bytes())
    _, out, _ = explained([str(path) for path in files], capsys)
    assert "broadcast on rank 0" in out
    assert "barrier on rank 1" in out


def test_a_collector_may_omit_unknown_fields() -> None:
    """A rank of which there is nothing but a number, as for a node that does not answer."""
    nothing: Rank = recorder.make_recorded_rank(1, [], [])
    nothing.update(process="unasked", missing=[{"what": "process", "why": "no route to host"}])
    (finding,) = judge_job([[hang_records.load("late_sleep")[-1][0], nothing]])
    assert (finding.code, finding.ranks) == ("HG-151", (1,))
    assert "no route to host" in finding.cause


BENT = st.sampled_from(
    ["gone", "unasked", "no entries", "no threads", "swap", "number", "group", "drop", "raised"]
)


@settings(
    max_examples=250,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=(Phase.explicit, Phase.generate),  # answers are large, to make one small takes minutes
)
@given(st.data())
def test_no_answers_of_ranks_make_it_fall_over(data: st.DataObject) -> None:
    """Ranks of different jobs, some missing, some without answers, with inconsistent numbers and groups."""
    samples = [
        [
            copy.deepcopy(data.draw(st.sampled_from(everybody())))
            for _ in range(data.draw(st.integers(0, 5)))
        ]
        for _ in range(data.draw(st.integers(1, 5)))
    ]
    for sample in samples:
        for number, one in enumerate(sample):
            one["rank"] = data.draw(st.integers(0, 6)) if data.draw(st.booleans()) else number
            for what in data.draw(st.lists(BENT, max_size=3)):
                bend(one, what, data.draw(st.integers(0, 9)))
    found = judge_job(samples, data.draw(st.sampled_from([0.0, 1.0, 60.0])))
    json.dumps([one.as_dict() for one in found])
    assert all(one.cause and one.fix for one in found)


@cache
def everybody() -> list[Rank]:
    return [one for name in JOBS for one in hang_records.load(name)[-1]]


def bend(one: Rank, what: str, number: int) -> None:
    if what == "gone":
        one.update(process="gone", exit_code=[None, 0, 1, -9, -15, -99][number % 6])
    elif what == "unasked":
        one.update(process="unasked", missing=[{"what": "process", "why": ""}])
    elif what == "no entries":
        one["entries"] = []
    elif what == "no threads":
        one["threads"] = []
    elif what == "swap":
        one["entries"] = one["entries"][::-1]
    elif what == "drop":
        one["entries"] = one["entries"][number:]
    elif what == "group":
        one["groups"] = [{"name": "1", "desc": "x", "ranks": [number, 7 * number]}]
    elif what == "raised":
        one["raised"] = {"text": ["", "Connection closed by peer", "x"][number % 3], "frames": []}
    elif one["entries"]:
        one["entries"][-1].update(
            number=number, p2p=number % 2 == 0, kind=f"nccl:send {number}->{number % 3}"
        )
        one["entries"][0].update(in_sizes=[[number]], retired=number % 3 == 0, state="started")
