"""watch: the controller's side."""

from __future__ import annotations

import json
import os
import queue
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from watch_job import JOB, free_port, make_problem

from fullmesh import cli, ssh
from fullmesh.printed import CONTROL
from fullmesh.settings import ROOT
from fullmesh.verbs import watch as watch_cli
from fullmesh.watch import remote as watch_remote


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """Write an inventory of two nodes that are both this machine."""
    path = tmp_path / "hosts.yml"
    nodes = {
        name: {
            "ansible_connection": "local",
            "ansible_host": f"127.0.0.{number}",
            "ansible_python_interpreter": sys.executable,
        }
        for number, name in ((11, "node-a"), (12, "node-b"))
    }
    path.write_text(json.dumps({"all": {"children": {"torch_nodes": {"hosts": nodes}}}}))
    return path


def test_job_runs_on_all_nodes(inventory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = cli.main(
        [
            "watch",
            "-i",
            str(inventory),
            "--",
            "sh",
            "-c",
            "echo rank $RANK of $WORLD_SIZE; exit $RANK",
        ]
    )
    out = capfd.readouterr()
    assert sorted(out.out.splitlines()) == ["[node-a] rank 0 of 2", "[node-b] rank 1 of 2"]
    assert (code, out.err) == (1, "")


def test_a_missing_rank_is_reported_once_from_both_ends(
    inventory: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    def diagnose(_inventory: Path) -> tuple[subprocess.Popen[bytes], Any]:
        out = open(os.devnull, "rb")  # noqa: SIM115 (as the real one)
        started.append(subprocess.Popen(["true"]))
        return started[-1], out

    monkeypatch.setattr(watch_cli, "start_diagnosis", diagnose)
    monkeypatch.setattr(watch_cli, "GATHER", 3.0)
    job = "import os,sys; os.environ['RANK']=='1' and sys.exit(5)\n" + JOB.replace(
        "127.0.0.1", "127.0.0.11"
    )
    port = str(free_port())
    call = ["watch", "--within", "1", "--kill-after", "8", "-i", str(inventory), "--"]
    call += ["env", f"MASTER_PORT={port}", sys.executable, "-c", job]
    assert cli.main(call) == 5
    err = capfd.readouterr().err
    assert (
        f"[WA-101] rank 1 (node-b) has not reached 127.0.0.11:{port} (node-a): the job does not run there (exit 5"
        in err
    )
    assert "[WA-108] node-a" in err
    assert started


def test_problems_of_both_ends_are_merged() -> None:
    missing = make_problem(
        "WA-101", "el1", zone="public", why="zone public on el1 does not open 29500/tcp"
    )
    unreached = make_problem("WA-102", "ub1", why="dropped: no answer at all")
    problems = [missing, unreached]
    assert watch_remote.merge_problems(problems, problems, {}) == [
        "[WA-101] rank 1 (ub1) has not reached 10.78.0.11:29500 (el1): dropped: no answer at all; zone public on el1"
        " does not open 29500/tcp."
    ]
    elsewhere = make_problem("WA-102", "ub1", why="nobody answers", host="10.78.0.99")
    [line] = watch_remote.merge_problems([missing], [missing, elsewhere], {})
    assert "nobody answers (it tries 10.78.0.99:29500)" in line
    assert watch_remote.merge_problems([unreached], [unreached], {}) == ["as it is"]


def test_node_output_cannot_control_the_terminal() -> None:
    unsafe = make_problem("WA-101", "el1", who="\x1b[2Jrank\n1", why="\u202egnorw")
    [line] = watch_remote.merge_problems([unsafe], [unsafe], {})
    assert not CONTROL.search(line)
    assert watch_remote.parse_watch_event("\x1efullmesh-watch {no json") is None
    assert watch_remote.parse_watch_event("\x1efullmesh-watch []") is None


def test_an_event_matches_its_type_exactly() -> None:
    event = {
        "event": "problem",
        "node": "ub1",
        "after": 61.0,
        "problem": make_problem("WA-101", "el1"),
    }
    assert watch_remote.parse_watch_event(watch_remote.MARK + json.dumps(event)) == event
    for invalid in (
        event | {"event": "joy"},
        event | {"more": 1},
        event | {"problem": {"code": "WA-101"}},
        {key: value for key, value in event.items() if key != "node"},
    ):
        assert watch_remote.parse_watch_event(watch_remote.MARK + json.dumps(invalid)) is None


def test_ssh_uses_the_settings_of_the_inventory() -> None:
    variables = {
        "ansible_host": "192.0.2.1",
        "ansible_user": "root",
        "ansible_port": 2222,
        "ansible_ssh_private_key_file": "/k",
        "ansible_ssh_common_args": "-o ProxyJump=gate -o 'X=a b'",
        "ansible_password": "secret",
    }
    reach = watch_remote.extract_ssh_settings(ssh.resolve_ssh_variables(variables))
    argv = watch_remote.build_ssh_command(reach, "node-a", "text; more")
    assert argv[:1] == ["ssh"]
    assert argv[-2:] == ["192.0.2.1", "text; more"]
    for arguments in (
        ["-p", "2222"],
        ["-l", "root"],
        ["-i", "/k"],
        ["-o", "ProxyJump=gate", "-o", "X=a b"],
    ):
        assert shlex.join(arguments) in shlex.join(argv)
    assert "secret" not in str(argv)


def test_ssh_uses_the_settings_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    # connected through ~/.ssh/config or "-F": the inventory has none of these settings
    monkeypatch.setenv("ANSIBLE_SSH_COMMON_ARGS", "-F /tmp/config")
    monkeypatch.setenv("ANSIBLE_PRIVATE_KEY_FILE", "/other")
    variables = {"ansible_ssh_private_key_file": "/k"}
    reach = watch_remote.extract_ssh_settings(ssh.resolve_ssh_variables(variables))
    argv = shlex.join(watch_remote.build_ssh_command(reach, "node-a", "text"))
    assert "-F /tmp/config" in argv
    assert "-i /k" in argv
    assert argv.endswith("-- node-a text")
    # ssh uses the first value of an option, so it does not wait for a master of Ansible
    assert argv.index("ControlPath=none") < argv.index("ControlMaster=auto")


def test_failed_ssh_is_reported_as_the_reason(capfd: pytest.CaptureFixture[str]) -> None:
    messages: queue.Queue[watch_remote.NodeMessage] = queue.Queue()
    command = ["sh", "-c", "echo 'no route to host' >&2; exit 255"]
    nodes = {"ub1": watch_remote.start_node_job("ub1", command, messages)}
    assert (
        watch_cli.follow_job(
            watch_cli.WatchedJob(Path("x"), nodes, messages, ["ub1"], diagnoses=False)
        )
        == 255
    )
    assert "ub1 cannot be reached by ssh: no route to host" in capfd.readouterr().err
    missing = make_problem("WA-101", "el1")
    assert "ssh failed" in watch_remote.merge_problems([missing], [missing], nodes)[0]


def test_a_signal_ends_the_job_on_all_nodes(inventory: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fullmesh", "watch", "-i", str(inventory), "--"]
    job = subprocess.Popen(
        [*command, "sh", "-c", f"echo $$ > {tmp_path}/$RANK; exec sleep 600"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        cwd=ROOT,
    )
    files = [tmp_path / "0", tmp_path / "1"]
    deadline = time.monotonic() + 60
    while (
        not all(f.exists() and f.read_text().strip() for f in files) and time.monotonic() < deadline
    ):
        time.sleep(0.1)
    pids = [f.read_text().strip() for f in files]
    job.send_signal(signal.SIGTERM)
    assert job.wait(60) == 143
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("{not yaml: [", "has no usable nodes"),
        ("all: {hosts: {a: {ansible_host: 127.0.0.1, ansible_connection: podman}}}", "is not ssh"),
    ],
)
def test_unusable_inventory_is_reported(
    tmp_path: Path, content: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text(content)
    assert cli.main(["watch", "-i", str(path), "--", "true"]) == 2
    err = capsys.readouterr().err
    assert "[WA-107]" in err
    assert text in err


def test_ansible_options_select_nodes_and_connections(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yml"
    path.write_text(
        "torch_nodes:\n  hosts:\n    a: {fullmesh_address: 203.0.113.1/24}\n"
        "    b: {fullmesh_address: 203.0.113.2/24, ansible_user: own}\n"
    )
    part = watch_cli.resolve_job_hosts(path, ["--limit=!c", "--user=bob", "--private-key=/k"])
    assert {name: (one["user"], one["key"]) for name, one in part["hosts"].items()} == {
        "a": ("bob", "/k"),
        "b": ("own", "/k"),  # the inventory's own value has precedence, as in Ansible
    }
    part = watch_cli.resolve_job_hosts(path, ["--limit=b"])
    assert (list(part["hosts"]), list(part["plan"]["nodes"])) == (["b"], ["a", "b"])
    (tmp_path / "limit").write_text("b\n")
    assert list(watch_cli.resolve_job_hosts(path, [f"--limit=@{tmp_path}/limit"])["hosts"]) == ["b"]
    with pytest.raises(ValueError, match="no node matches --limit c"):
        watch_cli.resolve_job_hosts(path, ["--limit=c"])


def test_invalid_options_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["watch"]) == 2
    assert cli.main(["watch", "--within", "0", "--", "true"]) == 2
    assert capsys.readouterr().err.count("[WA-105]") == 2
    assert cli.main(["watch", "-i", "no/inventory", "--", "true"]) == 2
    messages = capsys.readouterr().err
    assert "[CL-106]" in messages
    assert "old spelling" not in messages
    assert cli.main(["watch", "--probe", "no/inventory", "--", "true"]) == 2
    messages = capsys.readouterr().err
    assert "watch --probe INVENTORY is now watch -i INVENTORY. The old spelling works" in messages
    assert "[CL-106]" in messages


def test_watch_without_an_inventory_runs_on_this_machine() -> None:
    command = [sys.executable, "-m", "fullmesh", "watch", "--", "sh", "-c", "pwd; exit 9"]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        cwd="/tmp",  # noqa: S108 (any directory that is not the checkout)
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (9, "/tmp\n", "")  # noqa: S108


def test_diagnosis_during_a_job_ignores_the_job() -> None:
    listed = [{"code": code, "cause": "it listens", "fix": "x"} for code in ("DG-130", "DG-113")]
    assert watch_cli.list_diagnosis_causes(json.dumps({"findings": listed})) == [
        "[DG-113] it listens. x"
    ]
    assert "ended without a result" in watch_cli.list_diagnosis_causes("no json")[0]


def test_the_role_installs_all_modules() -> None:
    text = (ROOT / "roles/launchers/vars/main.yml").read_text()
    for name in watch_remote.MODULES:
        assert name in text
