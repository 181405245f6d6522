"""A run as users see it: the events of a real ansible-playbook, their display, and its end."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import pty
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from rich.console import Console

from fullmesh import contract
from fullmesh.play import events, foresight, lines, options, phases, run, views
from fullmesh.play.live import TerminalView
from fullmesh.play.progress import RunPhase, RunProgress, TaskChange
from fullmesh.settings import ROOT
from fullmesh.verbs import playbook

PLAY = """
- name: Configure the network
  hosts: nodes
  gather_facts: false
  any_errors_fatal: false
  tasks:
    - name: stem | Write a file
      ansible.builtin.copy: {content: new, dest: "{{ place }}/{{ inventory_hostname }}", mode: "0600"}
    - name: Try
      block:
        - name: Fail and be caught
          ansible.builtin.fail: {msg: "[XX-101] caught"}
      rescue:
        - name: Say so
          ansible.builtin.debug: {msg: "[XX-102] kept beside"}
    - name: Hold, and say what is odd
      ansible.builtin.assert: {that: true, success_msg: ["[XX-106] idle"], quiet: false}
    - name: Hold in silence
      ansible.builtin.assert: {that: true, success_msg: [], quiet: true}
    - name: Nobody minds
      ansible.builtin.command: "false"
      ignore_errors: true
      changed_when: false
- name: Configure the firewall
  hosts: nodes
  gather_facts: false
  any_errors_fatal: false
  tasks:
    - name: Ask for two
      ansible.builtin.assert: {that: item == 1, fail_msg: "[XX-103] {{ item }} is wrong. Set 1.", quiet: true}
      loop: [1, 2, 3]
      when: inventory_hostname == 'b'
    - name: Try
      block:
        - name: Fail
          ansible.builtin.command: sh -c 'echo words >&2; exit 3'
          changed_when: false
      rescue:
        - name: Fail again
          ansible.builtin.fail: {msg: "[XX-104] not repaired. Look."}
"""
INVENTORY = """
nodes:
  hosts: {a: , b: }
  vars: {ansible_connection: local, ansible_python_interpreter: PYTHON, place: PLACE}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a playbook with every kind of event, and its inventory."""
    path = tmp_path_factory.mktemp("play")
    (path / "hosts.yml").write_text(
        INVENTORY.replace("PLACE", str(path)).replace("PYTHON", sys.executable)
    )
    (path / "play.yml").write_text(PLAY)
    return path


def command(folder: Path, *more: str, playbook: str = "play.yml") -> list[str]:
    return ["ansible-playbook", str(folder / playbook), "-i", str(folder / "hosts.yml"), *more]


@pytest.fixture(scope="module")
def ran(folder: Path) -> tuple[run.RunOutcome, views.PlainView, str]:
    """Run it once with a plain view."""
    shown = views.PlainView(io.StringIO())
    outcome = run.run_with_view(command(folder), shown, folder / "runs/first")
    return outcome, shown, cast("io.StringIO", shown.stream).getvalue()


def read_events(folder: Path, name: str = "first") -> list[dict[str, Any]]:
    text = (folder / "runs" / name / run.EVENTS).read_text()
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("name", [run.LOG, run.EVENTS])
def test_stored_files_of_a_run_are_private_to_the_operator(
    ran: object, folder: Path, name: str
) -> None:
    """They have diffs of files that only root may read on the nodes."""
    del ran
    assert stat.S_IMODE((folder / "runs/first" / name).stat().st_mode) == 0o600


def test_every_event_matches_its_type(ran: object, folder: Path) -> None:
    del ran
    found = read_events(folder)
    assert {one["event"] for one in found} == events.KINDS.keys() - {"result"}
    for one in found:
        assert contract.convert_value(events.KINDS[one["event"]], one) == one


def test_the_log_contains_ansible_output_and_the_view_does_not(
    ran: tuple[run.RunOutcome, views.PlainView, str],
) -> None:
    outcome, _shown, text = ran
    assert outcome.code == 2
    assert outcome.in_time
    log = outcome.log.read_text()
    assert "PLAY RECAP" in log
    assert "PLAY RECAP" not in text
    assert "TASK [stem | Write a file]" in log


def test_phases_and_failures_are_shown_in_full(
    ran: tuple[run.RunOutcome, views.PlainView, str],
) -> None:
    _outcome, shown, text = ran
    told = text.splitlines()
    assert [
        line
        for line in told
        if line.startswith("ok     network") and "2 changes on 2 nodes" in line
    ]
    assert [line for line in told if line.startswith("FAILED firewall") and "failed on " in line]
    assert [line for line in told if line.startswith("note")] == [
        "note   a, b: [XX-102] kept beside",
        "note   a, b: [XX-106] idle",
    ]
    at = told.index("FAILED on b, in firewall: Ask for two")
    assert told[at + 1 : at + 3] == [
        "  [XX-103] 2 is wrong. Set 1.",
        "  [XX-103] 3 is wrong. Set 1.",
    ]
    # an error that a block caught without a repair, with the text of its first cause
    at = told.index("FAILED on a, in firewall: Fail")
    assert told[at + 1 : at + 3] == ["  non-zero return code", "  words"]
    assert "  [XX-104] not repaired. Look." in told
    # caught, and the run continued
    assert "XX-101" not in text
    assert "Nobody minds" not in text
    assert shown.progress.changed() == {"a": 1, "b": 1}
    assert {change.what[0].rpartition("/")[2] for change in shown.progress.changes} == {"a", "b"}
    assert lines.describe_run_changes(shown.progress) == "changed: a 1, b 1"


SMALL = """
- name: Configure the network
  hosts: a
  gather_facts: false
  tasks:
    - name: Write a file
      ansible.builtin.copy: {content: other, dest: "{{ place }}/small", mode: "0600"}
    - name: Refuse
      ansible.builtin.fail: {msg: "[XX-105] no. Do."}
      when: not ansible_check_mode
"""


def test_an_error_of_ansible_itself_is_shown(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "broken.yml").write_text("- hosts: nodes\n  tasks: [{no_such_action: }]\n")
    monkeypatch.setattr(playbook, "RUNS", folder / "runs")
    args = argparse.Namespace(verbose=False, progress=options.PLAIN, more=[])
    code = playbook.run_playbook_verb(str(folder / "broken.yml"), str(folder / "hosts.yml"), args)
    told = capsys.readouterr().err
    assert code == playbook.PROBLEM
    assert "couldn't resolve module/action 'no_such_action'" in told
    assert "ansible.log" in told


def test_programs_get_events_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "small.yml").write_text(SMALL)
    monkeypatch.setattr(playbook, "RUNS", folder / "runs")
    args = argparse.Namespace(verbose=False, progress=options.JSON, more=[])
    assert (
        playbook.run_playbook_verb(str(folder / "small.yml"), str(folder / "hosts.yml"), args)
        == playbook.PROBLEM
    )
    said = capsys.readouterr()
    assert said.err == ""
    found = [json.loads(line) for line in said.out.splitlines()]
    assert [one["event"] for one in (found[0], found[-1])] == ["began", "exit"]
    assert (found[-1]["code"], found[-1]["result"]) == (1, "")
    assert Path(found[-1]["log"]).is_file()


def test_apply_lists_the_nodes_that_it_changes_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "small.yml").write_text(SMALL)
    monkeypatch.setattr(playbook, "RUNS", folder / "runs")
    place, hosts = str(folder / "small.yml"), str(folder / "hosts.yml")
    for more, raw in ((["--limit=a"], False), (["--limit=a", "-v"], True)):
        args = argparse.Namespace(verbose=False, progress=options.PLAIN, more=more)
        playbook.run_playbook_verb(place, hosts, args, preview="plan")
        said = capsys.readouterr().err.splitlines()
        # on a slow machine a progress line comes first
        first = next(line for line in said if not line.startswith("  …"))
        assert first.startswith("apply may change 1 node: a. To preview: ./fullmesh plan -i "), raw
        assert first.endswith("hosts.yml --limit=a")
    for more in (["--check"], ["--list-hosts"]):
        args = argparse.Namespace(verbose=False, progress=options.PLAIN, more=more)
        playbook.run_playbook_verb(place, hosts, args, preview="plan")
        assert "To preview" not in capsys.readouterr().err


# Asks for the password as sudo does, and compares it.
SUDO = """#!/bin/sh
while [ "$1" != -p ]; do shift; done
printf '%s' "$2" >&2
read -r word
[ "$word" = "it is secret" ] || exit 1
while [ "$1" != -u ]; do shift; done
shift 2
exec "$@"
"""
BECOMES = """
- name: Configure the network
  hosts: a
  gather_facts: false
  become: true
  vars: {ansible_become_exe: SUDO, ansible_pipelining: false}
  tasks:
    - name: Answer as another
      ansible.builtin.ping:
    - name: Say so
      ansible.builtin.debug: {msg: "[XX-107] root answers"}
"""
ON_TERMINAL = """
import sys
from pathlib import Path
from fullmesh.play import run
shown = run.choose_view(sys.argv[1])
run.run_with_view(sys.argv[3:], shown, Path(sys.argv[2]))
"""


@pytest.mark.parametrize("progress", [options.AUTO, options.PLAIN])
def test_a_password_is_asked_for_before_the_view_begins(
    progress: str, folder: Path, tmp_path: Path
) -> None:
    sudo = tmp_path / "sudo"
    sudo.write_text(SUDO)
    sudo.chmod(0o755)
    (folder / "becomes.yml").write_text(BECOMES.replace("SUDO", str(sudo)))
    typed = [sys.executable, "-c", ON_TERMINAL, progress, str(tmp_path / "run")]
    typed += command(folder, "--ask-become-pass", playbook="becomes.yml")
    pid, terminal = pty.fork()
    if not pid:  # the child's controlling terminal, which asks for the password
        os.environ.update(PYTHONPATH=str(ROOT / "src"), TERM="xterm")
        os.execv(sys.executable, typed)  # noqa: S606 (this Python, on its own terminal)
    seen, answered = b"", False
    with contextlib.suppress(OSError):  # the child's end of the terminal is closed
        while found := os.read(terminal, 4096):
            seen += found
            if not answered and b"BECOME password: " in seen:
                assert seen == b"BECOME password: "
                os.write(terminal, b"it is secret\n")
                answered = True
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert answered
    assert b"[XX-107] root answers" in seen
    assert b"it is secret" not in seen
    assert "it is secret" not in (tmp_path / "run" / run.LOG).read_text()


@pytest.mark.parametrize(
    ("words", "asks"),
    [
        (["-K"], True),
        (["-bK"], True),
        (["-kK"], True),
        (["--ask-pass"], True),
        (["--ask-vault-pass"], True),
        (["-e", "x=-K"], False),
        (["--become"], False),
        (["-k8s"], False),
    ],
)
def test_options_that_ask_for_a_password_are_found(words: list[str], asks: bool) -> None:
    assert options.needs_password(["ansible-playbook", *words]) is asks


SLEEPS = """
- name: Configure the network
  hosts: nodes
  gather_facts: false
  tasks:
    - name: Take long
      ansible.builtin.command: sleep 300
      changed_when: false
"""
# A shell lets its background processes ignore Ctrl-C, and children inherit that (POSIX, 2.11).
DRIVER = """
import io, signal, sys
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)
from fullmesh.play import run, views
views.SILENCE_SECONDS = 0.3
run.run_with_view(sys.argv[2:], views.PlainView(sys.stderr), Path(sys.argv[1]))
"""


def list_processes_of(folder: Path) -> list[str]:
    """Return the command lines of all processes whose environment names a folder, in whatever session they are."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{folder}/{run.EVENTS}".encode() in (path / "environ").read_bytes():
                found.append((path / "cmdline").read_bytes().decode())
    return found


def has_run_ended(folder: Path) -> bool:
    """Return whether all processes of a run are gone. The kernel needs a moment to end a whole process group."""
    end = time.monotonic() + 10
    while list_processes_of(folder):
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def find_child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


@pytest.mark.parametrize(
    ("number", "target"),
    [
        ("SIGINT", "group"),
        pytest.param("SIGINT", "fullmesh", marks=pytest.mark.rest),
        ("SIGTERM", "fullmesh"),
        ("SIGHUP", "group"),
        ("SIGKILL", "ansible"),
    ],
)
def test_a_signal_ends_the_play_and_its_workers(
    folder: Path, tmp_path: Path, number: str, target: str
) -> None:
    (folder / "sleeps.yml").write_text(SLEEPS)
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(tmp_path), *command(folder, playbook="sleeps.yml")],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    told = []
    assert process.stderr is not None
    for line in process.stderr:
        told.append(line)
        if "Take long" in line and "waiting for a, b" in line:
            break
    begun = time.monotonic()
    wanted = getattr(signal, number)
    if target == "group":
        os.killpg(process.pid, wanted)
    else:
        os.kill(process.pid if target == "fullmesh" else find_child(process.pid), wanted)
    process.wait(timeout=60)
    rest = process.stderr.read()
    process.stderr.close()
    assert time.monotonic() - begun < 25
    assert (process.returncode != 0) == (
        target != "ansible"
    )  # the driver ignores Ansible's exit code
    assert "FAILED network" in rest
    assert has_run_ended(tmp_path)


def test_the_deadline_ends_a_play(folder: Path, tmp_path: Path) -> None:
    (folder / "sleeps.yml").write_text(SLEEPS)
    shown = views.PlainView(io.StringIO())
    outcome = run.run_with_view(
        command(folder, playbook="sleeps.yml"), shown, tmp_path, deadline=4.0
    )
    assert not outcome.in_time
    assert outcome.code != 0


def test_an_unknown_event_is_ignored() -> None:
    shown = views.PlainView(io.StringIO())
    for line in ('{"event": "new"}', "half a li", '{"event": "play", "play": 3}', "[]"):
        run.forward_event(shown, line)
    assert shown.progress.play == ""


def test_our_plays_have_a_name_for_people() -> None:
    found: set[str] = set()
    todo = [
        ROOT / name
        for name in (
            "site.yml",
            *(
                f"playbooks/{name}.yml"
                for name in ("verify", "undo", "diagnose", "show_plan", "first_look", "status")
            ),
        )
    ]
    while todo:
        path = todo.pop()
        for play in yaml.safe_load(path.read_text()):
            inner = play.get("ansible.builtin.import_playbook")
            if inner:
                todo.append(path.parent / inner)
            else:
                found.add(play["name"])
    assert found == phases.PHASES.keys() | phases.BY_ROLE


@pytest.mark.parametrize(
    ("words", "raw"),
    [
        ([], False),
        (["--", "--check"], False),
        (["--check", "--limit", "a"], False),
        (["--", "-vvv"], True),
        (["--diff"], True),
        (["--list-tasks"], True),
        (["-e", "x=-vim"], False),
    ],
)
def test_ansible_output_is_shown_on_request(words: list[str], raw: bool) -> None:
    assert options.needs_raw_output(argparse.Namespace(verbose=False, more=words)) is raw
    assert options.needs_raw_output(argparse.Namespace(verbose=True, more=words))


def test_without_a_terminal_there_is_no_motion(monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(run.choose_view(options.AUTO)) is views.PlainView
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert type(run.choose_view(options.AUTO)) is TerminalView
    assert type(run.choose_view(options.PLAIN)) is views.PlainView
    monkeypatch.setenv("TERM", "dumb")
    assert type(run.choose_view(options.AUTO)) is views.PlainView


def replay_events(found: list[dict[str, Any]], listener: TerminalView) -> RunProgress:
    for one in found:
        run.forward_event(listener, json.dumps(one))
    return listener.progress


def test_a_terminal_shows_each_node_and_many_are_counted(ran: object, folder: Path) -> None:
    del ran
    stream = io.StringIO()
    shown = TerminalView(Console(file=stream, force_terminal=True, width=80))
    found = read_events(folder)
    begun = next(at for at, one in enumerate(found) if one["event"] == "host")
    replay_events(found[: begun + 2], shown)
    with shown.console.capture() as seen:
        shown.console.print(shown.__rich__())
    drawn = seen.get()
    assert "network" in drawn
    assert "Write a file" in drawn
    assert drawn.count("working, ") == 2
    now = time.time()
    shown.progress.waiting = {f"n{at:02}": now for at in range(64)}
    with shown.console.capture() as seen:
        shown.console.print(shown.__rich__())
    assert "64 nodes" in seen.get() or "66 nodes" in seen.get()
    assert "n00, n01, n02, n03, n04 and 59 more" in seen.get()
    assert len(seen.get().splitlines()) < 4


def test_the_terminal_and_the_log_agree(
    ran: tuple[run.RunOutcome, views.PlainView, str], folder: Path
) -> None:
    _outcome, _shown, text = ran
    stream = io.StringIO()
    shown = TerminalView(Console(file=stream, force_terminal=False, width=80))
    replay_events(read_events(folder), shown)
    for line in text.splitlines():
        if line.startswith("  ["):
            assert line in stream.getvalue()


def test_planned_changes_are_a_table() -> None:
    changes = [
        TaskChange("b", "network", "static_ip", "apply | Write", ("/etc/one", "/etc/two")),
        TaskChange("a", "network", "static_ip", "apply | Write", ("/etc/one",)),
        TaskChange("a", "firewall", "peer_firewall", "install | Install", ()),
        TaskChange(
            "a", "launchers", "launchers", "Write", tuple(f"/opt/bin/{at}" for at in range(6))
        ),
        *(TaskChange(f"n{at}", "firewall", "", "Start", ("x.service",)) for at in range(6)),
    ]
    assert [re.split(r" {2,}", line) for line in foresight.render_change_table(changes, 8)] == [
        ["role", "what would change", "nodes"],
        ["static_ip", "/etc/one", "a, b"],
        ["", "/etc/two", "b"],
        ["peer_firewall", "Install", "a"],
        ["launchers", "/opt/bin/ (6 files)", "a"],
        ["firewall", "x.service", "n0, n1 and 4 more"],
    ]
    assert foresight.render_change_table(changes[4:], 6)[-1].endswith("all 6")
    assert foresight.render_change_table([], 2) == []


def test_a_plan_changes_nothing_and_shows_the_table(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "small.yml").write_text(SMALL)
    (folder / "small").unlink(missing_ok=True)
    monkeypatch.setattr(playbook, "RUNS", folder / "runs")
    args = argparse.Namespace(verbose=False, progress=options.PLAIN, more=[])
    code = playbook.preview_playbook(str(folder / "small.yml"), str(folder / "hosts.yml"), args, [])
    said = capsys.readouterr()
    assert code == playbook.OK
    assert re.search(rf"^network +{folder}/small +a$", said.out, re.MULTILINE)
    assert "would change: a 1" in said.err
    assert "would make 1 change on 1 node" in said.err
    assert not (folder / "small").exists()


def test_a_run_is_shown_as_one_document(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "small.yml").write_text(SMALL)
    (folder / "small").unlink(missing_ok=True)
    monkeypatch.setattr(playbook, "RUNS", folder / "runs")
    hosts = str(folder / "hosts.yml")
    args = argparse.Namespace(verbose=False, progress=options.JSON, more=[], json=True)
    assert playbook.preview_playbook(str(folder / "small.yml"), hosts, args, []) == playbook.OK
    found = json.loads(capsys.readouterr().out)
    assert (found["exit"], found["check"], found["failures"]) == (0, True, [])
    assert [(one["node"], one["what"]) for one in found["changes"]] == [("a", [f"{folder}/small"])]
    assert playbook.run_playbook_verb(str(folder / "play.yml"), hosts, args) == playbook.PROBLEM
    found = json.loads(capsys.readouterr().out)
    assert (found["exit"], found["check"], found["result"]) == (1, False, None)
    assert found["failures"][0]["text"]
    assert Path(found["log"]).is_file()


def test_a_quiet_phase_is_shown_when_something_happened_in_it() -> None:
    phase = RunPhase(phases.BUNDLE, 0.0, 1.0)
    assert not phase.shown
    phase.ended = phases.QUIET_SECONDS
    assert phase.shown
    phase.ended = 1.0
    phase.changes["a"] = 1
    assert phase.shown
