"""How each node is reached: Ansible decides it, from an inventory with every kind of connection."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import test_preflight

from fullmesh.ask import ways
from fullmesh.play import asked
from fullmesh.settings import ROOT

# Stands in for ssh: it writes its arguments into a file and runs the last one, the command, here.
SSH = """#!/bin/sh
for last; do :; done
printf '%s\\n' "$*" | head -n 1 >> "{log}"
exec /bin/sh -c "$last"
"""
# Stands in for sudo: it reports its call in one write, because several run at once, and runs its
# command.
SUDO = """#!/bin/sh
printf 'sudo %.40s\\n' "$*" >> "{log}"
while [ "$1" != /bin/sh ]; do shift; done
exec "$@"
"""
# Stores the results for the test.
KEEP = """
    - ansible.builtin.copy:
        content: "{{ said | to_json }}"
        dest: "{{ to }}"
        mode: "0600"
      changed_when: false
      check_mode: false
      delegate_to: localhost
      connection: local
      become: false
      run_once: true
"""
PLAY = """
- hosts: all
  gather_facts: false
  become: true
  tasks:
    - ask_nodes:
        question: node_facts
        common: {venv: /opt/x/venv}
        each: {digest: {}}
        seconds: 30
        folder: "{{ to }}.programs"
      register: said
      run_once: true
      no_log: NO_LOG
"""
HOSTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "other": {"ansible_user": "ann", "ansible_port": 2222},
    "root": {"ansible_user": "root"},
    "jump": {"ansible_ssh_common_args": "-o ProxyJump=bastion.example"},
    "own": {"ansible_ssh_extra_args": "-o ControlPath=%d/cm-%C"},
    "here": {"ansible_connection": "local"},
    "typed": {"ansible_become_password": "secret-of-sudo"},
    "password": {"ansible_password": "secret-of-ssh"},
    "su": {"ansible_become_method": "su"},
    "windows": {"ansible_shell_type": "powershell"},
}


class Run:
    """A run of ansible-playbook on these hosts, and its results."""

    def __init__(
        self,
        folder: Path,
        no_log: bool = False,
        *options: str,
        play: str = PLAY,
        hosts: dict[str, dict[str, Any]] = HOSTS,
    ) -> None:
        tools = folder / "tools"
        tools.mkdir()
        self.log = folder / "started"
        for name, text in (("ssh", SSH), ("sudo", SUDO)):
            (tools / name).write_text(text.replace("{log}", str(self.log)))
            (tools / name).chmod(0o755)
        common = {
            "ansible_ssh_executable": str(tools / "ssh"),
            "ansible_become_exe": str(tools / "sudo"),
            "ansible_control_path_dir": str(folder / "cp"),
            "ansible_python_interpreter": sys.executable,
        }
        inventory = {"all": {"hosts": hosts, "vars": common}}
        (folder / "hosts.json").write_text(json.dumps(inventory))
        (folder / "play.yml").write_text((play.rstrip() + KEEP).replace("NO_LOG", str(no_log)))
        env = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
        env |= {"FULLMESH_EVENTS": str(folder / "events.jsonl")}
        answer_file = folder / "said.json"
        done = subprocess.run(
            [
                str(Path(sys.executable).with_name("ansible-playbook")),
                *("-i", str(folder / "hosts.json"), "-e", f"to={answer_file}", *options),
                str(folder / "play.yml"),
            ],
            cwd=ROOT,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        self.out = done.stdout + done.stderr
        assert done.returncode == 0, self.out
        self.said: dict[str, Any] = json.loads(answer_file.read_text())
        self.started = self.log.read_text().splitlines()
        lines = (folder / "events.jsonl").read_text().splitlines()
        self.events: list[dict[str, Any]] = [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(tmp_path_factory.mktemp("ways"))


def command(run: Run, host: str) -> str:
    """Return the command that was started for a host."""
    found = [line for line in run.started if re.search(rf" -T {host} ", line)]
    assert len(found) == 1, run.started
    return found[0]


def test_every_reachable_node_has_answered(run: Run) -> None:
    answers = run.said["answers"]
    assert sorted(answers) == ["here", "jump", "other", "own", "plain", "root"]
    for said in answers.values():
        assert said["ansible_facts"]["fullmesh"]["venv"] == "/opt/x/venv"
        assert said["changed"] is False


def test_the_connection_settings_of_a_host_are_in_its_command(run: Run) -> None:
    assert 'User="ann"' in command(run, "other")
    assert "Port=2222" in command(run, "other")
    assert "ProxyJump=bastion.example" in command(run, "jump")
    for host in ("plain", "other"):
        assert "ControlMaster=auto -o ControlPersist=120s" in command(run, host)
        assert "PasswordAuthentication=no" in command(run, host)
        assert "ConnectTimeout=15" in command(run, host)


def test_the_controller_itself_is_queried_without_ssh(run: Run) -> None:
    assert not [line for line in run.started if " -T here " in line]
    assert "here" not in run.said["ordinary"]


def test_each_host_has_a_connection_of_its_own(run: Run) -> None:
    """If two hosts had the same path, one would answer for the other."""
    paths = [
        found[1]
        for host in ("plain", "other", "root", "jump")
        if (found := re.search(r'ControlPath="(\S+)"', command(run, host)))
    ]
    assert len(set(paths)) == 4


def test_root_needs_no_sudo_and_others_use_it(run: Run) -> None:
    assert len([line for line in run.started if line.startswith("sudo ")]) == 4
    assert "BECOME-SUCCESS" in command(run, "plain")
    assert "BECOME-SUCCESS" not in command(run, "root")


def test_hosts_that_cannot_be_queried_together_are_named_once(run: Run) -> None:
    assert run.said["ordinary"] == {
        "typed": "it becomes root with a password",
        "password": "ssh logs in with a password",
        "su": "it becomes root by su",
        "windows": "its shell is powershell",
    }
    flat = " ".join(run.out.split())
    for host in run.said["ordinary"]:
        assert flat.count(f"[AK-106] {host}: queried one by one") == 1


LADDER = """
- hosts: all
  gather_facts: false
  become: true
  tasks:
    - ask_nodes:
        question: ladder_links
        common: {seconds: "0.4", as_job: false}
        each: {node: {NODES}, targets: {plain: [TARGET], here: [TARGET], su: [TARGET], localhost: [TARGET]}}
        secret: {token: secret-of-the-run}
        hosts: [plain, other, here, typed, su, localhost]
        as_login: [other, localhost]
        or_login: true
        one_by_one: true
        folder: ""
      register: said
      run_once: true
""".replace(
    "NODES",
    ", ".join(f"{h}: {h}" for h in ("plain", "other", "here", "typed", "su", "localhost")),
).replace("TARGET", "{node: peer, address: 127.0.0.1, port: 9, kind: sample}")


@pytest.fixture(scope="module")
def ladder(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(tmp_path_factory.mktemp("ladder"), play=LADDER)


def test_hosts_that_cannot_be_queried_together_run_their_module(ladder: Run) -> None:
    answers = ladder.said["answers"]
    assert sorted(answers) == ["here", "localhost", "other", "plain", "su", "typed"]
    assert set(ladder.said["ordinary"]) == {"typed", "su"}
    for host in ("plain", "here", "localhost"):
        (link,) = answers[host]["links"]
        assert (link["node"], link["port"], link["verdict"]) == ("peer", 9, "refused")
        assert answers[host]["changed"] is False
    for host in ("other", "typed"):
        assert answers[host]["links"] == []


def test_a_login_user_query_does_not_change_the_account(ladder: Run) -> None:
    assert "BECOME-SUCCESS" in command(ladder, "plain")
    assert "BECOME-SUCCESS" not in command(ladder, "other")


def test_a_user_without_sudo_is_queried_as_the_login_account(ladder: Run) -> None:
    """The simulated su fails, so the answer came without it."""
    assert ladder.said["answers"]["su"]["links"][0]["verdict"] == "refused"


def test_a_hanging_module_delays_no_other_node(tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nsleep 300\n")
    slow.chmod(0o755)
    play = LADDER.replace('folder: ""', 'folder: ""\n        seconds: 12')
    hosts = {**HOSTS, "typed": {**HOSTS["typed"], "ansible_python_interpreter": str(slow)}}
    hung = Run(tmp_path, play=play, hosts=hosts)
    said = hung.said["answers"]["typed"]
    assert said["unreachable"] is True
    assert said["msg"].startswith("[AK-101] No answer within 12 s")
    assert "ansible typed -m raw -a uptime" in said["msg"]
    assert hung.said["answers"]["plain"]["links"][0]["verdict"] == "refused"


def test_the_secret_of_the_run_is_reported_nowhere(ladder: Run) -> None:
    everything = ladder.out + json.dumps(ladder.said) + json.dumps(ladder.events)
    assert "secret-of" not in everything


def test_an_invalid_question_is_refused_before_it_is_sent(
    tmp_path: Path,
) -> None:
    with pytest.raises(AssertionError, match=r"ladder_links for plain: .*seconds"):
        Run(tmp_path, play=LADDER.replace('"0.4"', "soon"))


def test_no_secret_is_reported(run: Run) -> None:
    everything = run.out + json.dumps(run.said) + json.dumps(run.events) + "".join(run.started)
    assert "secret-of" not in everything


def test_each_hosts_answer_is_shown_and_counted(run: Run) -> None:
    answered = ["jump", "other", "own", "plain", "root"]
    for host in answered:
        assert f"ok: [{host}]" in run.out
        assert re.search(rf"^{host}\s+: ok=[12]\s+changed=0 ", run.out, re.MULTILINE)
    reported = [one["host"] for one in run.events if one["event"] == "answer"]
    assert set(answered) <= set(reported)
    (end,) = (one for one in run.events if one["event"] == "end")
    assert set(answered) <= end["hosts"].keys()


def test_no_log_covers_every_answer(tmp_path: Path) -> None:
    hidden = Run(tmp_path, True, "--check", "-vvv")
    assert "/opt/x/venv" not in hidden.out + json.dumps(hidden.events)


def test_limit_excludes_the_other_hosts(tmp_path: Path) -> None:
    few = Run(tmp_path, False, "--limit", "plain,root")
    assert sorted(few.said["answers"]) == ["plain", "root"]
    assert few.said["ordinary"] == {}


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["ssh", "-o", 'ControlPath="/a b/c"', "h"], "/a b/c"),
        (["ssh", "-o", "ControlPath=/a/c", "-o", "ControlPath=/later", "h"], "/a/c"),
        (["ssh", "-o", "ControlPath=/a/%C", "h"], "None"),
        (["ssh", "-o", "ControlPath=none", "h"], "None"),
        (["ssh", "-S", "/a/c", "h"], "None"),
        (["ssh", "h"], "None"),
    ],
)
def test_the_path_of_the_kept_connections_socket(argv: list[str], expected: str) -> None:
    assert str(ways.find_control_path(argv)) == expected


class Stats:
    """The parts of Ansible's counters that are used."""

    def __init__(self) -> None:
        self.counted: list[tuple[str, str]] = []

    def increment(self, what: str, host: str) -> None:
        self.counted.append((what, host))


def test_no_node_is_counted_twice_by_any_display() -> None:
    count, stats = asked.QueriedHostCount(), Stats()
    outcome = {"answers": {"a": {}, "b": {}, "c": {"unreachable": True}}, "ordinary": {"d": "why"}}
    count.add("task", "a", outcome)
    count.add("task", "a", outcome)
    count.complete(stats)
    count.add("task", "a", outcome)
    count.complete(stats)
    assert sorted(stats.counted) == [("ignored", "c"), ("ok", "b"), ("ok", "c")]


def test_a_no_log_task_reports_nothing() -> None:
    assert asked.read_host_statuses({"censored": "the output has been hidden"}) == {}


TOLD = """
- hosts: all
  gather_facts: false
  connection: local
  tasks:
    - ansible.builtin.set_fact: {__preflight_asked: {answers: {el1: "{{ el1 }}", ubuntu1: {unreachable: true}}}}
    - name: As node_facts does, which found it elsewhere
      node_answer: {answer: "{{ ubuntu1 }}"}
      when: inventory_hostname == 'ubuntu1'
    - ansible.builtin.set_fact: {__preflight: "{{ ubuntu1 }}"}
      when: inventory_hostname == 'ubuntu1'
    - ansible.builtin.include_role: {name: preflight, tasks_from: set_facts}
    - ansible.builtin.debug:
        msg: >-
          {{ inventory_hostname }} is {{ ansible_facts['nodename'] }} with {{ __preflight['drift'] | join }}
          on {{ fullmesh_node['interface'] }} and {{ fullmesh_notes | length }} notes
"""


def test_each_node_gets_its_own_answer_on_any_path(tmp_path: Path) -> None:
    answers = {host: test_preflight.load_answer(host) for host in ("el1", "ubuntu1")}
    for host, said in answers.items():
        said["drift"] = [f"file of {host}"]
    given = {"fullmesh_plan": test_preflight.PLAN, **answers}
    (tmp_path / "given.json").write_text(json.dumps(given))
    (tmp_path / "play.yml").write_text(TOLD)
    done = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-playbook")), "-i", "el1,ubuntu1,",
         "-e", f"@{tmp_path / 'given.json'}", str(tmp_path / "play.yml")],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    for host in answers:
        name = answers[host]["ansible_facts"]["nodename"]
        assert f"{host} is {name} with file of {host} on eth1 and 0 notes" in said
