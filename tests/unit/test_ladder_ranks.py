"""Detached ranks: finished, dead, hung, without rights. Also the results of the rank program."""

from __future__ import annotations

import ast
import json
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import ladder_rank
import pytest
from ansible.module_utils.fullmesh import detach
from ansible.module_utils.fullmesh.probe import job, ranks, unprivileged
from ansible.module_utils.fullmesh.survey import job_start_program
from loaded import load_module

from fullmesh.contract import convert_value
from fullmesh.observed.ranks import CollectedRanks, LadderGlooParams
from fullmesh.settings import ROOT
from fullmesh.verify import rank_ends
from fullmesh.verify.ranks import find_import_code

WELL = (
    "import json, os, sys; event = {'step': os.environ['RANK'], 'state': 'ok'};"
    " open(sys.argv[2], 'w').write(json.dumps(event) + '\\n')"
)
CRASH = "import os, time; print('bang'); time.sleep(9 * (os.environ['RANK'] != '3')); raise SystemExit(4)"
HANG = "import time; time.sleep(99)"


@pytest.fixture
def same_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter of these tests may only be accessible to this account."""
    monkeypatch.setattr(ranks, "pick", lambda: None)


@pytest.fixture
def open_place() -> Iterator[Path]:
    """Make a folder that every account may enter. Those of pytest are closed to others."""
    place = Path(tempfile.mkdtemp(prefix="fullmesh-test-"))
    place.chmod(0o711)
    yield place
    shutil.rmtree(place)


def make_input(**change: Any) -> LadderGlooParams:
    """Return the input of the module."""
    plain = {
        "run": "run1",
        "state": "started",
        "ranks": [3, 4],
        "python": sys.executable,
        "script": WELL,
        "modules": {},
        "environment": {"MASTER_PORT": 1},
        "settings": {"deadline": 5},
        "deadline": 5,
        "brief": False,
        "about": {},
        "wait": 5.0,
        "attached": False,
        "keep": False,
    }
    return convert_value(LadderGlooParams, {**plain, **change})


def start_ranks(base: Path, script: str, **change: Any) -> None:
    """Start the ranks of a run below *base*, as the module does."""
    detach.make_run_directory("run1", str(base))
    ranks.start_ranks(make_input(script=script, **change), str(base))


def collect_results(base: Path, seconds: float = 20.0) -> CollectedRanks:
    found = ranks.collect_ranks("run1", str(base), seconds)
    assert found["done"]
    return found


@pytest.mark.usefixtures("same_account")
def test_ranks_run_and_report(tmp_path: Path) -> None:
    start_ranks(tmp_path, WELL)
    found = collect_results(tmp_path)
    assert found["ended"]["codes"] == {"3": 0, "4": 0}
    assert all(0 < at <= found["ended"]["seconds"] for at in found["ended"]["at"].values())
    assert found["ended"]["at"].keys() == {"3", "4"}
    assert 0 <= max(found["ended"]["steal"], found["ended"]["throttled"]) <= 1
    assert [found["ranks"][r]["events"] for r in "34"] == [
        [{"step": "3", "state": "ok"}],
        [{"step": "4", "state": "ok"}],
    ]
    assert ranks.get_current_step(found["ranks"]["3"]) == "3"


@pytest.mark.usefixtures("same_account")
def test_ranks_that_hang_are_killed_at_the_deadline(tmp_path: Path) -> None:
    begun = time.monotonic()
    start_ranks(tmp_path, HANG, deadline=5)
    assert time.monotonic() - begun < 5
    found = collect_results(tmp_path)
    assert sorted(found["ended"]["killed"]) == [3, 4]


@pytest.mark.usefixtures("same_account")
def test_a_dead_rank_stops_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "GRACE", 0.2)
    start_ranks(tmp_path, CRASH, deadline=30)
    found = collect_results(tmp_path)
    assert found["ended"]["codes"] == {"3": 4}
    assert found["ended"]["stopped"] == [4]
    assert found["ranks"]["3"]["log"] == "bang"
    assert found["broken"] >= 0.2
    assert found["why"] == "rank 3 ended in step start, exit status 4: bang"


@pytest.mark.usefixtures("same_account")
def test_ranks_stop_when_the_controller_asks(tmp_path: Path) -> None:
    start_ranks(tmp_path, HANG, deadline=60)
    ranks.stop_ranks("run1", str(tmp_path))
    found = collect_results(tmp_path)
    assert sorted(found["ended"]["stopped"]) == [3, 4]
    assert found["ended"]["killed"] == []
    assert "broken" not in found


@pytest.mark.usefixtures("same_account")
def test_a_missing_interpreter_is_reported(tmp_path: Path) -> None:
    start_ranks(tmp_path, WELL, python="/nonexistent/python")
    found = collect_results(tmp_path)
    assert "nonexistent" in found["ended"]["error"]
    assert found["why"].startswith("rank 3, 4 did not start: ")


def test_nothing_started_counts_as_done(tmp_path: Path) -> None:
    assert collect_results(tmp_path, 0.5)["started"] is False


@pytest.mark.usefixtures("same_account")
def test_abandoned_results_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "KEEP", 0.1)
    start_ranks(tmp_path, WELL)
    deadline = time.monotonic() + 10
    while (tmp_path / "run1").exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)


# Attacks of a rank on its node, reported as an event. The interpreter is sh, which any account may
# run.
RIGHTS = r"""
said="$(id -u) $(id -G) $(sed -n 's/^CapEff:.//p' /proc/self/status) $(ulimit -n) $(stat -c %u "$HOME" "$TMPDIR")"
: >"$TMPDIR/mine" || exit 7
for place in "${0%/*}" "${0%/*}/gloo_ladder.py" "${0%/*}/settings.json" "${0%/*/*}"; do
  test -w "$place" && exit 8
done
sleep 99 & # what is left behind
echo '{"step": "import", "state": "ok", "text": "'$said'", "data": {}}' >>"$2"
"""


def test_ranks_run_without_rights_and_leave_no_process(open_place: Path) -> None:
    start_ranks(open_place, RIGHTS, python="/bin/sh", ranks=[0])
    found = collect_results(open_place)
    assert found["ended"]["codes"] == {"0": 0}
    uid, gid, held, files, *homes = found["ranks"]["0"]["events"][0]["text"].split()
    root = os.geteuid() == 0
    assert (int(uid) in range(unprivileged.FIRST, unprivileged.LAST + 1)) is root
    assert int(uid) != 0
    assert homes == [uid, uid]
    assert int(held, 16) == 0
    assert files == str(unprivileged.resource.getrlimit(unprivileged.resource.RLIMIT_NOFILE)[1])
    if root:
        assert gid == uid
        deadline = time.monotonic() + 10
        while int(uid) in unprivileged.find_used_uids():  # init reaps the killed processes
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_the_account_owns_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unprivileged.os, "geteuid", lambda: 0)
    monkeypatch.setattr(
        unprivileged,
        "find_used_uids",
        lambda: set(range(unprivileged.FIRST, unprivileged.LAST - 2)),
    )
    known = {unprivileged.LAST: "an account of a directory"}
    monkeypatch.setattr(unprivileged, "is_taken_id", lambda number: number in known)
    picked = {unprivileged.pick().pw_uid for _ in range(20)}
    assert picked == {unprivileged.LAST - 2, unprivileged.LAST - 1}
    monkeypatch.setattr(unprivileged, "is_taken_id", lambda _: True)
    with pytest.raises(ValueError, match="are in use"):
        unprivileged.pick()
    monkeypatch.setattr(unprivileged.os, "geteuid", lambda: 1000)
    assert unprivileged.pick() is None


def test_numbers_of_accounts_and_of_systemds_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unprivileged, "TAKEN", str(tmp_path))
    assert unprivileged.is_taken_id(0)
    assert not unprivileged.is_taken_id(61999)
    (tmp_path / "61999").touch()
    assert unprivileged.is_taken_id(61999)


def test_only_our_account_numbers_are_removed() -> None:
    for number in (0, 1000, unprivileged.FIRST - 1, unprivileged.LAST + 1):
        foreign_account = pwd.struct_passwd(("x", "x", number, number, "", "/", "/"))
        with pytest.raises(ValueError, match="belongs to another account"):
            unprivileged.clean_up_account(foreign_account)


def test_devices_give_their_group_or_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = {
        "/dev/nvidia0": (0o666, 0),
        "/dev/kfd": (0o660, 44),
        "/dev/dri/renderD128": (0o660, 109),
        "/dev/nvidiactl": (0o660, 0),
        "/dev/nvidia-uvm": (0o600, 44),
    }

    def info(path: str) -> os.stat_result:
        mode, gid = held[path]
        return os.stat_result((stat.S_IFCHR | mode, 0, 0, 1, 0, gid, 0, 0, 0, 0))

    monkeypatch.setattr(
        job_start_program.glob, "glob", lambda one: [p for p in held if Path(p).match(one)]
    )
    monkeypatch.setattr(job_start_program.os, "stat", info)
    assert job_start_program.find_device_groups() == (
        [44, 109],
        ["/dev/nvidia-uvm", "/dev/nvidiactl"],
    )


def test_a_node_without_a_free_account_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def mapped_away(*_: Any) -> None:
        raise OSError("as fullmesh-verify: [Errno 22] Invalid argument")

    monkeypatch.setattr(unprivileged, "run_as_account", mapped_away)
    with pytest.raises(
        unprivileged.RankRefusedError, match="root cannot be given up here: "
    ) as caught:
        unprivileged.refuse_unusable_account(pwd.getpwuid(os.geteuid()))
    assert caught.value.code == "VC-305"
    assert caught.value.fix.startswith("map the account numbers")


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another account")


@needs_root
@pytest.mark.parametrize("closed", ["folder", "file"])
@pytest.mark.parametrize("what", ["python", "environment"])
def test_ranks_that_cannot_read_job_files_report_it(
    open_place: Path, what: str, closed: str
) -> None:
    """The message names the closed folder or file, and no rank starts."""
    held = open_place / "held"
    held.mkdir(0o755)
    file = held / "file"
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    shut = file if closed == "file" else held
    shut.chmod(0o700)
    if what == "python":
        start_ranks(open_place, WELL, python=str(file))
    else:
        settings = {"deadline": 5, "environment_file": str(file)}
        start_ranks(open_place, WELL, python="/bin/sh", settings=settings)
    found = collect_results(open_place)
    ended = found["ended"]
    assert ended["code"] == ("VC-305" if what == "python" else "VC-310")
    assert f"{file}: {shut} has mode 0700, owner 0" in ended["error"]
    assert ended["fix"].endswith(str(shut))
    assert found["broken"] == ranks.GRACE
    assert found["ranks"]["3"]["events"] == []


@pytest.mark.parametrize(
    ("state", "word"), [("started", "started"), ("collected", "followed"), ("stopped", "stopped")]
)
def test_a_job_that_cannot_be_handled_is_refused(
    monkeypatch: pytest.MonkeyPatch, state: str, word: str
) -> None:
    def fail(_want: Any) -> None:
        raise OSError("no room")

    for name in ("start_test_job", "collect_test_job", "stop_test_job"):
        monkeypatch.setattr(job, name, fail)
    answer: Any = job.control_test_job(run="run1", state=state, ranks=[0], wait=1.0)
    assert answer["failed"] is True
    assert answer["msg"] == f"[VC-304] The test job could not be {word}: no room."


def run_rank(folder: Path, packages: Path, **settings: Any) -> list[Any]:
    """Return the events of the verification's own rank program with these packages instead of torch."""
    (folder / "settings.json").write_text(
        json.dumps({"deadline": 20, "steps": ["import"], **settings})
    )
    events = folder / "rank.jsonl"
    files = ROOT / "roles/verify_cluster/files"
    subprocess.run(
        [sys.executable, "-S", files / "gloo_ladder.py", folder / "settings.json", events],
        env={"RANK": "0", "WORLD_SIZE": "1", "PYTHONPATH": f"{files}:{packages}"},
        check=False,
    )
    return [json.loads(line) for line in events.read_text().splitlines()]


@pytest.mark.parametrize(
    ("torch", "text", "code"),
    [
        ("", "ModuleNotFoundError: No module named 'torch.distributed', at ", "VC-302"),
        ("x = (", "SyntaxError: '(' was never closed", "VC-302"),
        (
            "raise ImportError('libcudart.so.12: cannot open shared object file: No such file or directory')",
            "/torch/__init__.py:1",
            "VC-311",
        ),
        ("open('/proc/1/mem_')", "FileNotFoundError", "VC-302"),
        (
            "raise PermissionError(13, 'Permission denied', '/opt/x')",
            "torch/__init__.py:1",
            "VC-310",
        ),
    ],
)
def test_a_broken_import_is_named_with_its_file_and_line(
    tmp_path: Path, torch: str, text: str, code: str
) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/__init__.py").write_text(torch)
    begin, last = run_rank(tmp_path, tmp_path)
    assert (begin["state"], last["step"], last["state"]) == ("begin", "import", "failed")
    assert text in last["text"]
    assert find_import_code(last["text"], "VC-302") == code
    assert len(last["text"]) <= rank_ends.FIRST_LINE


def test_an_environment_file_with_a_syntax_error_is_named(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("NCCL_IB_DISABLE=1\nNCCL_NET='Socket\n")
    _, last = run_rank(tmp_path, tmp_path, environment_file=str(tmp_path / "env"))
    assert last["text"].startswith(
        f"EnvironmentFileError: {tmp_path}/env, NCCL_NET: No closing quotation"
    )
    assert find_import_code(last["text"], "VC-302") == "VC-312"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("no json", "not an event: no json"),
        ('{"step": 3}', 'not an event: {"step": 3}'),
        ('{"step": "init", "state": "root"}', "not an event"),
        ('{"step": "init"}', "not an event"),
        ('{"step": "init", "state": "ok", "root": true}', "not an event"),
        ('{"step": "init", "state": "ok", "data": []}', "not an event"),
        ('{"step": "init", "state": "ok", "seconds": "1"}', "not an event"),
        ('{"step": "init", "state": "ok", "ranks": ["1"]}', "not an event"),
        (json.dumps({"step": "init", "state": "ok", "text": "x" * 5000}), "not an event"),
        ("[" * 100000, "not an event"),
    ],
)
def test_the_results_of_a_rank_are_verified(tmp_path: Path, line: str, text: str) -> None:
    path = tmp_path / "rank-0.jsonl"
    good = {"step": "store", "state": "ok", "seconds": 0.1, "text": "", "data": {}}
    path.write_text(json.dumps(good) + "\n" + line + "\n" + json.dumps(good) + "\n")
    events = ranks.read_event_lines(str(path), os.getuid())
    assert events[0] == good
    assert len(events) == 2
    assert (events[1]["step"], events[1]["state"]) == ("store", "failed")
    assert text in events[1]["text"]


def test_irregular_result_files_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rank-0.jsonl"
    event = '{"step": "store", "state": "ok"}\n'
    (tmp_path / "other").write_text(event)
    path.symlink_to(tmp_path / "other")
    assert ranks.read_event_lines(str(path), os.getuid()) == []
    path.unlink()
    os.link(tmp_path / "other", path)
    assert ranks.read_event_lines(str(path), os.getuid()) == []
    path.unlink()
    os.mkfifo(path)
    assert ranks.read_event_lines(str(path), os.getuid()) == []
    path.unlink()
    path.write_text(event)
    assert ranks.read_event_lines(str(path), os.getuid() + 1) == []
    assert ranks.read_event_lines(str(path), os.getuid()) == [{"step": "store", "state": "ok"}]
    monkeypatch.setattr(ranks, "LARGEST", len(event) + 3)
    path.write_text(event * 3)
    assert "more than" in ranks.read_event_lines(str(path), os.getuid())[-1]["text"]


FLOOD = "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done"


def test_a_rank_that_fills_the_memory_is_ended(
    open_place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks, "LARGEST", 100000)
    begun = time.monotonic()
    start_ranks(open_place, FLOOD, python="/bin/sh", ranks=[0], deadline=60)
    assert collect_results(open_place)["ended"]["killed"] == [0]
    assert time.monotonic() - begun < 15


PROGRAMS = [
    *sorted((ROOT / "roles/verify_cluster/files").glob("*.py")),
    *sorted((ROOT / "module_utils").rglob("*.py")),
    *sorted((ROOT / "node_programs").glob("*.py")),
    *sorted((ROOT / "library").glob("*.py")),
]
# Fullmesh's own compiled program, like Python's __pycache__, from a folder of root (0700) that is
# checked before. No data from other sources.
OWN_CODE = ROOT / "module_utils/fullmesh/ask/boot.py"
UNPICKLES = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "joblib"}


def list_unpickling_calls(source: str) -> list[str]:
    """List calls that run received code: *_object collectives, torch.load, and modules that unpickle."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [one.name for one in node.names] + [getattr(node, "module", None) or ""]
            found += [name for name in names if name.split(".")[0] in UNPICKLES]
        elif isinstance(node, (ast.Attribute, ast.Name)):
            name = node.attr if isinstance(node, ast.Attribute) else node.id
            if name.endswith(("_object", "_object_list")) and name.split("_")[0] in COLLECTIVE:
                found.append(name)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("torch.load"):
            safe = [k for k in node.keywords if k.arg == "weights_only"]
            if not safe or ast.unparse(safe[0].value) != "True":
                found.append("torch.load")
    return found


COLLECTIVE = {"all", "broadcast", "scatter", "gather", "send", "recv", "reduce"}


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_a_verification_never_unpickles(path: Path) -> None:
    assert list_unpickling_calls(path.read_text()) == (["marshal"] if path == OWN_CODE else [])


@pytest.mark.parametrize(
    "source",
    [
        "dist.all_gather_object(rows, 1)",
        "from torch.distributed import broadcast_object_list as b",
        "from torch.distributed import broadcast_object_list\nbroadcast_object_list([])",
        "rank.dist.scatter_object_list(a, b)",
        "dist.send_object_list([1], 0)",
        "import pickle",
        "from pickle import loads",
        "rank.torch.load(path)",
        "torch.load(path, weights_only=False)",
    ],
)
def test_the_search_for_unpickling_finds_it(source: str) -> None:
    assert list_unpickling_calls(source) or "import broadcast_object_list as" in source
    assert list_unpickling_calls("torch.load(path, weights_only=True)") == []


def test_a_row_contains_json_only() -> None:
    for value in (["cuda:0", ""], ["", "no GPU \N{SNOWMAN}" * 10]):
        row = ladder_rank.encode_row(value)
        assert len(row) == ladder_rank.ROW
        assert ladder_rank.decode_row(row) == value
    with pytest.raises(ValueError, match="do not fit"):
        ladder_rank.encode_row(["x" * ladder_rank.ROW])
    for row in (
        b"\xff\xff" + b"x" * 1022,
        b"\x00\x05(((((".ljust(1024, b"\0"),
        b"\x80\x04\x95" + b"\0" * 1021,
        b"\0" * 1024,
        b"\x03\xf0" + b"[" * 1022,
    ):
        with pytest.raises(ValueError, match=r"."):
            ladder_rank.decode_row(row)


def test_settings_of_this_shell_do_not_reach_the_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "docker0")
    monkeypatch.setenv("SSH_AUTH_SOCK", "roots-agent")
    team = ranks.RankTeam(make_input(environment={"WORLD_SIZE": 2}), "/nowhere")
    env = ranks.build_process_environment(team, 1, 0)
    assert "GLOO_SOCKET_IFNAME" not in env
    assert "SSH_AUTH_SOCK" not in env
    assert (env["RANK"], env["LOCAL_RANK"], env["WORLD_SIZE"]) == ("1", "0", "2")


@pytest.mark.parametrize("run", ["", "../x", "a/b", "a b"])
def test_run_names_stay_in_their_directory(run: str) -> None:
    with pytest.raises(ValueError, match="run id"):
        detach.run_directory(run)


@pytest.fixture(scope="module")
def ladder() -> ModuleType:
    return load_module(ROOT / "roles/verify_cluster/files/gloo_ladder.py")


@pytest.mark.parametrize(
    ("world", "groups"),
    [
        (1, [[0]]),
        (2, [[0], [1], [0, 1]]),
        (5, [[0, 2, 4], [1, 3], [0, 1], [2, 3]]),
    ],
)
def test_groups_cover_evens_odds_and_pairs(
    ladder: ModuleType, world: int, groups: list[list[int]]
) -> None:
    assert ladder.group_members(world) == groups


def test_groups_stay_few_in_a_large_world(ladder: ModuleType) -> None:
    groups = ladder.group_members(512)
    assert len(groups) == 2 + ladder.GROUP_PAIRS
    assert all(sum(rank in group for group in groups) <= 2 for rank in range(512))


def test_the_steps_of_the_program_match_the_rules(ladder: ModuleType) -> None:
    assert list(ladder.STEPS) == list(rank_ends.STEPS)


def test_addresses_are_decoded(ladder: ModuleType) -> None:
    assert ladder.decode("0B064E0A:C351") == ("10.78.6.11", 50001)
    assert ladder.decode("0000000000000000FFFF00000B064E0A:0050") == ("10.78.6.11", 80)
