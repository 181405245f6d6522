"""Processes that pretend to be ranks next to a real job: its answer is complete, and they are named.

They run as an account without rights (tests/support/adversary_ranks.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import adversary_ranks
import fullmesh_hang
import fullmesh_hang_answer as hang_answer
import fullmesh_hang_look as hang_look
import pytest
from adversary_ranks import CROWD, FAKES, NOBODY, choose_python
from hang_ranks import MASTER, WAIT, hide_other_sessions, job_variables, ranks_in, recorded_rank
from ladder_samples import plan

from fullmesh import cli
from fullmesh.hang import ask
from fullmesh.observed.hang import NodeHang, Rank
from fullmesh.verbs import hang as hang_cli

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can switch to another account")
APART = ("unshare", "--user", f"--map-user={NOBODY}", f"--map-group={NOBODY}")


def can_be_apart() -> bool:
    """Return whether an account without rights may make a user namespace here. Some distributions forbid it."""
    words = [*APART, "true"]
    return os.geteuid() == 0 and not subprocess.run(words, user=NOBODY, check=False).returncode


NAMESPACES = pytest.mark.skipif(not can_be_apart(), reason="no account can make a user namespace")
KINDS = [
    pytest.param(name, marks=[NAMESPACES] if name == "apart" else [])
    for name in sorted(FAKES.keys() - {"crowd"})
]
# a text in the answer about each: about the process, or about the rank that it pretends to be
LEFT_OUT = {
    "digit": "RANK is '²', which is not a rank",
    "huge_rank": "RANK is '1000000000000000', which is not a rank",
    "long_rank": "RANK is '9999",
    "torchrun_huge": "--nproc-per-node is 1000000000000000",
}
SILENT = {
    "nested": "nested more than",
    "typed_rank": "its rank is not a number",
    "typed_threads": "a thread is not a mapping",
    "typed_entries": "an entry is not a mapping",
    "number": "a number of 5001 digits",
    "large": "values, more than",
    "slow": "did not end in time",
    "silent": "did not end in time",
    "not_utf8": "\ufffd",
    "surrogate": "?",
    "name": "not started by a launcher",
    "large_world": "x",
    "other_job": "not started by a launcher",
    "apart": "not started by a launcher",
}
LAUNCHERS = ("torchrun_large",)
NOTHING = ("torchrun_digit",)  # a torchrun without a job, as with --nproc-per-node=auto


@pytest.fixture(autouse=True)
def ours(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Limit the processes to those of this test."""
    return hide_other_sessions(monkeypatch)


@pytest.fixture
def readable() -> Iterator[Path]:
    """Make a folder that every account may read."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def begin(readable: Path, ours: list[int]) -> Iterator[Callable[[str], int]]:
    """Return a function that starts a fake as the account nobody."""
    path = readable / "adversary_ranks.py"
    path.write_bytes(Path(adversary_ranks.__file__).read_bytes())
    running: list[subprocess.Popen[bytes]] = []

    def start(name: str) -> int:
        running.append(adversary_ranks.start_fake(name, job_variables(), str(path), NOBODY))
        ours.append(running[-1].pid)
        return running[-1].pid

    yield start
    for one in running:
        os.killpg(one.pid, signal.SIGKILL)
        one.communicate()


@pytest.fixture
def honest(tmp_path: Path, ours: list[int]) -> Iterator[list[int]]:
    """Start the two ranks of a real job, as this account."""
    with ranks_in(tmp_path) as start:
        late = "import time\nprint('ready', flush=True)\ntime.sleep(600)\n"
        pids = [start(recorded_rank(0) + WAIT, 0).pid, start(recorded_rank(1) + late, 1).pid]
        ours += pids
        yield pids


def select_real_ranks(found: NodeHang) -> list[Rank]:
    """Return the ranks of the real job."""
    return [one for one in found["ranks"] if one["account"] == "root" and one["job"] == MASTER]


def list_gaps(found: NodeHang, honest: list[int]) -> list[object]:
    """List the differences between the real job's answer and the one without fakes."""
    ranks = select_real_ranks(found)
    seen = [(one["rank"], one["pid"]) for one in ranks]
    gaps: list[object] = [] if seen == list(enumerate(honest)) else [seen]
    for one in ranks:
        empty = [key for key in ("entries", "threads") if not one[key]]
        gaps += [{"rank": one["rank"], "missing": one["missing"], "empty": empty}] * bool(
            one["missing"] or empty
        )
    return gaps


def collect_answer(*looks: NodeHang) -> ask.HangAnswer:
    """Return the node's answer as it reaches the controller."""
    packed = [fullmesh_hang.pack_answer(look) for look in looks]
    return ask.HangAnswer("el1", tuple(ask.parse_node_hang(line, "el1") for line in packed))


def hang(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    one: ask.HangAnswer,
    *words: str,
) -> tuple[int, str]:
    """Return the command's output about an answer."""
    monkeypatch.setattr(hang_cli, "resolve_job_hosts", lambda *_: {"plan": plan(2), "hosts": {}})
    monkeypatch.setattr(ask, "query_hang_nodes", lambda *_: [one])
    code = cli.main(["hang", "-i", "inventory/prod", *words])
    out, err = capsys.readouterr()
    return code, out + err


def test_every_kind_of_fake_is_tested() -> None:
    assert {*LEFT_OUT, *SILENT, *LAUNCHERS, *NOTHING, "crowd"} == FAKES.keys()


@ROOT_ONLY
@pytest.mark.parametrize("name", KINDS)
def test_a_fake_is_named_and_the_job_is_complete(
    name: str, honest: list[int], begin: Callable[[str], int]
) -> None:
    stranger = begin(name)
    found, again = hang_look.read_node_ranks("el1"), hang_look.read_node_ranks("el1", MASTER)
    assert list_gaps(found, honest) == []
    assert list_gaps(again, honest) == []
    left = [one for one in found["left_out"] if one["pid"] == stranger]
    ranks = [one for one in found["ranks"] if one["pid"] == stranger]
    starts = [one for one in found["launchers"] if one["pid"] == stranger]
    assert {one["account"] for one in (*left, *ranks, *starts)} == (
        set() if name in NOTHING else {"nobody"}
    )
    assert [name in LEFT_OUT, name in SILENT, name in LAUNCHERS] == [
        bool(left),
        bool(ranks),
        bool(starts),
    ]
    said = [one["why"] for one in left] + [lost["why"] for one in ranks for lost in one["missing"]]
    assert LEFT_OUT.get(name, SILENT.get(name, "")) in " ".join(said)
    assert all(fullmesh_hang.describe_rank(one) for one in found["ranks"])


@ROOT_ONLY
@pytest.mark.usefixtures("honest")
@pytest.mark.parametrize("name", KINDS)
def test_the_command_names_a_fake_after_the_job(
    name: str,
    begin: Callable[[str], int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    begin(name)
    looks = (hang_look.read_node_ranks("el1"), hang_look.read_node_ranks("el1"))
    one = collect_answer(*looks)
    assert [
        select_real_ranks(look) == select_real_ranks(known) for look, known in zip(one.looks, looks)
    ] == [True] * 2
    code, text = hang(monkeypatch, capsys, one)
    assert code == 1
    assert text.startswith("1. [HG-107] rank 1 (el1) sleeps at ")
    assert "\x1b" not in text
    assert ("[HG-152] el1: a process says that it is a rank" in text) == (name in LEFT_OUT)
    assert LEFT_OUT.get(name, "") in text
    assert (" of account nobody: " in text) == (name in SILENT)


@ROOT_ONLY
def test_a_crowd_of_silent_fakes_causes_no_delay(
    honest: list[int], begin: Callable[[str], int]
) -> None:
    begin("crowd")
    found = hang_look.read_node_ranks("el1")
    assert list_gaps(found, honest) == []
    crowd = [one for one in found["ranks"] if one["account"] == "nobody"]
    assert {one["rank"] for one in crowd} == set(range(CROWD))
    # process ids may wrap around in a crowd, so its order means nothing
    assert sum("not read within" in one["missing"][0]["why"] for one in crowd) >= 100


@ROOT_ONLY
def test_more_ranks_than_an_account_may_have_are_counted(
    honest: list[int], begin: Callable[[str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hang_look.hang_border, "MOST_OF_ACCOUNT", 8)
    begin("crowd")
    found = hang_look.read_node_ranks("el1")
    assert list_gaps(found, honest) == []
    left = [one for one in found["left_out"] if one["account"] == "nobody"]
    assert [one["count"] for one in left] == [1, 1, 1, 1, CROWD - 12]
    assert "more than 8 ranks" in left[0]["why"]


@ROOT_ONLY
@pytest.mark.usefixtures("honest")
def test_the_page_of_a_job_is_written_despite_a_fake(
    begin: Callable[[str], int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    begin("surrogate")
    one = collect_answer(hang_look.read_node_ranks("el1"), hang_look.read_node_ranks("el1"))
    code, text = hang(monkeypatch, capsys, one, "--json", "--html", str(tmp_path / "job.html"))
    found = json.loads(text)
    assert (code, found["account"], found["job"]) == (1, "root", MASTER)
    assert [other["account"] for other in found["others"]] == ["nobody"]
    assert "all_reduce 4" in (tmp_path / "job.html").read_text()
    assert (tmp_path / "job-2.html").is_file()


# --- accounts that may query (user namespaces)
# --------------------------------------------------------


def ask_as(uid: int, pid: int) -> bytes:
    """Return a process' answer to an account."""
    script = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect({hang_answer.NAME + str(pid)!r})"
    done = subprocess.run(
        [choose_python(), "-ES", "-c", script + "; print(s.recv(10))"],
        user=uid,
        group=uid,
        extra_groups=[],
        cwd="/",
        capture_output=True,
        check=True,
    )
    return done.stdout


@contextlib.contextmanager
def rank_of(uid: int, folder: Path, *before: str) -> Iterator[int]:
    """Start a rank with the hook, as an account."""
    hook = Path(hang_look.__file__).with_name("fullmesh_hook.py")
    (folder / "sitecustomize.py").write_bytes(hook.read_bytes())
    program = "import sys; print('ready', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [*before, choose_python(), "-c", program],
        env={"PATH": os.environ["PATH"], "RANK": "0", "WORLD_SIZE": "1", "PYTHONPATH": str(folder)},
        user=uid,
        group=uid,
        extra_groups=[],
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
        process.kill()


@NAMESPACES
def test_the_overflow_account_of_a_namespace_gets_no_answer(readable: Path) -> None:
    with rank_of(1001, readable, *APART) as pid:
        assert ask_as(1002, pid) == b"b''\n"
        (rank,) = [one for one in hang_look.read_node_ranks("el1")["ranks"] if one["pid"] == pid]
    # the host's root is not mapped either
    assert (rank["account"], rank["uid"]) == ("uid 1001", 1001)
    assert "does not map this account (uid 0)" in rank["missing"][0]["why"]
    assert "sudo -u" in rank["missing"][0]["why"]


@ROOT_ONLY
def test_a_namespace_made_by_root_gives_no_root_rights() -> None:
    sleeps = ["-ES", "-c", "print(flush=True); import sys; sys.stdin.read()"]
    with subprocess.Popen(
        ["unshare", "--user", "--map-root-user", choose_python(), *sleeps], stdin=-1, stdout=-1
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert hang_look.hang_border.find_namespace_owner(process.pid, 1001) == 1001
        assert hang_look.hang_border.find_account_uid(process.pid) == 0
        process.kill()


@ROOT_ONLY
def test_no_account_gets_an_answer_if_all_are_mapped(readable: Path) -> None:
    with rank_of(NOBODY, readable) as pid:
        assert ask_as(NOBODY, pid) != b"b''\n"
        assert ask_as(1002, pid) == b"b''\n"


def test_an_account_that_is_not_mapped_is_known() -> None:
    assert hang_look.hang_border.is_uid_mapped(os.getpid(), os.geteuid())
    known = hang_look.hang_border.read_overflow_uids("self")
    assert known in (set(), {NOBODY})
