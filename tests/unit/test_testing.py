"""The test runner: its parts, CI's selection, and the shard of ``--all`` that a commit runs."""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from devtools import parts, testing
from fullmesh import cli
from fullmesh.settings import ROOT


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["test", "nonsense"]) == cli.USAGE
    assert "[CL-108]" in capsys.readouterr().err


def test_fast_omits_the_lab(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["test", "--fast", "--list"]) == 0
    names = capsys.readouterr().out.split("\n")
    assert "unit" in names
    assert not [name for name in names if name.startswith(("molecule", "lab", "end"))]


# Roles that only work with another one, and the scenario that converges both.
DEPENDENT_ROLES = dict.fromkeys(("node_ssh", "node_health", "monitoring_tools"), "launchers")


def test_every_scenario_is_a_part(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["test", "--list"]) == 0
    names = capsys.readouterr().out.split("\n")
    roles = {path.name for path in (ROOT / "roles").iterdir()} - {"preflight", "cluster_env"}
    for role, scenario in DEPENDENT_ROLES.items():
        assert role in (ROOT / f"molecule/{scenario}/converge.yml").read_text()
    # ec2_security_group only runs on the controller, with a mock of EC2
    roles -= {"ec2_security_group", *DEPENDENT_ROLES}
    assert {"ec2", *(f"molecule {role}" for role in roles)} <= set(names)


@pytest.mark.parametrize("word", ["end to end bisect", "end-to-end-bisect", "end to-end bi"])
def test_a_name_without_separators_is_accepted(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["test", "--list", word]) == 0
    assert capsys.readouterr().out == "end to end bisect\n"


def test_parts_that_only_all_runs(capsys: pytest.CaptureFixture[str]) -> None:
    def names(*words: str) -> set[str]:
        assert cli.main(["test", "--list", *words]) == 0
        return set(capsys.readouterr().out.split("\n"))

    left = names("--all") - names()
    assert "end to end vm" in left
    assert {f"molecule {name}" for name in parts.BEHAVIOURS} <= left
    # a part that is named runs with all of its tests
    assert "end to end vm" in names("end to end vm")
    args = argparse.Namespace(fast=False, all=False, part=["end to end cuts"])
    ((cuts,),) = testing.chosen(parts.list_stages(), args)
    assert "not rest" not in cuts.command
    args.part = []
    by_name = {
        part.name: part for stage in testing.chosen(parts.list_stages(), args) for part in stage
    }
    assert by_name["end to end cuts"].command[-2:] == list(parts.WITHOUT_REST)
    assert by_name["molecule nccl"].env.items() >= parts.SELECTION.items()
    assert by_name["unit"].env.items() >= parts.SAME_EACH_TIME.items()
    assert {"random properties"} <= left
    args.part = ["molecule nccl"]
    ((nccl,),) = testing.chosen(parts.list_stages(), args)
    assert not nccl.env.keys() & parts.SELECTION.keys()


def list_random_lines(tree: ast.AST) -> list[int]:
    """List the lines in which a test uses unrepeatable random values."""
    return [
        call.lineno
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and re.fullmatch(
            r"random\.(?!Random$)\w+|random\.Random|os\.urandom|secrets\.\w+|uuid\.uuid[14]",
            ast.unparse(call.func),
        )
        and not (ast.unparse(call.func) == "random.Random" and call.args)
    ]


def test_no_unit_test_depends_on_chance() -> None:
    """A failure that the default run never shows must not hit an unrelated commit."""
    bad = "random.choice(x)\nos.urandom(3)\nrandom.Random()\nuuid.uuid4()\nsecrets.token_hex()"
    assert list_random_lines(ast.parse(bad)) == [1, 2, 3, 4, 5]
    assert list_random_lines(ast.parse("random.Random(seed).choice(x)\nrng.choice(x)")) == []
    found = {
        path.name: lines
        for path in sorted((ROOT / "tests/unit").rglob("*.py"))
        if (lines := list_random_lines(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert found == {}
    profile = settings.get_profile("same each time")
    assert (profile.derandomize, profile.database) == (True, None)
    assert not settings.get_profile("random").derandomize
    # from the loaded modules
    assert len(providers._get_local_constants()) == 0


@pytest.mark.parametrize(
    ("names", "linted"),
    [
        (["README.md", "src/fullmesh/cli.py"], None),
        (["roles/nccl/tasks/main.yml", "docs/x.md"], ["roles/nccl/tasks/main.yml"]),
    ],
)
def test_fast_lints_changed_files(
    monkeypatch: pytest.MonkeyPatch, names: list[str], linted: list[str] | None
) -> None:
    monkeypatch.setattr(testing, "changed", lambda: names)
    args = argparse.Namespace(fast=True, all=False, part=[])
    by_name = {
        part.name: part for stage in testing.chosen(parts.list_stages(), args) for part in stage
    }
    assert "ruff check" in by_name
    assert not any(part.slow for part in by_name.values())
    found = by_name.get("ansible-lint")
    assert (found and found.command[-len(linted or []) :]) == linted


def test_changed_files_are_read_from_git() -> None:
    assert all((ROOT / name).is_file() for name in testing.changed())


def test_a_failing_part_is_shown_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(testing, "LOGS", tmp_path)
    good = testing.run_part(parts.Part("good one", [sys.executable, "-c", "print('fine')"]))
    bad = testing.run_part(
        parts.Part("bad one", [sys.executable, "-c", "print('reason'); raise SystemExit(3)"])
    )
    fatal = "fatal: [el1]: FAILED! => {"
    long = testing.run_part(
        parts.Part(
            "long one",
            [sys.executable, "-c", f"print({fatal!r} + 'x' * 100 + '\\nnoise' * 99); 1 / 0"],
        )
    )
    testing.report(bad)
    assert testing.summary([good, bad, long]) == 1
    shown = capsys.readouterr().out
    # the end of the output alone shows the reason
    end = shown[shown.index("failed: bad one") :]
    assert "| reason" in end
    assert f"| {fatal}x" in end
    assert end.count("noise") < testing.FATAL_LINES
    assert str(tmp_path / "bad-one.log") in shown
    assert shown.rstrip().endswith("1 passed, 2 failed")
    assert testing.summary([good]) == 0


def test_a_part_that_hangs_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "LOGS", tmp_path)
    monkeypatch.setattr(testing, "PART_SECONDS", 0.5)
    outcome = testing.run_part(
        parts.Part("slow", [sys.executable, "-c", "import time; time.sleep(60)"])
    )
    assert outcome.code == 124
    assert outcome.tail[-1] == "stopped after 0.5 s: it ended as it does at a keyboard"


def test_a_stopped_part_removes_what_it_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testing, "LOGS", tmp_path)
    held = tmp_path / "machine"
    test = tmp_path / "test_it.py"
    test.write_text(
        "import pathlib, subprocess, pytest\n"
        f"held = pathlib.Path({str(held)!r})\n"
        "@pytest.fixture(scope='session')\n"
        "def machine():\n"
        "    held.touch()\n"
        "    yield\n"
        "    held.rename(held.with_suffix('.gone'))\n"
        "def test_long(machine):\n"
        "    subprocess.run(['sleep', '60'], check=True)\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)]
    outcome = testing.run_part(parts.Part("slow", command, seconds=10))
    assert outcome.code == 124
    assert held.with_suffix(".gone").exists()


def test_a_part_that_does_not_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testing, "LOGS", tmp_path)
    endings = [(number, 0.5, took) for number, _, took in testing.ENDINGS]
    monkeypatch.setattr(testing, "ENDINGS", endings)
    deaf = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)"
    outcome = testing.run_part(parts.Part("slow", [sys.executable, "-c", deaf], seconds=2))
    assert "it was killed" in outcome.tail[-1]


def list_names(stages: list[list[parts.Part]]) -> list[str]:
    return [part.name for stage in stages for part in stage]


def test_shards_have_all_that_the_selection_leaves_out() -> None:
    args = argparse.Namespace(fast=False, all=True, part=[])
    every = {
        part.name: part for stage in testing.chosen(parts.list_stages(), args) for part in stage
    }
    shard = parts.choose_shard(parts.list_stages(), "0" * 40, testing.CI_SECONDS)
    whole = {re.sub(r" \d of \d$", "", name) for name in list_names(shard)}
    left_out = {name for name, part in every.items() if part.rest or part.less or part.less_env}
    assert left_out - whole == {"end to end vm"}
    assert whole <= left_out
    # a part of CI's selection runs whole in a shard
    by_name = {part.name: part for stage in shard for part in stage}
    assert "not rest" not in by_name["end to end site"].command
    assert not by_name["molecule nccl"].env.keys() & parts.SELECTION.keys()


def test_each_commit_starts_at_another_part_and_skips_none() -> None:
    stages = [
        [parts.Part("lint", ["true"]), parts.Part("a", ["true"], rest=True)],
        [parts.Part("b", ["true"], less=["x"]), parts.Part("c", ["true"], rest=True)],
        [parts.Part("too long", ["true"], rest=True, seconds=101)],
        [parts.Part("d", ["true"], less_env={"x": "1"}, slices=2, seconds=100)],
    ]
    found = [parts.choose_shard(stages, f"{number:x}", 100) for number in range(6)]
    assert list_names(found[0]) == ["a", "b", "c", "d 1 of 2", "d 2 of 2"]
    assert [list_names(one)[0] for one in found[:5]] == list_names(found[0])
    assert found[5] == found[0]
    # exclusive parts never run at the same time
    assert [list_names([stage]) for stage in found[2]] == [
        ["c"],
        ["d 1 of 2", "d 2 of 2"],
        ["a"],
        ["b"],
    ]


def test_slices_are_the_tests_of_a_part(tmp_path: Path) -> None:
    path = tmp_path / "test_five.py"
    path.write_text("".join(f"def test_{name}(): pass\n" for name in "abcde"))
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-c", os.devnull]
    pieces = parts.slice_part(parts.Part("five", [*command, str(path)], slices=2))
    seen = []
    for piece in pieces:
        env = {**os.environ, **piece.env}
        done = subprocess.run(
            piece.command, cwd=ROOT, env=env, check=True, capture_output=True, text=True
        )
        seen.append("".join(re.findall(r"::test_(\w) PASSED", done.stdout)))
    assert seen == ["ab", "cde"]


@pytest.mark.parametrize(
    ("elapsed", "seconds"),
    [(0, 1500), (2100, 1500), (3300, 1500), (3301, None), (5400, None), (9999, None)],
)
def test_a_shard_takes_25_minutes_and_ends_before_85(elapsed: float, seconds: float | None) -> None:
    end = testing.find_shard_end(elapsed, now=1000.0)
    assert end == (None if seconds is None else 1000.0 + seconds)
    stubborn = sum(one[1] for one in testing.ENDINGS)
    assert seconds is None or elapsed + seconds + stubborn <= 85 * 60


@pytest.fixture
def run_fake_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, list[str]]]:
    """Run a shard of fake parts. Return its exit code and the parts' names in the order of their ends."""
    monkeypatch.setattr(testing, "LOGS", tmp_path)
    monkeypatch.setattr(testing, "LEAST_PART_SECONDS", 1.0)
    monkeypatch.setattr(testing, "git", lambda *_: ["0"])

    def run(*fakes: parts.Part, elapsed: float = 0.0) -> tuple[int, list[str]]:
        monkeypatch.setattr(testing, "list_stages", lambda: [[part] for part in fakes])
        seen: list[str] = []
        monkeypatch.setattr(testing, "report", lambda outcome: seen.append(outcome.part.name))
        return testing.run_shard(elapsed), seen

    return run


def make_fake(name: str, *runs: str, seconds: float = 0.0) -> parts.Part:
    """Make a part of --all that runs one shell script the first time, the next one the second time."""
    folder = f'"{testing.LOGS}"'
    counted = f'n=$(ls {folder} | grep -c "^{name}.*run$"); : > {folder}/{name}.$n.run; '
    cases = "".join(f"{number}) {script} ;; " for number, script in enumerate(runs))
    return parts.Part(
        name, ["sh", "-c", f"{counted} case $n in {cases} esac"], True, True, seconds=seconds
    )


A, B = "echo 'FAILED tests/x.py::a[b c] - assert 1'; exit 1", "echo 'ERROR tests/x.py::b'; exit 1"


@pytest.mark.parametrize(
    ("runs", "code", "shown"),
    [
        (["true"], 0, "1 passed, 0 failed"),
        ([A, "true"], 0, "flaky: tests/x.py::a[b c] failed once and passed once"),
        ([A, B], 0, "flaky: tests/x.py::b failed once and passed once"),
        ([A, A], 1, "failed twice: tests/x.py::a[b c], log"),
        ([A, A], 1, "0 passed, 1 failed"),
        (["exit 7", "true"], 0, "flaky: one failed once and passed once"),
        (["exit 7", "exit 7"], 1, "failed twice: one, log"),
        ([A, "exit 7"], 1, "failed twice: one, log"),
    ],
)
def test_a_failed_part_of_a_shard_runs_once_more(
    run_fake_shard: Callable[..., tuple[int, list[str]]],
    capsys: pytest.CaptureFixture[str],
    runs: list[str],
    code: int,
    shown: str,
) -> None:
    found, seen = run_fake_shard(make_fake("one", *runs))
    assert (found, seen) == (code, ["one", "one again"][: len(runs)])
    out = capsys.readouterr().out
    assert shown in out
    assert out.splitlines()[-1] == f"{1 - code} passed, {code} failed"


def test_a_failed_part_is_reported_with_passed_ones(
    run_fake_shard: Callable[..., tuple[int, list[str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    code, seen = run_fake_shard(
        make_fake("good", "true"), make_fake("bad", A, A), make_fake("flaky", A, "true")
    )
    assert (code, seen) == (1, ["good", "bad", "bad again", "flaky", "flaky again"])
    assert capsys.readouterr().out.splitlines()[-1] == "2 passed, 1 failed"


def test_slices_of_a_part_do_not_run_at_once(
    run_fake_shard: Callable[..., tuple[int, list[str]]], tmp_path: Path
) -> None:
    alone = f"mkdir {tmp_path}/lab && sleep 0.3 && rmdir {tmp_path}/lab"
    sliced = parts.Part("one", ["sh", "-c", alone], True, True, slices=3)
    assert run_fake_shard(sliced) == (0, ["one 1 of 3", "one 2 of 3", "one 3 of 3"])


def compute_elapsed(seconds: float) -> float:
    """Return the elapsed time that leaves a shard this many seconds."""
    return (
        testing.CI_SECONDS
        - testing.SPARE_SECONDS
        - sum(one[1] for one in testing.ENDINGS)
        - seconds
    )


def test_the_deadline_ends_a_shard_without_a_failure(
    run_fake_shard: Callable[..., tuple[int, list[str]]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(testing, "LEAST_SHARD_SECONDS", 0.0)
    fakes = [make_fake("first", "true"), make_fake("long", "exec sleep 60"), make_fake("never", A)]
    started = time.monotonic()
    code, seen = run_fake_shard(*fakes, elapsed=compute_elapsed(3))
    assert (code, seen) == (0, ["first", "long"])
    assert time.monotonic() - started < 20
    lines = capsys.readouterr().out.splitlines()
    assert re.search(r"^long +\d+  cut off$", "\n".join(lines), re.MULTILINE)
    assert lines[-1] == "1 passed, 0 failed"
    # a repetition without time left is not shown
    code, seen = run_fake_shard(make_fake("slow", A, "exec sleep 60"), elapsed=compute_elapsed(3))
    assert (code, seen) == (0, ["slow", "slow again"])
    out = capsys.readouterr().out
    assert "failed, no time to repeat it: slow" in out
    assert "passed, " not in out


def test_a_part_that_hangs_by_its_own_deadline_fails(
    run_fake_shard: Callable[..., tuple[int, list[str]]],
) -> None:
    hung = make_fake("hung", "exec sleep 60", "exec sleep 60", seconds=1)
    assert run_fake_shard(hung) == (1, ["hung", "hung again"])


def test_a_shard_needs_time_and_a_passed_run(
    run_fake_shard: Callable[..., tuple[int, list[str]]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run_fake_shard(make_fake("bad", A, A), elapsed=3301) == (0, [])
    assert "no shard of --all: less than 35 minutes are left" in capsys.readouterr().out
    assert run_fake_shard() == (0, [])
    monkeypatch.setattr(testing, "git", lambda *_: [])
    assert run_fake_shard(make_fake("bad", A, A)) == (0, [])
    assert "ended by an error of its own" in capsys.readouterr().out


def test_a_pytest_that_selects_nothing_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testing, "LOGS", tmp_path)
    script = "import sys; sys.exit(5)"
    for words, code in (["pytest"], 0), (["molecule"], 5):
        part = parts.Part("none", [sys.executable, "-c", script, *words])
        outcome, cut = testing.run_limited(part, time.monotonic() + 60)
        assert (outcome.code, cut) == (code, False)


@pytest.mark.parametrize(
    ("codes", "code", "calls"),
    [
        ((0, 0), 0, ["test", "test --shard --elapsed"]),
        ((1, 0), 1, ["test"]),
        ((0, 1), 1, ["test", "test --shard --elapsed"]),
    ],
)
def test_ci_runs_its_selection_and_then_a_shard(
    tmp_path: Path, codes: tuple[int, int], code: int, calls: list[str]
) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci")
    launcher = tmp_path / "fullmesh"
    launcher.write_text(
        "#!/bin/bash\n"
        'echo "$*" >> calls\n'
        f'case "$*" in test) sleep 1.1; exit {codes[0]} ;; "test --shard "*) exit {codes[1]} ;; esac\n'
    )
    launcher.chmod(0o755)
    done = subprocess.run(["bash", ".ci/run"], cwd=tmp_path, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == code
    lines = (tmp_path / "calls").read_text().splitlines()
    assert [line.rstrip("0123456789 ") for line in lines] == calls
    if len(lines) > 1:
        elapsed = float(lines[1].rpartition(" ")[2])
        assert 1 <= elapsed < 30
