"""Limits of logins, and the networks of containers, as nodes see them."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.fullmesh.probe import job_network, login
from causes.changes import get_node, get_survey, limit_logins, run_in_container
from records import UBUNTU1, World, diagnose_answers, load_world

# of a login on a lab node
LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units     
Max cpu time              unlimited            unlimited            seconds   
Max file size             unlimited            unlimited            bytes     
Max processes             20                   4096                 processes 
Max open files            1024                 524288               files     
Max locked memory         8388608              unlimited            bytes     
"""  # noqa: W291 (the kernel's own columns)


def test_the_kernels_table_is_read() -> None:
    found = login.parse_process_limits(LIMITS)
    assert found[login.FILES] == (1024, 524288)
    assert found[login.MEMORY] == (8388608, -1)
    assert found[login.PROCESSES] == (20, 4096)
    assert (
        login.parse_process_limits(Path("/proc/self/limits").read_text()).keys()
        >= login.KINDS.keys()
    )
    assert login.parse_process_limits("nothing") == {}


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Simulate an account, and a su that reports its arguments and the environment of the login."""

    def su(text: str) -> pwd.struct_passwd:
        tool = tmp_path / "su"
        tool.write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/asked\n{text}\n')
        tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
        path = {"PATH": f"{tmp_path}:{login.ENVIRONMENT['PATH']}"}
        monkeypatch.setattr(login, "ENVIRONMENT", login.ENVIRONMENT | path)
        return pwd.struct_passwd(("jobs", "x", 1999, 1999, "", "/", "/bin/sh"))

    return su


def test_a_login_reads_no_profile_and_reports_its_limits(account: Any, tmp_path: Path) -> None:
    (tmp_path / "limits").write_text(LIMITS)
    who = account(f"cat {tmp_path}/limits")
    assert login.read_login_limits(who) == {"nofile": 1024, "memlock": 8388608, "processes": 20}
    # no login shell: neither - nor -l
    assert (tmp_path / "asked").read_text() == "-s /bin/sh jobs -c cat /proc/self/limits\n"


def test_a_login_gets_none_of_roots_environment(
    account: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://user:word@proxy.example")
    monkeypatch.setenv("SUDO_USER", "ann")
    login.read_login_limits(account(f"env >{tmp_path}/env"))
    names = {line.partition("=")[0] for line in (tmp_path / "env").read_text().splitlines()}
    assert names <= {"PATH", "LC_ALL", "PWD", "OLDPWD", "SHLVL", "_"}


@pytest.mark.parametrize("text", ["exit 1", "echo Max open files", "true"])
def test_an_account_without_login_gives_no_finding(account: Any, text: str) -> None:
    assert login.read_login_limits(account(text)) is None


def test_a_login_begins_with_the_limits_of_the_daemon(
    account: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login, "read_sshd_limits", lambda: {login.FILES: (77, 99)})
    found = login.read_login_limits(account("cat /proc/self/limits"))
    assert found
    assert found["nofile"] == 77


def test_the_daemon_is_the_last_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    family = {
        os.getpid(): (50, "python3"),
        50: (40, "sshd"),
        40: (30, "sshd-session"),
        30: (1, "sshd"),
    }
    monkeypatch.setattr(login, "read_parent_process", lambda pid: (family[pid][0], family[pid][1]))
    read: list[str] = []
    monkeypatch.setattr(login, "read_login_file", lambda path: read.append(path) or LIMITS)
    assert login.read_sshd_limits()[login.FILES] == (1024, 524288)
    assert read == ["/proc/30/limits"]
    family[30] = (1, "systemd")
    family[40], family[50] = (30, "bash"), (40, "tmux")
    assert login.read_sshd_limits() == {}


def test_missing_parts_of_the_probe_are_reported_once() -> None:
    held = load_world("healthy")
    limit_logins(nofile=4)(held)
    get_survey(held)["limits"] = {"nofile": 4, "nofile_hard": 4, "memlock": -1}
    assert "DG-185" not in [one["code"] for one in diagnose_answers(held)["findings"]]


def test_few_files_for_logins_are_a_warning_with_units() -> None:
    held = load_world("healthy")
    limit_logins(processes=20)(held)
    get_survey(held).pop("job_unit", None)
    (found,) = (one for one in diagnose_answers(held)["findings"] if one["code"] == "DG-185")
    assert found["severity"] == "error"
    assert "'jobs - nproc unlimited'" in found["fix"]
    get_survey(held)["job_unit"] = {
        "drop_ins": [],
        "nofile": -1,
        "allow": [],
        "deny": [],
        "own_network": False,
        "families": "",
    }
    (found,) = (one for one in diagnose_answers(held)["findings"] if one["code"] == "DG-185")
    assert found["severity"] == "warning"


def find_codes(held: World) -> Any:
    return [one["code"] for one in diagnose_answers(held)["findings"]]


def test_a_reachable_separate_network_is_accepted() -> None:
    held = load_world("healthy")
    run_in_container(["10.78.5.77"], "10.78.5.77")(held)
    assert get_node(held, UBUNTU1)["links"]["networks"]
    assert find_codes(held) == []


# of processes in containers: torchrun over two nodes, on one with its own master, on one by its name; a rank by hand
@pytest.mark.parametrize(
    ("words", "several"),
    [
        ("RANK=3 WORLD_SIZE=16 LOCAL_WORLD_SIZE=8 MASTER_ADDR=10.0.0.1", True),
        ("RANK=0 WORLD_SIZE=2 MASTER_ADDR=node1", True),
        ("RANK=3 WORLD_SIZE=8 LOCAL_WORLD_SIZE=8 MASTER_ADDR=10.0.0.1", False),
        ("RANK=3 WORLD_SIZE=8 LOCAL_WORLD_SIZE=8 MASTER_ADDR=3f2a9c", False),
        ("RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1", False),
        ("RANK=1 WORLD_SIZE=2 MASTER_ADDR=localhost", False),
        ("RANK=0 WORLD_SIZE=1 MASTER_ADDR=10.0.0.1", False),
        ("RANK=0 MASTER_ADDR=10.0.0.1", False),
        ("WORLD_SIZE=2 MASTER_ADDR=10.0.0.1", False),
        ("", False),
    ],
)
def test_a_job_that_stays_in_its_container_needs_no_peers(words: str, several: bool) -> None:
    environment = b"\0" + "\0".join(words.split()).encode() + b"\0"
    assert job_network.is_multi_node_job(environment) is several


def test_only_root_inspects_network_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_network.os, "geteuid", lambda: 1000)
    assert (
        job_network.probe_job_networks(
            [], [], {"node": "", "address": "", "token": "", "payload": 0}, 1
        )
        == []
    )


def test_a_process_that_is_gone_has_no_network() -> None:
    assert job_network.run_in_network_namespace(1 << 22, lambda: "never") is None
