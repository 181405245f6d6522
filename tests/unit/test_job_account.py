"""The account of jobs: how it is found, and the tests that run as it."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.fullmesh.probe import job_account
from ansible.module_utils.fullmesh.survey import job_accounts, job_unit

UNIT = "[Service]\nType=exec\nUser=jobs\n"
JOBS = pwd.struct_passwd(("jobs", "x", 1999, 1999, "", "/", "/bin/sh"))
ME: Any = {"node": "a", "address": "127.0.0.1", "token": "t", "payload": 0}


@pytest.fixture
def accounts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Make a node that has an account for jobs, and no process of it."""
    known = {"jobs": JOBS, "root": pwd.getpwuid(0)}
    monkeypatch.setattr("pwd.getpwnam", known.__getitem__)
    unit = tmp_path / "fullmesh-job@.service"
    monkeypatch.setattr(job_accounts, "UNITS", (str(unit),))
    monkeypatch.setattr(job_accounts, "find_rank_accounts", lambda: iter(()))
    return unit


def test_the_named_account_precedes_the_units_and_the_ranks(
    accounts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert job_accounts.find_job_account("") is None
    monkeypatch.setattr(job_accounts, "find_rank_accounts", lambda: iter(["1234"]))
    found = job_accounts.find_job_account("")
    assert found is not None
    assert found.pw_uid == 1234, "a number needs no entry"
    accounts.write_text(UNIT)
    assert job_accounts.find_job_account("") == JOBS
    assert job_accounts.find_job_account("jobs") == JOBS


@pytest.mark.parametrize("named", ["root", "0", "nobody-knows-it", "99999999999"])
def test_root_and_missing_accounts_are_ignored(accounts: Path, named: str) -> None:
    accounts.write_text("[Service]\nUser=root\n")
    assert job_accounts.find_job_account(named) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts a process of another account")
def test_running_ranks_show_their_account() -> None:
    rank = {"RANK": "0", "MASTER_ADDR": "a", "PATH": "/usr/bin:/bin"}
    before = set(job_accounts.find_rank_accounts())
    with subprocess.Popen(["sleep", "60"], env=rank, user=54321) as one:
        with subprocess.Popen(["sleep", "60"], env={"RANK": "0"}, user=54322) as other:
            found = set(job_accounts.find_rank_accounts()) - before
            other.kill()
        one.kill()
    assert found == {"54321"}


SHOWN = """IPAddressAllow=::1/128 127.0.0.0/8
IPAddressDeny=0.0.0.0/0 ::/0
LimitNOFILE=64
PrivateNetwork=no
RestrictAddressFamilies=AF_UNIX
LoadState=loaded
DropInPaths=
"""  # from systemd 252, of a unit made for this test


def test_the_unit_of_jobs_is_read_as_systemd_shows_it() -> None:
    assert job_unit.parse_job_unit(SHOWN) == {
        "drop_ins": [],
        "nofile": 64,
        "allow": ["::1/128", "127.0.0.0/8"],
        "deny": ["0.0.0.0/0", "::/0"],
        "own_network": False,
        "families": "AF_UNIX",
        "environment": {},
        "settings": {},
        "blocked": [],
        "missing": [],
        "scripts": [],
        "load": "loaded",
    }
    shown = SHOWN + 'Environment=LANG=C NCCL_IB_GID_INDEX=3 "NCCL_IB_HCA==mlx5_0:1" PATH=/usr/bin\n'
    unit = job_unit.parse_job_unit(shown)
    assert unit is not None
    assert unit["environment"] == {"NCCL_IB_GID_INDEX": "3", "NCCL_IB_HCA": "=mlx5_0:1"}
    assert job_unit.parse_unit_environment('"unbalanced NCCL_DEBUG=INFO') == {"NCCL_DEBUG": "INFO"}
    endless = job_unit.parse_job_unit(SHOWN.replace("64\n", "infinity\n", 1))
    assert endless is not None
    assert endless["nofile"] == job_unit.ENDLESS
    assert job_unit.parse_job_unit("LoadState=not-found\nLimitNOFILE=20000\n") is None
    assert job_unit.parse_job_unit("") is None


def test_settings_that_keep_jobs_from_starting_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.env").write_text("FULLMESH_SCRIPT=/srv/train.py\nA=1\n")
    monkeypatch.setattr(job_unit, "JOBS", str(tmp_path))
    unit = job_unit.parse_job_unit(
        f"""LoadState=loaded
MemoryMax=31457280
TasksMax=infinity
RestrictNetworkInterfaces=~
User=nosuch-account
EnvironmentFiles=/etc/nosuch (ignore_errors=no)
EnvironmentFiles=/etc/nosuch-as-well (ignore_errors=yes)
EnvironmentFiles={tmp_path}/train.env (ignore_errors=no)
EnvironmentFiles=/etc/fullmesh/jobs/fullmesh-look.env (ignore_errors=no)
EnvironmentFiles=/etc/nosuch-outlook.env (ignore_errors=no)
ExecStartPre={{ path=/nosuch/pre ; argv[]=/nosuch/pre ; ignore_errors=no }}
SystemCallFilter=~bind kexec_load
"""
    )
    assert unit is not None
    assert unit["settings"] == {"MemoryMax": "31457280"}
    assert unit["missing"] == [
        "User=nosuch-account",
        "EnvironmentFile=/etc/nosuch",
        "EnvironmentFile=/etc/nosuch-outlook.env",
        "ExecStartPre=/nosuch/pre",
    ]
    assert (unit["blocked"], unit["scripts"]) == (["bind"], ["/srv/train.py"])
    allowed = " ".join(sorted(job_unit.CALLS - {"socket"}))
    assert job_unit.list_blocked_calls(allowed) == ["socket"]
    assert job_unit.list_blocked_calls("") == job_unit.list_blocked_calls("~reboot") == []
    masked = job_unit.parse_job_unit("LoadState=masked\n")
    assert masked is not None
    assert masked["load"] == "masked"


def make_target(node: str, port: int, kind: str = "sample") -> Any:
    return {"node": node, "address": "127.0.0.1", "port": port, "kind": kind}


def test_some_listeners_and_all_planned_ports_are_tried() -> None:
    targets = [make_target("b", port) for port in range(1, 9)]
    targets += [
        make_target("b", 29500, "master"),
        make_target("b", 9, "outside"),
        make_target("c", 1),
    ]
    links: Any = [
        {"node": t["node"], "port": t["port"], "verdict": "dropped" if t["port"] == 2 else "open"}
        for t in targets
    ]
    tried = [
        (one["node"], one["port"]) for one in job_account.select_targets_by_verdict(targets, links)
    ]
    assert tried == [("b", 29500), ("b", 1), ("b", 3), ("b", 4), ("c", 1)]


def test_only_failures_of_the_account_are_its_faults(
    accounts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links: Any = [{"node": "b", "port": port, "verdict": "open"} for port in (1, 2)]
    met: Any = [{**links[0], "verdict": "dropped"}, links[1]]
    monkeypatch.setattr("os.geteuid", lambda: 0)
    answers = iter([met, links[:1], met[:1]])  # the job's account, root, the job's account again
    monkeypatch.setattr(job_account, "probe_links", lambda *_: next(answers))
    monkeypatch.setattr(job_account, "run_as_account", lambda _who, work: work())
    said = job_account.probe_as_job_account(
        [make_target("b", 1), make_target("b", 2)], links, ME, 1.0, "jobs"
    )
    assert said == {"account": "jobs", "uid": 1999, "tried": 2, "links": met[:1]}


def test_a_login_is_made_for_a_known_account_only(
    accounts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every process may set RANK= in its environment, so root opens no session for its account."""
    links: Any = [{"node": "b", "port": 1, "verdict": "open"}]
    made: list[str] = []
    held = {"nofile": 1, "memlock": 1, "processes": 1}
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(job_account, "probe_links", lambda *_: links)
    monkeypatch.setattr(job_account, "run_as_account", lambda _who, work: work())
    monkeypatch.setattr(
        job_account.login, "read_login_limits", lambda who: made.append(who.pw_name) or held
    )
    monkeypatch.setattr(job_accounts, "find_rank_accounts", lambda: iter(["1234"]))
    said = job_account.probe_as_job_account([make_target("b", 1)], links, ME, 1.0, "")
    assert said is not None
    assert (said["uid"], "login" in said, made) == (1234, False, [])
    accounts.write_text(UNIT)
    for named in ("", "jobs"):
        said = job_account.probe_as_job_account([make_target("b", 1)], links, ME, 1.0, named)
        assert said is not None
        assert (said["account"], said["login"]) == ("jobs", held)
    assert made == ["jobs", "jobs"]


def one_of(place: Any, verdict: str) -> Any:
    return {**place, "verdict": verdict}


@pytest.mark.parametrize(
    ("as_them", "then", "beyond"),
    [
        ({"b": ["open", "dropped"], "c": ["open"]}, "dropped", ["c"]),  # one of b's stays blocked
        ({"b": ["open", "open"], "c": ["open"]}, "open", []),  # root gets through right after
        ({"b": ["dropped", "dropped"], "c": ["dropped"]}, "dropped", []),
    ],
)
def test_what_only_the_account_reaches_is_reported(
    accounts: Path,
    monkeypatch: pytest.MonkeyPatch,
    as_them: dict[str, list[str]],
    then: str,
    beyond: list[str],
) -> None:
    """Found by seed 343 of the surprises: a rule for root's packets was reported as a blocked link."""
    targets = [make_target("b", 1), make_target("b", 2), make_target("c", 1), make_target("d", 1)]
    links: Any = [one_of(t, "open" if t["node"] == "d" else "dropped") for t in targets]
    they = [False]

    def probe(some: Any, *_: Any) -> Any:
        said = {**as_them, "d": ["open"]}
        verdicts = [said[one["node"]][one["port"] - 1] if they[-1] else then for one in some]
        return list(map(one_of, some, verdicts))

    def acting(_who: Any, work: Any) -> Any:
        they.append(True)
        try:
            return work()
        finally:
            they.pop()

    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(job_account, "probe_links", probe)
    monkeypatch.setattr(job_account, "run_as_account", acting)
    said = job_account.probe_as_job_account(targets, links, ME, 1.0, "jobs")
    assert said is not None
    assert (said["tried"], said["links"]) == (1, [])
    assert [one["node"] for one in said.get("past", [])] == beyond


@pytest.mark.parametrize(
    "turns",
    [
        ["mtu_black_hole"],  # large packets are lost for every sender
        ["dropped", "dropped"],  # root's are lost, too, right after
        ["dropped", "open", "open"],  # at random
    ],
)
def test_intermittent_faults_are_not_blamed_on_the_account(
    accounts: Path, monkeypatch: pytest.MonkeyPatch, turns: list[str]
) -> None:
    links: Any = [{"node": "b", "port": 1, "verdict": "open"}]
    answers = iter([{**links[0], "verdict": word}] for word in turns)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(job_account, "probe_links", lambda *_: next(answers))
    monkeypatch.setattr(job_account, "run_as_account", lambda _who, work: work())
    said = job_account.probe_as_job_account([make_target("b", 1)], links, ME, 1.0, "jobs")
    assert said is not None
    assert said["links"] == []
    assert not list(answers)


def test_no_user_can_be_that_account(accounts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> Any:
        raise OSError("as jobs: cannot act as jobs")

    links: Any = [{"node": "b", "port": 1, "verdict": "open"}]
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(job_account, "run_as_account", refused)
    said = job_account.probe_as_job_account([make_target("b", 1)], links, ME, 1.0, "jobs")
    assert said is not None
    assert said["error"] == "as jobs: cannot act as jobs"
    monkeypatch.setattr("os.geteuid", os.getpid)
    assert job_account.probe_as_job_account([make_target("b", 1)], links, ME, 1.0, "jobs") is None
