"""Questions to nodes: every way in which an answer can fail."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import cast

import mux_master
import pytest
from ask_connections import TEST, make_query, result, started_node, way

from fullmesh.ask import answers, channel, program, rounds, talk
from fullmesh.model import reach


@pytest.mark.usefixtures("_told")
def test_banners_and_other_output_are_not_an_answer() -> None:
    noisy = 'echo "Welcome to 192.0.2.7"; echo "Authorised use only" >&2; printf "no line end"; exec /bin/sh -c "$1"'
    said = result(way(None, ssh=noisy), make_query("", how="print", text="x"))
    assert said == {"changed": False, "text": "x", "ansible_facts": {"of": "it"}}


@pytest.mark.usefixtures("_told")
@pytest.mark.parametrize("ssh", ["exec sleep 60", 'sleep 60; exec /bin/sh -c "$1"'])
def test_a_hanging_node_is_named_after_all_others_answered(ssh: str) -> None:
    ways = {"hangs": way(None, ssh=ssh), "well": way(None)}
    when: dict[str, float] = {}
    begun = time.monotonic()
    found = asyncio.run(
        rounds.query_all_nodes(
            ways,
            dict.fromkeys(ways, make_query("", text="x", seconds=2)),
            5,
            lambda host, _: when.setdefault(host, time.monotonic() - begun),
        )
    )
    assert when["well"] < 2 <= when["hangs"] < 4
    said = answers.build_task_result(ways["hangs"], found["hangs"])
    assert said["unreachable"] is True
    assert said["msg"].startswith("[AK-101] No answer within 2 s.")
    assert answers.build_task_result(ways["well"], found["well"])["text"] == "x"


@pytest.mark.usefixtures("_told")
def test_an_open_connection_without_an_answer_is_abandoned(short: Path) -> None:
    master = mux_master.Master(short, "mute")
    assert "[AK-101]" in result(way(short), make_query("", seconds=1))["msg"]
    master.close()


@pytest.mark.usefixtures("_told")
def test_a_program_over_its_deadline_is_ended_on_the_node(private: Path) -> None:
    line = make_query(private, how="sleep", text="60", seconds=1).line(
        "M", program.build_query_program(TEST.module)
    )
    question = {**json.loads(line), "seconds": 1}
    node = started_node(
        json.dumps(question).encode() + b"\n" + program.build_query_program(TEST.module).data
    )
    assert node.wait(timeout=10) == -14


@pytest.mark.usefixtures("_told")
def test_waiting_for_a_turn_is_not_waiting_for_an_answer() -> None:
    ways = {str(number): way(None, ssh='sleep 0.7; exec /bin/sh -c "$1"') for number in range(4)}
    questions = dict.fromkeys(ways, make_query("", text="x", seconds=2))
    found = asyncio.run(rounds.query_all_nodes(ways, questions, 1))
    assert [answers.build_task_result(ways[host], one)["text"] for host, one in found.items()] == [
        "x"
    ] * 4


SSH_SAYS = [
    ("echo 'Banner of somebody' >&2; echo 'ssh: connect to host 192.0.2.7 port 22: Connection refused' >&2; exit 255",
     "Failed to connect to the host via ssh: ssh: connect to host 192.0.2.7 port 22: Connection refused",
     "nothing listens on its ssh port"),
    ("echo 'Host key verification failed.' >&2; exit 255",
     "Failed to connect to the host via ssh: Host key verification failed.",
     "ssh does not know its host key, or the key has changed"),
]  # fmt: skip


@pytest.mark.parametrize(("ssh", "message", "why"), SSH_SAYS)
def test_messages_of_ssh_are_quoted(ssh: str, message: str, why: str) -> None:
    said = result(way(None, ssh=ssh), make_query(""))
    assert said == {"changed": False, "unreachable": True, "msg": message}
    found = reach.explain_reach_failure(message, "192.0.2.7")
    assert found is not None
    assert found.what == why


@pytest.mark.usefixtures("_told")
def test_a_connection_that_breaks_in_mid_answer_is_tried_twice(tmp_path: Path) -> None:
    count = tmp_path / "count"
    # as much as asks for the program, and the beginning of an answer
    ssh = f'echo x >> {count}; /bin/sh -c "$1" | dd bs=1 count=50 2>/dev/null; exit 255'
    said = result(way(None, ssh=ssh), make_query("", text="x"))
    assert said["unreachable"] is True
    assert "[AK-102]" in said["msg"]
    assert count.read_text() == "x\nx\n"


HOSTILE_ANSWERS = {
    "nested": "[" * 200_000,
    "no_mapping": "[1]",
    "huge_number": '{"result": {"x": ' + "9" * 5001 + "}}",
    "values": '{"result": {"x": [' + "[]," * 2_000_001 + "[]]}}",
    "other_form": '{"result": 7, "no": 1}',
    "surrogate": '{"\\ud800": 1}',
}


@pytest.mark.usefixtures("_told")
@pytest.mark.parametrize("text", HOSTILE_ANSWERS.values(), ids=HOSTILE_ANSWERS)
def test_a_hostile_answer_costs_no_other_node_its_answer(tmp_path: Path, text: str) -> None:
    body = tmp_path / "body"
    body.write_text(text)
    # the question is the second line: the first is the program that reads it
    lying = (
        "import json, sys\n"
        "line = next(one for one in sys.stdin.buffer if one.startswith(b'{'))\n"
        f"data = open({str(body)!r}, 'rb').read()\n"
        "mark = json.loads(line)['mark'].encode()\n"
        "sys.stdout.buffer.write(mark + b' answer %d\\n' % len(data) + data)\n"
    )
    (tmp_path / "lying.py").write_text(lying)
    ways = {"evil": way(None, ssh=f"exec {sys.executable} {tmp_path}/lying.py"), "good": way(None)}
    found = asyncio.run(
        rounds.query_all_nodes(ways, dict.fromkeys(ways, make_query("", text="x", seconds=20)), 5)
    )
    assert answers.build_task_result(ways["good"], found["good"])["text"] == "x"
    assert answers.build_task_result(ways["evil"], found["evil"])["msg"].startswith("[AK-103]")


def test_an_unexpected_error_is_the_result_of_one_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def talk_of(to: channel.ConnectionSpec, _asked: talk.NodeQuery) -> talk.NodeReply:
        if to.address == "evil":
            raise RecursionError("nested")
        await asyncio.sleep(0.1)
        return talk.NodeReply(None, 3, "", "well", begun=True)

    monkeypatch.setattr(rounds, "query_new_connection", talk_of)
    ways = {name: way(None, address=name) for name in ("evil", "good")}
    found = asyncio.run(rounds.query_all_nodes(ways, dict.fromkeys(ways, make_query("")), 5))
    assert "exit status 3: well" in answers.build_task_result(ways["good"], found["good"])["msg"]
    said = answers.build_task_result(ways["evil"], found["evil"])["msg"]
    assert said.startswith("[AK-103]")
    assert "RecursionError('nested')" in said


def test_a_node_that_sends_byte_by_byte_is_searched_once() -> None:
    """The work grows with what came, not with its square."""
    words = b"x" * 20_000 + b"mark answer 17\n{"
    pieces, searched = iter(words), 0

    class Told(asyncio.StreamReader):
        async def read(self, n: int = -1) -> bytes:
            return bytes([next(pieces)][:n])

    async def hear() -> tuple[int | None, bytes]:
        ear = talk.AnswerReader(Told(), "mark")
        pattern = ear.form

        class Counting:
            def search(self, data: bytes) -> re.Match[bytes] | None:
                nonlocal searched
                searched += len(data)
                return pattern.search(data)

        ear.form = cast("re.Pattern[bytes]", Counting())
        return await ear.next(), bytes(ear.heard)

    assert asyncio.run(hear()) == (17, b"")
    assert searched < 40 * len(words)


def test_a_sudo_refusal_is_quoted() -> None:
    said = result(way(None, ssh="echo 'sudo: a password is required' >&2; exit 1"), make_query(""))
    assert said["failed"] is True
    assert said["msg"].startswith(
        "[AK-103] No answer, but exit status 1: sudo: a password is required."
    )
    found = reach.explain_reach_failure(said["msg"] + said["module_stderr"], "192.0.2.7")
    assert found is not None
    assert "sudo" in found.what


def test_a_shell_that_does_something_else_is_shown() -> None:
    said = result(
        way(None, ssh="echo This account is currently not available.; exit 1"), make_query("")
    )
    assert "exit status 1: This account is currently not available." in said["msg"]
    assert "ssh ann@192.0.2.7 true" in said["msg"]


def test_endless_output_is_cut_off() -> None:
    begun = time.monotonic()
    said = result(way(None, ssh="yes"), make_query("", seconds=30))
    assert said["msg"].startswith("[AK-103] No answer, but endless other output: y.")
    assert time.monotonic() - begun < 20


@pytest.mark.usefixtures("_told")
def test_a_crashing_program_is_reported_as_our_defect() -> None:
    said = result(way(None), make_query("", how="fail", text="of itself"))
    assert said["msg"] == (
        "[AK-104] The program failed on the node: ValueError: of itself. Report it with these lines."
    )
    assert "Traceback" in said["module_stderr"]
    died = result(way(None), make_query("", how="die", text="3"))
    assert "exit status 3" in died["msg"]


def test_an_old_python_reports_its_version(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\necho 'fullmesh: Python 3.6.8' >&2; exit 1\n")
    old.chmod(0o755)
    said = result(way(None, command=program.build_query_command([str(old)])), make_query(""))
    assert (said["failed"], said["python"]) == (True, "3.6.8")


def test_the_version_check_parses_on_an_old_python() -> None:
    assert program.FIRST.index("version_info<(3,9)") < program.FIRST.index("exec(")
    assert "f'" not in program.FIRST


def test_no_python_at_all(tmp_path: Path) -> None:
    missing = [str(tmp_path / "python3.99"), "python3.98"]
    said = result(way(None, command=program.build_query_command(missing)), make_query(""))
    assert said["failed"] is True
    found = reach.explain_reach_failure(said["msg"] + said["module_stderr"], "192.0.2.7")
    assert found is not None
    assert found.step == "Install python3 on it"


@pytest.mark.usefixtures("_told")
def test_the_first_available_python_is_used_and_reported(tmp_path: Path) -> None:
    several = [str(tmp_path / "python3.99"), sys.executable, "python3"]
    said = result(
        way(None, command=program.build_query_command(several), found=True),
        make_query("", text="x"),
    )
    assert said["ansible_facts"] == {"of": "it", "discovered_interpreter_python": sys.executable}


def test_no_ssh_at_all() -> None:
    there = channel.ConnectionSpec(["/nonexistent/ssh"], None, "true", True, False, "192.0.2.7", "")
    said = result(there, make_query(""))
    assert said["unreachable"] is True
    assert "/nonexistent/ssh: No such file or directory" in said["msg"]


def test_hosts_queried_one_by_one_are_reported_once_per_reason() -> None:
    reasons = {f"n{number}": "its connection is local" for number in range(7)} | {
        "m": "of something"
    }
    first, second = answers.describe_one_by_one_hosts(reasons)
    assert first == (
        "[AK-106] n0, n1, n2, n3, n4 and 2 more: queried one by one, because its connection is local. "
        "This is slower but gives the same result (docs/scale.md)."
    )
    assert "m: queried one by one, because of something" in second


def test_a_command_passes_the_shells_unchanged(tmp_path: Path) -> None:
    odd = tmp_path / "a python's"
    odd.symlink_to(sys.executable)
    wrapped = f"/bin/sh -c {shlex.quote(program.build_query_command([str(odd)]))}"
    done = subprocess.run(
        ["/bin/sh", "-c", wrapped], input=b"1\n\n", capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_nodes_without_answer_are_named_together() -> None:
    told: dict[str, answers.TaskResult] = {
        "a": {"changed": False},
        "b": answers.build_unreachable_result("[AK-101] No answer within 5 s."),
        "c": {"failed": True, "msg": "[VC-213] The listeners could not be started"},
        "d": {"failed": True},
    }
    assert answers.describe_failed_hosts(told) == [
        "b: [AK-101] No answer within 5 s.",
        "c: [VC-213] The listeners could not be started",
        "d: it failed without a message",
    ]


@pytest.mark.usefixtures("_told")
def test_a_query_that_changes_the_node_is_not_repeated(short: Path) -> None:
    assert [name for name, ask in program.KNOWN.items() if ask.reads] == ["node_facts"]
    master = mux_master.Master(short, "cuts")
    question = make_query("", text="x")
    said = result(way(short), replace(question, ask=replace(question.ask, reads=False)))
    assert said["unreachable"] is True
    assert len(master.commands) == 1
    master.close()
