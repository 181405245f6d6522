"""The first second of a job that srun starts: stand-ins for su, srun and slurmd, and the real program."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.fullmesh.survey import job_slurm_start, job_start

from fullmesh.causes.ranks import vc329_slurm_start
from fullmesh.observed.survey import START_STEPS

WANT: Any = {
    "python": sys.executable,
    "named": [{"kind": "master", "port": 29500}],
    "address": "127.0.0.1",
    "hosts": [{"address": "127.0.0.1", "names": ["localhost"]}],
    "job_user": "jobs",
}
SRUN = """#!/bin/sh
echo "$@" > {folder}/asked
while [ "${{1#--}}" != "$1" ]; do shift; done
{before}
exec "$@"
"""
Begin = Callable[..., Any]


@pytest.fixture
def tmp_path(open_folder: Path) -> Path:
    """Let the account of a job enter the folder of a test."""
    return open_folder


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Begin:
    """Start a job of Slurm: shell commands run before its task."""
    me = pwd.getpwuid(os.geteuid())
    (tmp_path / "env").write_text("NNODES=2\n")
    monkeypatch.setattr(job_start, "ENV_FILE", str(tmp_path / "env"))
    monkeypatch.setattr(job_start, "LAUNCHER", str(tmp_path / "launcher"))
    monkeypatch.setattr(job_start, "PARTS", [])
    monkeypatch.setattr(job_start, "DEVICES", [])
    monkeypatch.setattr(job_start.os, "geteuid", lambda: 0)
    monkeypatch.setattr(job_start.pwd, "getpwnam", lambda _name: me)
    monkeypatch.setattr(job_slurm_start, "SLURM_PATH", str(tmp_path))
    monkeypatch.setattr(job_slurm_start, "find_slurmd", lambda: "slurmd\0-D\0-N\0node7\0")
    monkeypatch.setattr(job_slurm_start, "CONFIGURATIONS", (str(tmp_path / "slurm.conf"),))
    path = f"{tmp_path}:{job_slurm_start.LOGIN_ENVIRONMENT['PATH']}"
    monkeypatch.setattr(job_slurm_start, "LOGIN_ENVIRONMENT", {"PATH": path, "HOME": str(tmp_path)})
    (tmp_path / "su").write_text('#!/bin/sh\nexec /bin/sh -c "$5"\n')
    (tmp_path / "su").chmod(0o755)

    def run(before: str = "", **want: Any) -> Any:
        (tmp_path / "srun").write_text(SRUN.format(folder=tmp_path, before=before))
        (tmp_path / "srun").chmod(0o755)
        return job_slurm_start.survey_slurm_start({**WANT, **want})

    return run


def test_a_healthy_job_has_no_failed_step_and_runs_on_this_node(
    begin: Begin, tmp_path: Path
) -> None:
    found = begin("export GLOO_SOCKET_IFNAME=eth1")
    assert (found["error"], found["steps"]) == ("", [])
    assert found["task"] == {"GLOO_SOCKET_IFNAME": "eth1"}
    asked = (tmp_path / "asked").read_text()
    assert "--nodelist=node7" in asked
    assert "--immediate=1" in asked  # it waits for no other job


def test_variables_of_the_task_prolog_have_their_place(begin: Begin, tmp_path: Path) -> None:
    prolog = tmp_path / "prolog"
    prolog.write_text("#!/bin/sh\necho export GLOO_SOCKET_IFNAME=eth0\n")
    (tmp_path / "slurm.conf").write_text(f"# TaskProlog=/nosuch\n taskprolog = {prolog}\n")
    found = begin("export GLOO_SOCKET_IFNAME=eth0 TORCH_DISTRIBUTED_DEBUG=LOUD")
    assert found["prolog"] == str(prolog)
    assert found["sources"] == {"GLOO_SOCKET_IFNAME": f"{prolog}:2"}
    assert [one["subject"] for one in found["steps"]] == ["TORCH_DISTRIBUTED_DEBUG"]


def test_the_limit_of_locked_memory_counts_with_rdma(begin: Begin) -> None:
    found = begin("ulimit -n 32; ulimit -l 64")
    rdma = ["MEMLOCK"] if os.path.exists("/dev/infiniband/uverbs0") else []
    assert [one["subject"] for one in found["steps"]] == ["NOFILE", *rdma]


@pytest.mark.parametrize(
    ("before", "error"),
    [
        (
            "printf 'Python path configuration:\\nNo module named encodings\\n\\nsrun: error: n: task 0: Exited\\n'"
            " >&2; exit 1",
            "No module named encodings",
        ),
        ("echo 'srun: error: Unable to contact slurm controller' >&2; exit 1", "srun: error: Un"),
        ("exit 3", "srun ended with status 3"),
        ("echo '\\033[31mred' >&2; exit 3", " [31mred"),
    ],
)
def test_a_job_that_starts_no_task_is_a_failure(begin: Begin, before: str, error: str) -> None:
    found = begin(before)
    assert found["error"].startswith(error.strip())
    assert found["steps"] == []


@pytest.mark.parametrize(
    "line",
    [
        "Unable to allocate resources: Requested nodes are busy",
        "Unable to allocate resources: Invalid account or account/partition combination specified",
        "Required node not available (down, drained or reserved)",
    ],
)
def test_a_job_that_slurm_does_not_accept_now_is_not_found_out(begin: Begin, line: str) -> None:
    assert begin(f"echo 'srun: error: {line}' >&2; exit 1") == (
        None,
        f"Slurm did not start a job: srun: error: {line}",
    )


def test_a_job_that_does_not_end_in_time_is_ended(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_slurm_start, "SECONDS", 0.3)
    assert begin("exec sleep 60") == (None, "a job of srun did not end in time")


@pytest.mark.parametrize("slurmd", ["", "slurmd\0-N\0--reboot\0", "slurmd\0-N\0a b\0"])
def test_nodes_without_slurm_start_nothing(
    begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slurmd: str
) -> None:
    monkeypatch.setattr(job_slurm_start, "find_slurmd", lambda: slurmd)
    assert begin() is None
    assert not (tmp_path / "asked").exists()


def test_an_account_that_nobody_named_starts_nothing(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_start, "find_unit_accounts", lambda: iter(()))
    assert begin(job_user="") is None


# of Slurm 22.05, shortened
LISTED = (
    "NodeName=el1 Arch=x86_64 CoresPerSocket=1 NodeAddr=10.78.6.11 NodeHostName=gpu-el1 Version=22.05.8\n"
    "NodeName=ubuntu1 Arch=x86_64 NodeAddr=10.78.6.12 NodeHostName=gpu-ubuntu1 Version=22.05.8 \n"
)


@pytest.mark.parametrize(
    ("host", "address", "name"),
    [("gpu-ubuntu1", "", "ubuntu1"), ("n", "10.78.6.11", "el1"), ("gpu", "10.78.6.1", "")],
)
def test_slurm_knows_a_node_by_host_name_or_address(host: str, address: str, name: str) -> None:
    assert job_slurm_start.find_node_name(LISTED, host, address) == name


def test_without_an_answer_the_node_has_its_host_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_slurm_start, "SLURM_PATH", str(tmp_path))
    own = os.uname().nodename.partition(".")[0]
    assert job_slurm_start.choose_node_name("slurmd\0-D\0", "127.0.0.1") == own


@pytest.mark.parametrize(
    ("name", "owner", "found"), [("slurmd", 0, True), ("slurmd", 1234, False), ("sh", 0, False)]
)
def test_slurmd_is_a_process_of_root(tmp_path: Path, name: str, owner: int, found: bool) -> None:
    """Any account can give a process this name."""
    if os.geteuid() != 0:
        pytest.skip("only root can make files of other accounts")
    (tmp_path / "7").mkdir()
    (tmp_path / "7/comm").write_text(f"{name}\n")
    (tmp_path / "7/cmdline").write_text("slurmd\0-N\0node7\0")
    os.chown(tmp_path / "7/comm", owner, owner)
    assert bool(job_slurm_start.find_slurmd(str(tmp_path))) == found


def test_every_step_of_a_job_can_be_described() -> None:
    assert vc329_slurm_start.DESCRIBED.keys() == {*START_STEPS}
    assert {*vc329_slurm_start.HARMLESS} < {*START_STEPS}
