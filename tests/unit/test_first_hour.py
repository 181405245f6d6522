"""A beginner's mistakes: each ends with a code and the next step (the table of docs/first-run.md)."""

from __future__ import annotations

import configparser
import contextlib
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import test_preflight

from devtools.lab import host
from devtools.lab.errors import LabError
from fullmesh import cli, settings
from fullmesh.model import plan
from fullmesh.roles import preflight
from fullmesh.settings import ROOT

# Messages of ssh and sudo, as Ansible reports them.
SSH = "Task failed: Failed to connect to the host via ssh: "
OFF = SSH + "ssh: connect to host 203.0.113.9 port 22: No route to host"
KEY = SSH + "No ED25519 host key is known for 203.0.113.9 and you have requested strict checking."
REFUSED = SSH + "ann@203.0.113.9: Permission denied (publickey)."
NAME = SSH + "ssh: Could not resolve hostname el1: Name or service not known"
SUDO = "Task failed: Missing sudo password"
FULL = "Failed to create temporary directory. Failed command was: mkdir, exited with result 1: No space left on device"
PYTHON = "Task failed: The module interpreter '/usr/bin/python3' was not found."


def explain_unreachable(message: str) -> list[str]:
    """Return the explanation of such an answer."""
    away = {"unreachable": True, "msg": message}
    reach = {"ansible_host": "203.0.113.9", "ansible_user": "ann"}
    return preflight.judge_preflight(
        test_preflight.PLAN, {"el1": {"__preflight": away, **reach}}, ["el1"], {"now": 0}
    )["faults"]


def fail_survey(message: str) -> list[str]:
    return test_preflight.with_failed(failed=True, msg=message)


def explain_name(name: str) -> list[str]:
    """Return the explanation of a host's name in the inventory."""
    variables = {"fullmesh_address": "10.0.0.1/24", "ansible_host": "a", "my_own": 1, name: 1}
    return [
        str(one)
        for one in settings.find_setting_faults("a", variables, settings.load_setting_names())
    ]


ROWS: list[tuple[Callable[[], list[str]], str, str]] = [
    (lambda: explain_name("fullmesh_mastr_port"), "PL-101", "Did you mean fullmesh_master_port"),
    (lambda: explain_name("fulmesh_address"), "PL-134", "Did you mean fullmesh_address"),
    (lambda: explain_name("fulmesh_adres"), "PL-134", "Did you mean fullmesh_address"),
    (lambda: explain_name("selinux_mdoe"), "PL-134", "Did you mean selinux_mode"),
    (lambda: explain_unreachable(KEY), "PR-101", "ssh-keyscan -t ed25519 203.0.113.9"),
    (lambda: explain_unreachable(REFUSED), "PR-101", "ssh-copy-id ann@203.0.113.9"),
    (lambda: explain_unreachable(OFF), "PR-101", "ssh ann@203.0.113.9"),
    (lambda: explain_unreachable(NAME), "PR-101", "ansible_host"),
    (lambda: fail_survey(SUDO), "PR-102", "Give the password with -K"),
    (lambda: fail_survey(PYTHON), "PR-102", "Install python3 on it"),
    (lambda: fail_survey(FULL), "PR-102", "Free some space. See its use: df -h"),
    (lambda: test_preflight.run(test_preflight.old_python), "PR-113", "ansible_python_interpreter"),
    (lambda: test_preflight.run(test_preflight.full_disk), "PR-109", "Make room there"),
    (
        lambda: [str(one) for one in plan.find_controller_faults("2.12.1")],
        "PL-121",
        "pip install -r requirements.txt",
    ),
]


@pytest.mark.parametrize(
    ("said", "code", "step"), ROWS, ids=[f"{row[1]}-{row[2][:20]}" for row in ROWS]
)
def test_a_mistake_is_one_sentence_with_its_next_step(
    said: Callable[[], list[str]], code: str, step: str
) -> None:
    (sentence,) = said()
    assert sentence.startswith(f"[{code}] ")
    assert step in sentence
    assert f"[{code}]" in (ROOT / "docs/first-run.md").read_text()


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Open a port of this machine that does not answer, like a node that is off: its queue is full."""
    with contextlib.ExitStack() as kept:
        listener = kept.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            waiting = kept.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def seconds_of_ssh() -> int:
    """How long a connection may take, by ansible.cfg."""
    found = configparser.ConfigParser(interpolation=None)
    found.read(ROOT / "ansible.cfg")
    return found.getint("defaults", "timeout")


def test_the_table_states_the_delay_of_an_unreachable_node() -> None:
    table = (ROOT / "docs/first-run.md").read_text()
    assert f"| [PR-101], after {seconds_of_ssh()} seconds |" in table


@pytest.mark.rest
def test_a_node_that_is_off_takes_no_longer(tmp_path: Path, silent_port: int) -> None:
    """Two nodes at once take no longer than one; the rest is Ansible's own start."""
    node = {"ansible_host": "127.0.0.1", "ansible_port": silent_port, "ansible_user": "root"}
    hosts = {f"n{at}": {**node, "fullmesh_address": f"192.0.2.{at}/24"} for at in (1, 2)}
    (tmp_path / "hosts.yml").write_text(json.dumps({"torch_nodes": {"hosts": hosts}}))
    begun = time.monotonic()
    done = subprocess.run(
        ["ansible-playbook", "playbooks/verify.yml", "-i", tmp_path / "hosts.yml"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    took = time.monotonic() - begun
    assert "[PR-101] Cannot reach 2 of 2 nodes" in done.stdout
    assert "timed out" in done.stdout
    assert seconds_of_ssh() <= took < seconds_of_ssh() + 25


@pytest.mark.parametrize(
    "name",
    [
        "my_own",
        "full_address",
        "fullname",
        "mesh_address",
        "selinux_modules",
        "ansible_host",
    ],
)
def test_names_of_others_are_unchanged(name: str) -> None:
    assert explain_name(name) == []


@pytest.mark.parametrize(
    ("first", "second", "near"),
    [
        ("abc", "abc", False),
        ("abc", "ab", True),
        ("abc", "abcd", True),
        ("abc", "axc", True),
        ("abc", "acb", True),
        ("abc", "cba", False),
        ("abcd", "ab", False),
        ("aab", "ab", True),
    ],
)
def test_one_letter(first: str, second: str, near: bool) -> None:
    assert settings.is_one_edit(first, second) is near
    assert settings.is_one_edit(second, first) is near


def test_a_group_of_another_name(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "hosts.yml").write_text(
        "gpu_nodes:\n  hosts: {a: {fullmesh_address: 192.0.2.1/24}}\n"
    )
    assert cli.main(["plan", "--offline", "-i", str(tmp_path)]) == cli.PROBLEM
    told = " ".join(capfd.readouterr().out.split())
    assert (
        "[PL-100] The inventory has no hosts in group torch_nodes (groups with hosts: gpu_nodes)."
        in told
    )
    assert "./fullmesh init" in told


def test_the_lab_on_another_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(LabError, match=r"\[LB-120\].*this is darwin"):
        host.require_root()


def test_a_controller_without_flock_and_sha256sum(tmp_path: Path) -> None:
    """macOS has neither; the environment is made all the same, once."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "env", "dirname", "cat", "cut", "mkdir", "chmod", "cp"):
        found = next(
            Path(place, name) for place in ("/usr/bin", "/bin") if Path(place, name).exists()
        )
        (tools / name).symlink_to(found)
    made = tmp_path / "made"
    python = (
        f'#!/bin/bash\ncase "$*" in "-m venv "*) mkdir -p {tmp_path}/venv/bin; cp "$0" {tmp_path}/venv/bin/python;'
        f' echo x >> {made};; "-m fullmesh "*) echo "hello";; esac\n'
    )
    for name, text in (
        ("python3.11", python),
        ("shasum", "#!/bin/bash\ncat > /dev/null; echo 0123456789abcdef0123  -\n"),
    ):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    for _ in range(2):
        done = subprocess.run(
            [str(ROOT / "fullmesh"), "--version"],
            env={"PATH": str(tools), "FULLMESH_VENV": str(tmp_path / "venv")},
            check=False,
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
    assert made.read_text() == "x\n"


def test_ipv6_only_is_a_cluster() -> None:
    nodes: dict[str, dict[str, Any]] = {
        f"n{at}": {"fullmesh_address": f"2001:db8::{at}/64"} for at in (1, 2)
    }
    assert plan.derive_plan(nodes)["family"] == "ipv6"


def test_every_code_of_the_table_is_one() -> None:
    from fullmesh import codes  # noqa: PLC0415 (only here)

    table = (ROOT / "docs/first-run.md").read_text().partition("## When it does not start")[2]
    found = set(re.findall(r"\[([A-Z]{2}-\d{3})\]", table))
    assert found
    assert found <= codes.collect_codes().keys()
