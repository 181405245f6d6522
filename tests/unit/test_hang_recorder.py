"""Ranks' records: torch's files are read, and files of others cannot run code."""

from __future__ import annotations

import json
import os
import pickle
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import hang_records
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fullmesh.hang import judge, plain_pickle, recorder
from fullmesh.hang.plain_pickle import RefusedRecordError

RECORDED = Path(__file__).parent / "recorded/hang"
JOBS = sorted(path.name[: -len("-0.json")] for path in RECORDED.glob("*-0.json"))
PICKLES = sorted(path for path in RECORDED.iterdir() if "." not in path.name)


def get_refusal_code(data: bytes) -> str:
    with pytest.raises(RefusedRecordError) as caught:
        recorder.read_rank_file(data, 0)
    return caught.value.code


def test_there_are_records_of_both_kinds() -> None:
    assert len(JOBS) >= 4
    assert len(PICKLES) == 2 * len(JOBS)


@pytest.mark.parametrize("path", PICKLES, ids=lambda path: path.name)
def test_a_pickle_is_read_as_python_reads_it(path: Path) -> None:
    data = path.read_bytes()
    assert plain_pickle.read_plain_pickle(data) == pickle.loads(data)  # noqa: S301 (torch wrote it, while we looked)


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("rank", [0, 1])
def test_json_and_pickle_of_a_rank_are_equal(job: str, rank: int) -> None:
    told = recorder.read_rank_file((RECORDED / f"{job}-{rank}.json").read_bytes(), rank)
    dumped = recorder.read_rank_file((RECORDED / f"{job}_{rank}").read_bytes(), rank)
    assert all(entry["frames"] for entry in dumped["entries"])
    # The job may have gone on between the two.
    bare = {e["record"]: {**e, "frames": [], "retired": True} for e in dumped["entries"]}
    for entry in told["entries"]:
        assert bare.get(entry["record"], {**entry, "retired": True}) == {**entry, "retired": True}


def test_an_entry_has_all_that_torch_wrote() -> None:
    entries = recorder.read_rank_file((RECORDED / "groups_crossed_1").read_bytes(), 1)["entries"]
    first, last = entries[0], entries[-1]
    assert (first["group"], first["desc"], first["number"]) == ("0", "default_pg", 1)
    assert first["kind"] == "gloo:all_reduce"
    assert (first["in_sizes"], first["in_dtypes"]) == ([[8]], ["Float"])
    assert (first["retired"], last["retired"]) == (True, False)
    assert (last["group"], last["desc"], last["number"]) == ("2", "pipeline", 2)
    assert first["created_ns"] < last["created_ns"]
    assert last["frames"][-1]["file"] == "/home/user/train.py"
    assert [entry["record"] for entry in entries] == sorted(entry["record"] for entry in entries)


def test_the_groups_that_nccl_writes_are_read() -> None:
    data = json.loads((RECORDED / "late_sleep-0.json").read_text())
    data["pg_config"] = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"}}
    rank = recorder.read_rank_file(json.dumps(data).encode(), 7)
    assert rank["groups"] == [{"name": "0", "desc": "default_pg", "ranks": [0, 1, 2]}]
    assert (rank["rank"], rank["world"]) == (7, 3)


class Program:
    """A pickle that would run code when it is loaded."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "was here"

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", range(6))
def test_a_program_is_not_run(protocol: int, tmp_path: Path) -> None:
    data = pickle.dumps({"version": "2.10", "entries": [Program(tmp_path)]}, protocol)
    if data.startswith(plain_pickle.START[:1]):
        assert get_refusal_code(data) == "HG-171"
    else:
        assert not recorder.is_record_start(data)
    assert list(tmp_path.iterdir()) == []
    if protocol == 2:
        pickle.loads(data)  # noqa: S301 (that it would have done something)
        assert list(tmp_path.iterdir()) == [tmp_path / "was here"]


@pytest.mark.parametrize(
    "instructions",
    [b"cos\nsystem\n", b"\x80\x02", b"P1\n", b"Q", b"\x82\x01", b"o", b"b", b"R", b"\x81", b"i"],
)
def test_every_other_instruction_is_refused(instructions: bytes) -> None:
    data = plain_pickle.START + b"}" + instructions + b"."
    assert get_refusal_code(data) == "HG-171"


def test_a_memo_with_a_huge_index_costs_nothing() -> None:
    tracemalloc.start()
    data = plain_pickle.START + b"}r" + struct.pack("<I", 0xFFFFFFFF) + b"."
    assert plain_pickle.read_plain_pickle(data) == {}
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 20


@pytest.mark.parametrize(
    "data",
    [
        plain_pickle.START + b"\x8a\xff" + b"\x01" * 255 + b".",
        b"[" * 200_000,
        b'{"version": "2.10", "entries": ' + b"[" * 200_000,
    ],
    ids=["a long number", "deep", "a deep record"],
)
def test_an_oversized_record_is_refused(data: bytes) -> None:
    assert get_refusal_code(data) == "HG-172"


def test_too_many_bytes_steps_or_values_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = (RECORDED / "healthy_0").read_bytes()
    monkeypatch.setattr(plain_pickle, "MOST_STEPS", 100)
    assert get_refusal_code(data) == "HG-172"
    monkeypatch.undo()
    monkeypatch.setattr(recorder, "MOST_VALUES", 50)
    assert get_refusal_code(data) == "HG-172"
    monkeypatch.undo()
    for module in (plain_pickle, recorder):
        monkeypatch.setattr(module, "MOST_BYTES", 1000)
    assert get_refusal_code(data) == "HG-172"
    with pytest.raises(RefusedRecordError):
        plain_pickle.read_plain_pickle(data)


def test_one_list_at_many_places_is_counted_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pickle can show a list of a thousand sizes a thousand times in a few bytes."""
    shape = b"]q\x01(" + b"K\x08" * 1000 + b"e"
    sizes = b"]q\x02(" + b"h\x01" * 1000 + b"e"
    entry = b"}q\x03(X\x0e\x00\x00\x00profiling_nameX\x01\x00\x00\x00aX\x05\x00\x00\x00stateX\x01\x00\x00\x00a"
    entry += b"X\x0b\x00\x00\x00input_sizesh\x02u"
    record = b"}(X\x07\x00\x00\x00versionX\x04\x00\x00\x002.10X\x07\x00\x00\x00entries](" + entry
    record += b"h\x03" * 1000 + b"eu."
    data = plain_pickle.START + b"(" + shape + sizes + record[:-1] + b"t."
    found = plain_pickle.read_plain_pickle(data)
    assert isinstance(found, tuple)
    monkeypatch.setattr(recorder, "MOST_VALUES", 500_000)
    with pytest.raises(RefusedRecordError, match="more than 500000 values"):
        recorder.parse_record(found[2])


def test_a_pickle_that_is_cut_off_is_refused() -> None:
    data = (RECORDED / "kinds_0").read_bytes()
    for size in range(2, len(data), 3):
        assert get_refusal_code(data[:size]) == "HG-173"


def test_json_that_is_cut_off_is_refused() -> None:
    data = (RECORDED / "kinds-0.json").read_bytes()
    assert {get_refusal_code(data[:size]) for size in range(1, len(data) - 1, 50)} == {"HG-173"}


@pytest.mark.parametrize(
    "change",
    [
        {"version": None},
        {"version": "3.0"},
        {"entries": 5},
        {"entries": [5]},
        {"entries": [{"profiling_name": "a", "state": "b"}]},
        {"entries": [{"profiling_name": "a", "state": "b", "input_sizes": 7}]},
        {"entries": [{"profiling_name": "a", "state": "b", "input_sizes": [["x", {}]]}]},
        {"entries": [{"profiling_name": "a", "state": "", "input_sizes": [], "frames": [1]}]},
    ],
    ids=str,
)
def test_an_invalid_record_is_refused(change: dict[str, Any]) -> None:
    data = json.loads((RECORDED / "late_sleep-0.json").read_text())
    data.update(change)
    if change == {"version": None}:
        del data["version"]
    assert get_refusal_code(json.dumps(data).encode()) == "HG-174"


# The keys and values that comms/torchcomms/hooks/fr/FlightRecorder.cpp writes (read from its source, not recorded).
def torchcomms_dump(*kinds: str) -> bytes:
    """A dump of torchcomms after these operations."""
    entries = [
        {
            **{"record_id": at, "pg_id": 0, "process_group": ["world", "gloo"], "op_id": at},
            **{"thread_name": "", "thread_id": "1", "collective_seq_id": at, "p2p_seq_id": 0},
            **{"profiling_name": f"gloo:{kind}", "time_created_ns": 1000 + at, "duration_ms": 0.5},
            **{"input_sizes": [[4]], "input_dtypes": ["Float"], "output_sizes": [[4]]},
            **{"output_dtypes": ["Float"], "state": "completed", "retired": True},
            **{"time_discovered_started_ns": 1001 + at, "time_discovered_completed_ns": 1002 + at},
            **{"timeout_ms": 600000, "is_p2p": False},
        }
        for at, kind in enumerate(kinds, 1)
    ]
    entries[-1] |= {"state": "scheduled", "retired": False, "time_discovered_completed_ns": 0}
    config = {"world": {"name": "world", "desc": "gloo", "ranks": "[0, 1]"}}
    whole = {"version": "2.10", "comm_lib_version": "1", "pg_config": config, "pg_status": {}}
    return json.dumps({**whole, "entries": entries}).encode()


def test_a_rank_that_did_not_enter_is_named_from_dumps_of_torchcomms() -> None:
    dumps = [torchcomms_dump("all_reduce", "all_reduce"), torchcomms_dump("all_reduce")]
    dumps[1] = dumps[1].replace(b'"scheduled"', b'"completed"').replace(b"false", b"true", 1)
    ranks = [recorder.read_rank_file(data, number) for number, data in enumerate(dumps)]
    assert ranks[0]["entries"][-1]["kind"] == "gloo:all_reduce"
    assert ranks[0]["groups"] == [{"name": "world", "desc": "gloo", "ranks": [0, 1]}]
    [found] = judge.judge_job([ranks])
    assert (found.code, found.ranks) == ("HG-110", (1,))


@pytest.mark.parametrize("kind", ["send", "recv", "batch_op_issue"])
def test_sends_that_are_counted_as_collectives_are_refused(kind: str) -> None:
    assert get_refusal_code(torchcomms_dump("all_reduce", kind, "all_reduce")) == "HG-174"


@pytest.mark.parametrize("text", ["9" * 5000, "\u00b2", "--1", "1_0"])
def test_a_text_that_is_no_number_is_ignored(text: str) -> None:
    data = json.loads((RECORDED / "late_sleep-0.json").read_text())
    data["entries"][0]["record_id"] = text
    assert recorder.read_rank_file(json.dumps(data).encode(), 0)["entries"][0]["record"] == 0


def test_an_incomplete_answer_of_a_rank_is_refused() -> None:
    assert get_refusal_code(b'{"threads": [], "taken_ns": 1}') == "HG-174"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"world": 10**12}, "HG-172"),
        ({"rank": -1}, "HG-172"),
        ({"groups": [{"name": "0", "desc": "", "ranks": [10**9]}]}, "HG-172"),
        ({"host": "n1; rm -rf /"}, "HG-174"),
        ({"host": "\x1b[2J"}, "HG-174"),
        ({"world": "2"}, "HG-174"),
        ({"more": 1}, "HG-174"),
    ],
    ids=str,
)
def test_fields_that_no_rank_reports_of_itself_are_refused(
    change: dict[str, Any], code: str
) -> None:
    one = hang_records.load_raw("late_sleep")[0][1]
    assert recorder.read_rank_file(json.dumps(one).encode(), 0)["rank"] == 1
    assert get_refusal_code(json.dumps({**one, **change}).encode()) == code


def test_ranks_that_nccl_cannot_have_are_refused() -> None:
    data = json.loads((RECORDED / "late_sleep-0.json").read_text())
    data["pg_config"] = {"0": {"name": "0", "desc": "", "ranks": f"[0, {10**15}]"}}
    assert get_refusal_code(json.dumps(data).encode()) == "HG-172"


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_bent_record_does_anything_but_be_refused(data: st.DataObject) -> None:
    raw = bytearray((RECORDED / data.draw(st.sampled_from(PICKLES)).name).read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        raw[data.draw(st.integers(2, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        rank = recorder.read_rank_file(bytes(raw), 0)
    except RefusedRecordError:
        return
    json.dumps(rank)


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("nccl_trace_rank_12", 12),
        ("dumps/rank3.json", 3),
        ("late-1.json", 1),
        ("/runs/7/dump", None),
        ("run2/dump_0.pickle", 0),
    ],
)
def test_the_rank_is_at_the_end_of_the_name(name: str, rank: int | None) -> None:
    assert recorder.parse_file_rank(name) == rank


def test_logs_are_no_records() -> None:
    for head in (b"", b"{", b"Traceback", b'{"level": "info"}', b"\x80\x03", b"\x80"):
        assert not recorder.is_record_start(head)
    for name in ("healthy_0", "healthy-0.json"):
        assert recorder.is_record_start((RECORDED / name).read_bytes()[:256])
