"""All nodes asked at once, against OpenSSH's own client and servers: hosts of benchmarks/fleet, each wrong in its way.

As root on Debian or Ubuntu; takes half a minute. What each refusal says is held by tests/unit/ask.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fullmesh.settings import ROOT

pytestmark = pytest.mark.rest
FLEET = [sys.executable, str(ROOT / "benchmarks/fleet/fleet.py")]
INVENTORY = "/run/fullmesh-fleet/inventory"
SECONDS = 8
WELL, HANGS, TALKS, USER, FULL, BARE, CUTS, SLOW = (f"node{number:03}" for number in range(1, 9))
PLAY = """
- hosts: torch_nodes
  gather_facts: false
  become: true
  tasks:
    - ask_nodes:
        question: node_facts
        common: {venv: /opt/fullmesh/venv}
        each: {digest: {}}
        seconds: SECONDS
      register: said
      run_once: true
    - ansible.builtin.copy:
        content: "{{ said | to_json }}"
        dest: "{{ to }}"
        mode: "0600"
      delegate_to: localhost
      connection: local
      become: false
      run_once: true
"""
# host -> what is done to it
DONE = {
    TALKS: "echo 'echo Welcome to this machine' > /var/root/.bashrc; echo 'echo from sshrc' > /etc/ssh/sshrc",
    USER: "echo ann:x:1500:1500::/tmp:/bin/sh >> /etc/passwd",
    FULL: "mkdir -p /run/fullmesh && mount -t tmpfs -o size=4k tmpfs /run/fullmesh",
    CUTS: "printf '#!/bin/sh\\nkill -9 $PPID\\n' > /opt/cut; chmod 755 /opt/cut",
    SLOW: "printf '#!/bin/sh\\nsleep 3\\nexec /usr/bin/python3 \"$@\"\\n' > /opt/slow; chmod 755 /opt/slow",
}
VARIABLES = {
    USER: {"ansible_user": "ann"},
    BARE: {"ansible_python_interpreter": "/opt/python3.99"},
    CUTS: {"ansible_python_interpreter": "/opt/cut"},
    SLOW: {"ansible_python_interpreter": "/opt/slow"},
}


def call(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def fleet() -> Iterator[None]:
    if os.geteuid():
        pytest.skip("namespaces need root")
    call(*FLEET, "up", "8")
    try:
        for host, script in DONE.items():
            call(*FLEET, "on", host, "--", "sh", "-c", script)
        # its kernel takes connections, and nobody serves them; processes are one list for the whole machine, so by
        # the namespace and not by their name
        call("sh", "-c", f"kill -STOP $(ip netns pids fmfleet-{HANGS})")
        yield
    finally:
        call(*FLEET, "down")


def play(folder: Path, *more: str) -> tuple[dict[str, Any], str]:
    """What all of them said, and what Ansible printed."""
    folder.mkdir(exist_ok=True)
    (folder / "play.yml").write_text(PLAY.replace("SECONDS", str(SECONDS)))
    hosts = {"torch_nodes": {"hosts": {host: VARIABLES.get(host, {}) for host in VARIABLES}}}
    (folder / "more.json").write_text(json.dumps(hosts))
    told = folder / "said.json"
    env = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    env["ANSIBLE_SSH_CONTROL_PATH_DIR"] = str(folder / "cp")
    playbook = Path(sys.executable).with_name("ansible-playbook")
    done = subprocess.run(
        [*FLEET, "run", "--", str(playbook), "-i", INVENTORY, "-i", str(folder / "more.json"),
         "-e", f"to={told}", str(folder / "play.yml"), *more],
        cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert told.exists(), done.stdout + done.stderr
    return json.loads(told.read_text()), done.stdout + done.stderr


@pytest.mark.usefixtures("fleet")
def test_each_is_named_in_time_and_the_others_answer(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("f")
    begun = time.monotonic()
    said, out = play(folder)
    assert time.monotonic() - begun < SECONDS + 20
    answers = said["answers"]
    assert said["ordinary"] == {}
    answered = {host for host, one in answers.items() if "ansible_facts" in one}
    assert answered == {WELL, TALKS, FULL, SLOW}
    for host in answered:
        assert answers[host]["ansible_facts"]["nodename"] == host
    assert answers[HANGS]["msg"].startswith(f"[AK-101] No answer within {SECONDS} s")
    assert answers[CUTS]["msg"].startswith("[AK-102] The connection was lost before")
    assert answers[USER]["failed"] is True
    assert "sudo" in answers[USER]["msg"]
    assert "/opt/python3.99" in answers[BARE]["msg"]
    assert f"[AK-105] {FULL}: the program was not cached" in " ".join(out.split())

    # now over what ssh keeps, without ssh
    again, _ = play(folder, "--limit", WELL, "-e", "ansible_ssh_executable=/bin/false")
    assert again["answers"][WELL]["ansible_facts"]["nodename"] == WELL
    kept = call(*FLEET, "on", WELL, "--", "stat", "-c", "%a %U", "/run/fullmesh/ask")
    assert kept.split() == ["700", "root"]
