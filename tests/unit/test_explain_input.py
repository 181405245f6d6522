"""explain-log on archives, odd encodings and files that cannot be read: a true answer and the right exit status."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import random
import subprocess
import sys
import threading
import time
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from test_explain_log import CLIENTS, HEALTHY, list_heads, read_bytes, run

from fullmesh.causes.logs import ExplainOptions
from fullmesh.explain import judge, reader, unpack
from fullmesh.settings import ROOT

ALL_CLEAR = "nothing wrong found"
NOISE = random.Random(1).randbytes(500_000)  # noqa: S311 (the same bytes in each run, no secret)


def make_zip(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip archive."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return data.getvalue()


def explain_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes, name: str = "a.log"
) -> tuple[int, str, str]:
    """Return the command's output for a file with *data*."""
    (tmp_path / name).write_bytes(data)
    return run(["explain-log", str(tmp_path / name)], capsys)


# Archives

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}


@pytest.mark.parametrize("packer", PACKERS)
def test_a_packed_log_is_unpacked(
    packer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pack = PACKERS[packer]
    code, out, _ = explain_data(tmp_path, capsys, pack(CLIENTS.encode()))
    assert (code, "[LG-201]" in out) == (1, True)
    code, out, _ = explain_data(tmp_path, capsys, pack(b"all is well\n") + pack(CLIENTS.encode()))
    assert (code, "[LG-201]" in out) == (1, True)
    code, out, _ = explain_data(tmp_path, capsys, pack(HEALTHY.encode()))
    assert (code, ALL_CLEAR in out) == (0, True)


@pytest.mark.parametrize("packer", PACKERS)
def test_a_packed_log_in_pieces_of_any_size_is_unpacked(packer: str) -> None:
    text = b"".join(b"line %d of a log that is long enough\n" % number for number in range(9000))
    packed = PACKERS[packer](text) + PACKERS[packer](b"the end\n")
    for size in (1, 7, 4096):
        pieces = iter([packed[at : at + size] for at in range(0, len(packed), size)])
        log = reader.Log("log")
        assert b"".join(reader.unpack_log(pieces, log)) == text + b"the end\n"
        assert log.is_complete


@pytest.mark.parametrize("packer", PACKERS)
def test_a_truncated_packed_log_is_no_all_clear(
    packer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = PACKERS[packer](HEALTHY.encode() * 9 + NOISE.hex().encode())
    code, out, _ = explain_data(tmp_path, capsys, packed[: len(packed) // 2])
    assert (code, ALL_CLEAR in out) == (2, False)
    assert "truncated" in out


@pytest.mark.parametrize("packer", PACKERS)
def test_a_damaged_archive_is_noted(packer: str, tmp_path: Path) -> None:
    packed = PACKERS[packer](NOISE.hex().encode())
    _, log = read_bytes(packed[:5000] + b"\0" * 5000 + packed[10000:], tmp_path)
    assert not log.is_complete
    assert "damaged" in log.note


@pytest.mark.parametrize("packer", PACKERS)
def test_a_bomb_is_unpacked_within_its_bounds(packer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = PACKERS[packer](bytes(64_000_000))
    monkeypatch.setattr(unpack, "MOST_UNPACKED", 10_000_000)
    log, total = reader.Log("log"), 0
    tracemalloc.start()
    try:
        for data in reader.unpack_log(iter([bomb]), log):
            total += len(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert total <= 10_000_000 + unpack.CHUNK
    assert peak < 20_000_000
    assert "first" in log.note
    with pytest.raises(unpack.DeadlineError):
        list(unpack.unpack_stream(iter([bomb]), log.cut_short, time.monotonic() - 1))


def test_xz_that_asks_for_too_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = lzma.compress(HEALTHY.encode(), preset=6)
    monkeypatch.setattr(unpack, "MOST_MEMORY", 1 << 20)
    with pytest.raises(unpack.UnreadableLogError, match="MiB to unpack") as caught:
        list(reader.unpack_log(iter([packed]), reader.Log("log")))
    assert caught.value.code == "CL-122"


def test_the_files_of_a_zip_archive_are_read_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"rank0.log": HEALTHY.encode(), "sub/rank1.log": b"a\n" + CLIENTS.encode()}
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
        code, out, _ = explain_data(tmp_path, capsys, make_zip(files, method), "a.zip")
        assert (code, "[LG-201]" in out) == (1, True)
        assert "a.zip/sub/rank1.log:2: " in out
        assert "2 logs read" in out


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_another_method_of_zip_is_refused_by_name(
    method: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = explain_data(
        tmp_path, capsys, make_zip({"a": CLIENTS.encode()}, method), "a.zip"
    )
    assert (code, "[CL-122]" in err, ALL_CLEAR in out) == (2, True, False)
    assert "unzip" in err


def test_a_truncated_or_piped_zip_archive_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = make_zip({"a": CLIENTS.encode()})
    code, out, err = explain_data(tmp_path, capsys, data[:-30], "a.zip")
    assert (code, "[CL-122]" in err, ALL_CLEAR in out) == (2, True, False)
    with pytest.raises(unpack.UnreadableLogError, match="zip"):
        list(reader.unpack_log(iter([data]), reader.Log("stdin")))


def test_a_bomb_inside_a_zip_archive_is_bounded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpack, "MOST_UNPACKED", 1_000_000)
    code, out, err = explain_data(tmp_path, capsys, make_zip({"a": b"well\n" * 4_000_000}), "a.zip")
    assert (code, "[CL-122]" in err, ALL_CLEAR in out) == (2, True, False)


@pytest.mark.parametrize(
    ("start", "name"),
    [
        (b"\x04\x22\x4d\x18", "lz4"),
        (b"7z\xbc\xaf\x27\x1c", "7z"),
        (b"Rar!\x1a\x07", "rar"),
        (b"\x1f\x9d\x90", "uncompress"),
    ],
)
def test_a_format_that_cannot_be_unpacked_is_named(
    start: bytes, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = explain_data(tmp_path, capsys, start + NOISE)
    assert (code, "[CL-122]" in err, name in err, ALL_CLEAR in out) == (2, True, True, False)


def test_zstd_is_unpacked_or_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = CLIENTS.encode()
    block = (len(text) << 3 | 1).to_bytes(3, "little") + text
    frame = b"\x28\xb5\x2f\xfd\x20" + bytes([len(text)]) + block  # one block, not compressed
    code, out, err = explain_data(tmp_path, capsys, frame)
    if sys.version_info >= (3, 14):
        assert (code, "[LG-201]" in out) == (1, True)
    else:
        assert (code, "[CL-122]" in err, "zstd -d" in err) == (2, True, True)
    assert ALL_CLEAR not in out


# Encodings


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark_is_recognized(encoding: str, tmp_path: Path) -> None:
    verdict, _ = read_bytes(f"höchst {CLIENTS}\n".encode(encoding), tmp_path)
    assert list_heads(verdict) == ["LG-201"]


def test_a_file_that_is_not_text_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for data in (NOISE, bytes(9000), Path(sys.executable).resolve().read_bytes()[:300_000]):
        code, out, err = explain_data(tmp_path, capsys, data)
        assert (code, "[CL-123]" in err, ALL_CLEAR in out) == (2, True, False)
    code, out, _ = explain_data(tmp_path, capsys, NOISE + b"\n" + CLIENTS.encode() + b"\n")
    assert (code, "[LG-201]" in out) == (1, True)


@pytest.mark.parametrize(
    "data",
    [
        bytes(100_000) + HEALTHY.encode(),
        HEALTHY.encode() + NOISE[:200] + HEALTHY.encode() * 20,
        "日本語のログ\n".encode("shift-jis") * 99,
        "grün\n".encode("latin-1") * 99,
        b"\x1b[32m[\x1b[0m\x08\x08 50%\r" * 99,
    ],
    ids=["a hole", "some odd bytes", "shift-jis", "latin-1", "a progress bar"],
)
def test_a_text_with_odd_bytes_is_text(
    data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = explain_data(tmp_path, capsys, data)
    assert (code, err, ALL_CLEAR in out) == (0, "", True)


def test_a_journald_byte_array_is_read(tmp_path: Path) -> None:
    message = f"\x1b[31m{CLIENTS}\x1b[0m".encode()
    lines = [
        json.dumps({"MESSAGE": list(message), "PRIORITY": "3"}),
        json.dumps({"PRIORITY": "3", "MESSAGE": list(message)}, indent=1),
        '{ "MESSAGE" : [ 72, 999999, 1 ], "X" : "1" }',
    ]
    for number, line in enumerate(lines[:2]):
        verdict, _ = read_bytes(f"first\n{line}\nlast\n".encode(), tmp_path)
        (head,) = verdict.heads
        assert (head.code, head.evidence[0].line) == ("LG-201", 2 + 2 * number)
        assert "\\x1b" not in head.evidence[0].text
    verdict, _ = read_bytes(lines[2].encode(), tmp_path)
    assert list_heads(verdict) == []


CRI = "2026-11-26T10:00:00.123456789Z {} {} {}\n"


def test_a_line_that_a_container_runtime_cut_is_joined(tmp_path: Path) -> None:
    text, cuts = CLIENTS, (10, 40, 70)
    pieces = [text[a:b] for a, b in zip((0, *cuts), (*cuts, len(text)), strict=True)]
    lines = [CRI.format("stderr", "P" if p != pieces[-1] else "F", p) for p in pieces]
    whole = CRI.format("stdout", "F", "x") + "".join(lines) + CRI.format("stderr", "F", CLIENTS)
    for size in (1, 50, 1 << 16):
        tally = judge.Tally(ExplainOptions())
        for block in reader.split_blocks(
            iter([whole[at : at + size] for at in range(0, len(whole), size)])
        ):
            tally.take("log", block)
        (head,) = judge.judge_logs(tally).heads
        assert (head.code, [line.line for line in head.evidence]) == ("LG-201", [2, 6])


def test_pieces_of_two_streams_are_not_joined() -> None:
    text = CRI.format("stdout", "P", CLIENTS[:40]) + CRI.format("stderr", "F", CLIENTS[40:])
    tally = judge.Tally(ExplainOptions())
    for block in reader.split_blocks(iter([text])):
        tally.take("log", block)
    assert list_heads(judge.judge_logs(tally)) != ["LG-201"]


def pieces_without_end() -> Iterator[str]:
    """A line of a container runtime that never ends."""
    for _ in range(3000):
        yield CRI.format("stdout", "P", "x" * 4000)


def test_a_cut_line_that_never_ends_needs_bounded_memory() -> None:
    longest = max(len(block.text) for block in reader.split_blocks(pieces_without_end()))
    assert longest < 4 * reader.MOST_JOINED


# What cannot be read


def test_an_empty_input_is_no_all_clear(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    for name, word in (("none.log", "No such file"), ("empty", "has no files")):
        code, out, err = run(["explain-log", str(tmp_path / name)], capsys)
        assert (code, "[CL-110]" in err, word in err) == (2, True, True)
        assert (ALL_CLEAR in out, "0 logs read" in out) == (False, False)
        assert "No log could be read" in out
    (tmp_path / "a.log").write_text("")
    code, out, _ = run(["explain-log", str(tmp_path / "a.log")], capsys)
    assert (code, ALL_CLEAR in out, "it is empty" in out) == (2, False, True)
    (tmp_path / "b.log").write_text(HEALTHY)
    code, out, _ = run(["explain-log", str(tmp_path / "a.log"), str(tmp_path / "b.log")], capsys)
    assert (code, ALL_CLEAR in out) == (0, True)


def test_json_lists_unreadable_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "good.log").write_text(HEALTHY)
    (tmp_path / "odd.log").write_bytes(NOISE)
    names = [str(tmp_path / name) for name in ("good.log", "none.log", "odd.log")]
    code, out, _ = run(["explain-log", "--json", *names], capsys)
    data = json.loads(out)
    assert code == 2
    assert [(Path(one["name"]).name, one["code"]) for one in data["unread"]] == [
        ("none.log", "CL-110"),
        ("odd.log", "CL-123"),
    ]
    assert [Path(one["name"]).name for one in data["logs"]] == ["good.log"]
    code, out, _ = run(["explain-log", *names], capsys)
    assert (code, ALL_CLEAR in out) == (2, False)


@pytest.mark.parametrize("deadline", ["-1", "0", "nan"])
def test_an_invalid_deadline_is_refused(
    deadline: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.log").write_text(HEALTHY)
    code, out, err = run(["explain-log", f"--deadline={deadline}", str(tmp_path / "a.log")], capsys)
    assert (code, out, "[CL-124]" in err) == (2, "", True)


@pytest.mark.parametrize(("text", "status"), [(HEALTHY, 2), (CLIENTS + "\n", 1)])
def test_a_deadline_that_passes_is_no_all_clear(
    text: str, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    holder = os.open(pipe, os.O_RDWR)
    try:
        os.write(holder, text.encode())
        code, out, _ = run(["explain-log", "--deadline", "0.3", str(pipe)], capsys)
        code_json, as_json, _ = run(
            ["explain-log", "--json", "--deadline", "0.1", str(pipe)], capsys
        )
    finally:
        os.close(holder)
    assert (code, ALL_CLEAR in out, "deadline passed" in out) == (status, False, True)
    assert code_json == 2
    assert json.loads(as_json)["logs"][0]["complete"] is False


def test_the_two_commands_of_the_review(tmp_path: Path) -> None:
    """A traceback by a pipe, and the same in a packed file."""
    text = (
        'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\nRuntimeError: x\n'
    )
    (tmp_path / "a.xz").write_bytes(lzma.compress(text.encode()))
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    for name in ("-", "a.xz"):
        done = subprocess.run(
            [sys.executable, "-m", "fullmesh", "explain-log", name],
            cwd=tmp_path,
            env=env,
            input=text.encode(),
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 1, done.stderr
        assert b"RuntimeError: x" in done.stdout
        assert b"nothing wrong" not in done.stdout


def test_a_slow_pipe_is_still_recognized(tmp_path: Path) -> None:
    packed, pipe = lzma.compress(CLIENTS.encode()), tmp_path / "pipe"
    os.mkfifo(pipe)
    holder = os.open(pipe, os.O_RDWR)

    def feed() -> None:
        for at in range(len(packed)):
            os.write(holder, packed[at : at + 1])
            time.sleep(0.0005)

    feeder = threading.Thread(target=feed)
    feeder.start()
    log, tally = reader.Log("pipe"), judge.Tally(ExplainOptions())
    for block in reader.read_log_blocks(log, pipe, time.monotonic() + 2):
        tally.take("pipe", block)
    feeder.join(30)
    os.close(holder)
    assert list_heads(judge.judge_logs(tally)) == ["LG-201"]
