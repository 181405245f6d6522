"""Nodes' answers on the controller: a node with false data is named, and each account's jobs are judged separately."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from ladder_samples import plan

from fullmesh import cli
from fullmesh.hang import ask, jobs
from fullmesh.observed.hang import Launcher, Rank
from fullmesh.verbs import hang as hang_cli

# --- a node that lies -------------------------------------------------------------------------------

RANK = {**ask.make_absent_rank(1, 2, "liar", "", gone=False), "process": "running", "missing": []}
WELL: dict[str, Any] = {"host": "liar", "jobs": ["a"], "ranks": [RANK]}
START = {"pid": 7, "job": "", "master": "", "first": 0, "count": 10**15}
MANY_GROUPS = [{"name": str(n), "desc": "default_pg", "ranks": []} for n in range(2000)]
LONG = (1 << 22) - 1


def line(data: object) -> str:
    """An answer, packed as a node packs it."""
    text = data if isinstance(data, str) else json.dumps(data)
    return ask.MARK + base64.b64encode(zlib.compress(text.encode())).decode()


# the output of a node, and its findings: for the whole node, or for one of its ranks
LIES = {
    "nested": (line("[" * 100_000), "nested"),
    "nested in a rank": (line({**WELL, "ranks": [RANK, {"x": [[[[]]]]}]}), "record cannot be read"),
    "values": (line("[" + "[]," * 3_000_000 + "[]]"), "values"),
    "no mapping": (line([1]), "no ranks"),
    "ranks are no list": (line({**WELL, "ranks": {}}), "no ranks"),
    "a text for a number": (line({**WELL, "ranks": [RANK, {**RANK, "rank": "x"}]}), "`int`"),
    "a huge number": (line({**WELL, "ranks": [RANK, {**RANK, "rank": 10**18}]}), "above"),
    "a field": (line({**WELL, "more": 1}), "unknown field"),
    "a bomb": (line(" " * (40 << 20) + "1"), "more than 32 MiB"),
    "noise": (ask.MARK + "!", "cannot be read"),
    "a name of another": (line({**WELL, "ranks": [{**RANK, "host": "el1"}]}), ""),
    "ranks without end": (line({**WELL, "launchers": [START]}), ""),
    "a world of its own": (line({**WELL, "ranks": [{**RANK, "world": LONG}]}), ""),
    "groups": (line({**WELL, "ranks": [{**RANK, "world": LONG, "groups": MANY_GROUPS}]}), ""),
    "half a pair": (line(json.dumps({**WELL, "jobs": ["\ud800"]})), ""),
}


@pytest.mark.parametrize("name", LIES)
def test_a_lying_node_is_named_and_the_other_is_queried(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    said, why = LIES[name]
    (tmp_path / "liar").write_text(said + "\n")
    honest = {**WELL, "host": "el1", "jobs": ["b"], "ranks": [{**RANK, "host": "el1", "rank": 0}]}
    (tmp_path / "el1").write_text(line(honest) + "\n")
    monkeypatch.setattr(
        ask.remote, "build_ssh_command", lambda _, name, __: ["cat", str(tmp_path / name)]
    )
    liar, el1 = ask.query_hang_nodes({"liar": {}, "el1": {}}, "", [])
    assert [rank["rank"] for rank in el1.looks[0]["ranks"]] == [0]
    left = [one["why"] for look in liar.looks for one in look["left_out"]]
    assert why in " ".join([liar.why, *left])
    assert all(rank["host"] == "liar" for look in liar.looks for rank in look["ranks"])
    monkeypatch.setattr(hang_cli, "resolve_job_hosts", lambda *_: {"plan": plan(2), "hosts": {}})
    monkeypatch.setattr(ask, "query_hang_nodes", lambda *_: [liar, el1])
    path = tmp_path / "job.html"
    assert cli.main(["hang", "-i", "inventory/prod", "--json", "--html", str(path)]) in (0, 1)
    found = json.loads(capsys.readouterr().out)
    assert "b" in [one["job"] for one in (found, *found["others"])]
    assert bool(found["not_judged"]) == (name in ("groups", "a world of its own"))
    assert path.read_text()


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exec yes", "it printed more than 1 MiB"),
        ("exec yes >&2", "it printed more than 1 MiB"),
        ("exec sleep 60", "did not answer within"),
        ("exit 3", "exit 3"),
    ],
)
def test_the_output_of_a_node_is_bounded(
    script: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ask, "MOST_OUTPUT", 1 << 20)
    monkeypatch.setattr(ask, "SECONDS", 2.0)
    monkeypatch.setattr(ask.remote, "build_ssh_command", lambda *_: ["sh", "-c", script])
    assert why in ask.query_hang_node("el1", {}, "", []).why


def test_an_early_sample_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "look").write_text(line(WELL) + "\n")
    script = f"cat {tmp_path}/look; printf '\\036fullmesh-hang half'; exec sleep 60"
    monkeypatch.setattr(ask, "SECONDS", 1.0)
    monkeypatch.setattr(ask, "MORE_SECONDS", 0.0)
    monkeypatch.setattr(ask.remote, "build_ssh_command", lambda *_: ["sh", "-c", script])
    assert len(ask.query_hang_node("liar", {}, "", [0.0]).looks) == 1


def test_our_own_error_ends_one_answer_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(reach: object, name: str, text: str) -> list[str]:
        if name == "el1":
            raise RuntimeError("no such case")
        return ["no-such-program"]

    monkeypatch.setattr(ask.remote, "build_ssh_command", fails)
    first, second = ask.query_hang_nodes({"el1": {}, "ubuntu1": {}}, "", [])
    assert "no such case" in first.why
    assert "ssh cannot be started" in second.why


# --- several jobs -----------------------------------------------------------------------------------


def of(account: str, job: str, number: int = 0, world: int = 2) -> Rank:
    """Make a rank of another account's job."""
    one = ask.make_absent_rank(number, world, "el1", "", gone=False)
    return {**one, "process": "running", "missing": [], "account": account, "job": job, "pid": 7}


def node_with(*ranks: Rank) -> list[ask.HangAnswer]:
    """A node that answers with these."""
    return [ask.HangAnswer("el1", ({"host": "el1", "jobs": [], "ranks": list(ranks)},))]


def test_two_accounts_with_one_job_name_are_two_jobs() -> None:
    found, rest = jobs.group_answers_by_job(
        plan(2), node_with(of("alice", "a", 0), of("mallory", "a", 0))
    )
    assert [(one.account, one.samples[0][0]["account"]) for one in found] == [
        ("alice", "alice"),
        ("mallory", "mallory"),
    ]
    assert rest == []


def test_no_account_prevents_the_verdict_on_anothers_job() -> None:
    many = [of("mallory", f"job{n}") for n in range(500)]
    found, rest = jobs.group_answers_by_job(plan(2), node_with(*many, of("zoe", "small", world=1)))
    assert ("zoe", "small") in [(one.account, one.name) for one in found]
    assert (len(found), len(rest)) == (jobs.MOST_JOBS, 501 - jobs.MOST_JOBS)


def test_a_launcher_answers_for_ranks_of_its_account_and_job() -> None:
    start: Launcher = {"pid": 9, "job": "a", "master": "", "first": 0, "count": 4}
    for more, known in (({}, 4), ({"account": "mallory"}, 1), ({"job": "b"}, 1)):
        (answer_,) = node_with(of("alice", "a", 0, world=4))
        answer_.looks[0]["launchers"] = [{**start, **more}]  # type: ignore[typeddict-item]
        ((job,), _) = jobs.group_answers_by_job(plan(2), [answer_])
        assert len(job.samples[0]) == known
