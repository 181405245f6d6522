"""Asking all nodes at once: the protocol, the channels, the node's side, and every way in which it goes wrong."""

from __future__ import annotations

import ast
import asyncio
import errno
import hashlib
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import mux_master
import pytest
from ansible.module_utils.fullmesh.ask import boot
from pythons import interpreter

from fullmesh.ask import answers, channel, mux, program, rounds, talk
from fullmesh.model import reach
from fullmesh.settings import ROOT

NODE_FACTS = program.KNOWN["node_facts"]
# What travels in these tests: a module that does as it is told.
TOLD = """
from __future__ import annotations
import os, sys, time
def answer(how: str, text: str) -> object:
    if how == "print":
        print("printed by the program")
    if how == "sleep":
        time.sleep(float(text))
    if how == "stoppable":
        import signal
        def stop(*_: object) -> None:
            raise InterruptedError
        signal.signal(signal.SIGUSR1, stop)
        seconds, _, ready = text.partition(" ")
        try:
            if ready:
                open(ready, "w").close()
            time.sleep(float(seconds))
        except InterruptedError:
            return {"text": "stopped"}
    if how == "fail":
        raise ValueError(text)
    if how == "die":
        os._exit(int(text))
    return {"text": text, "ansible_facts": {"of": "it"}}
"""
TEST = program.QueryKind("told", "fullmesh.told", "answer")


@pytest.fixture
def _told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """The question of the tests in place of ours."""
    package = tmp_path / "utils/fullmesh"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "told.py").write_text(TOLD)
    monkeypatch.setattr(program.collect_module_sources, "__defaults__", (tmp_path / "utils",))
    program.build_query_program.cache_clear()
    yield
    program.build_query_program.cache_clear()


def way(
    control: Path | None, ssh: str = "", command: str = "", **more: Any
) -> channel.ConnectionSpec:
    """To this machine: *ssh* is a shell script in place of ssh, which gets the command as its first argument."""
    script = ssh or 'exec /bin/sh -c "$1"'
    made: dict[str, Any] = {
        "argv": ["/bin/sh", "-c", script, "ssh"],
        "control": control,
        "command": command or program.build_query_command([sys.executable]),
        "root": True,
        "found": False,
        "address": "192.0.2.7",
        "user": "ann",
        **more,
    }
    return channel.ConnectionSpec(**made)


def asked(folder: Path | str, how: str = "", text: str = "", seconds: int = 20) -> talk.NodeQuery:
    return talk.NodeQuery(TEST, {"how": how, "text": text}, seconds, str(folder))


def ask(to: channel.ConnectionSpec, question: talk.NodeQuery) -> rounds.Outcome:
    return asyncio.run(rounds.query_all_nodes({"a": to}, {"a": question}, 5))["a"]


def result(to: channel.ConnectionSpec, question: talk.NodeQuery) -> dict[str, Any]:
    return answers.build_task_result(to, ask(to, question))


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """Where the node of these tests keeps programs; boot.py wants it to be root's."""
    if os.geteuid():
        pytest.skip("a folder that is root's alone needs root")
    return tmp_path / "run/ask"


# --- the program ----------------------------------------------------------------------------------


def test_a_program_has_what_its_module_imports_and_nothing_else() -> None:
    parts = program.collect_module_sources(NODE_FACTS.module)
    assert parts["fullmesh.node_facts"][0] is False
    assert parts["fullmesh.facts"][0] is True
    assert {"fullmesh", "fullmesh.manifest", "fullmesh.firewall.firewalld"} <= parts.keys()
    assert not [name for name in parts if name.startswith(("fullmesh.probe", "fullmesh.network"))]


def test_the_first_question_loads_no_engine_of_transactions() -> None:
    lines = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import fullmesh.node_facts as n; n.answer_node_facts(); print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", lines, str(program.UTILS)],
        check=True,
        capture_output=True,
        text=True,
    )
    assert "fullmesh.transaction.engine" not in done.stdout.split()


def test_what_is_imported_for_types_alone_stays_at_home(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p/__init__.py").write_text("")
    for name in ("types", "used", "late"):
        (tmp_path / f"p/{name}.py").write_text("")
    (tmp_path / "p/a.py").write_text(
        "from typing import TYPE_CHECKING\nfrom .used import x\nif TYPE_CHECKING:\n    from .types import T\n"
        "def f():\n    from . import late\n"
    )
    assert sorted(program.collect_module_sources("p.a", tmp_path)) == [
        "p",
        "p.a",
        "p.late",
        "p.used",
    ]


def really_imported(node: ast.AST) -> Iterator[ast.ImportFrom]:
    """All ``from … import`` below a node of the syntax tree, but for those that only type checkers do."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and getattr(child.test, "id", "") == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.ImportFrom):
            yield child
        yield from really_imported(child)


@pytest.mark.parametrize(
    "path", sorted((program.UTILS / "fullmesh").rglob("*.py")), ids=lambda path: path.stem
)
def test_the_text_of_a_module_tells_the_same_imports_as_its_syntax(path: Path) -> None:
    module = ".".join(path.relative_to(program.UTILS).with_suffix("").parts)
    module = module.removesuffix(".__init__")
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    expected = set()
    for one in really_imported(ast.parse(path.read_text())):
        if one.level:
            above = package[: len(package) - one.level + 1]
            base = ".".join([*above, *([one.module] if one.module else [])])
            expected |= {base, *(f"{base}.{name.name}" for name in one.names)}
    assert set(program.list_relative_imports(module, path)) == expected


def test_the_same_source_is_the_same_program() -> None:
    first = program.build_query_program(NODE_FACTS.module)
    program.build_query_program.cache_clear()
    assert program.build_query_program(NODE_FACTS.module) == first
    assert hashlib.sha256(first.data).hexdigest() == first.sha256


def test_a_module_that_is_asked_for_answers_like_the_module_of_ansible(private: Path) -> None:
    question = talk.NodeQuery(NODE_FACTS, {"digest": "", "venv": "/opt/x/venv"}, 60, str(private))
    said = result(way(None), question)
    assert said["changed"] is False
    assert said["ansible_facts"]["fullmesh"]["venv"] == "/opt/x/venv"
    assert {"drift", "notes", "resolved", "busy"} <= said.keys()


@pytest.mark.parametrize("version", ["3.9", "3.13"])
def test_the_oldest_and_the_newest_python_of_nodes_answer(version: str, private: Path) -> None:
    path = interpreter(version)
    if not path:
        pytest.skip(f"this machine lacks Python {version}")
    question = talk.NodeQuery(NODE_FACTS, {"digest": "x", "venv": "/opt/x/venv"}, 60, str(private))
    there = way(None, command=program.build_query_command([str(path)]))
    first, second = result(there, question), result(there, question)
    assert first["ansible_facts"]["python_version"].startswith(f"{version}.")
    assert first["drift"] == second["drift"]


# --- the node's side ------------------------------------------------------------------------------


@pytest.mark.usefixtures("_told")
def test_a_program_travels_once_and_the_one_before_goes(private: Path, tmp_path: Path) -> None:
    private.mkdir(mode=0o700, parents=True)
    old = private / f"told-{'0' * 64}.aa"
    other = private / f"other-{'0' * 64}.aa"
    old.touch()
    other.touch()
    heard = tmp_path / "heard"
    # what goes over the wire to the node, measured by tee
    there = way(None, ssh=f'tee -a {heard} | /bin/sh -c "$1"')
    first = result(there, asked(private, text="x"))
    once = heard.stat().st_size
    second = result(there, asked(private, text="x"))
    assert first == second == {"changed": False, "text": "x", "ansible_facts": {"of": "it"}}
    assert heard.stat().st_size - once == once - len(program.build_query_program(TEST.module).data)
    kept = sorted(one.name.partition("-")[0] for one in private.iterdir())
    assert kept == ["other", "told"]
    assert not old.exists()
    (mine,) = private.glob("told-*")
    assert mine.stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("_told")
@pytest.mark.parametrize("damage", [b"", b"x" * 100, b"half"])
def test_half_a_program_is_none(private: Path, damage: bytes) -> None:
    result(way(None), asked(private, text="x"))
    (mine,) = private.glob("told-*")
    whole = mine.read_bytes()
    mine.write_bytes(whole[:200] if damage == b"half" else damage)
    assert result(way(None), asked(private, text="y"))["text"] == "y"
    assert mine.read_bytes() == whole


@pytest.mark.usefixtures("_told")
def test_a_folder_that_others_can_enter_is_not_used(private: Path) -> None:
    private.mkdir(parents=True)
    private.chmod(0o755)
    outcome = ask(way(None), asked(private, text="x"))
    assert isinstance(outcome, rounds.NodeReply)
    assert outcome.answer == {
        "python": sys.executable,
        "unkept": f"{private} can be changed by others than root",
        "result": {"text": "x", "ansible_facts": {"of": "it"}},
    }
    assert list(private.iterdir()) == []
    (warning,) = answers.describe_uncached_programs({"a": outcome, "b": outcome})
    assert warning.startswith("[AK-105] a, b: the program was not cached")


@pytest.mark.usefixtures("_told")
def test_a_full_disk_costs_only_that_it_travels_again(
    private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "rename", full)
    question: Any = {"name": "told", "program": "0" * 64, "folder": str(private)}
    assert boot.cache_program(question, b"code") == f"{private}: No space left on device"
    assert list(private.iterdir()) == []


def test_what_is_not_the_program_of_the_checksum_is_not_run(tmp_path: Path) -> None:
    question = asked("", text="x")
    made = program.QueryProgram(b"not it", "0" * 64)
    line = question.line("M", made)
    done = subprocess.run(
        ["/bin/sh", "-c", program.build_query_command([sys.executable])],
        input=program.load_boot_program() + line + made.data,
        capture_output=True,
        cwd=tmp_path,
        check=True,
    )
    _, _, said = done.stdout.rpartition(b"\n")
    assert "6 received bytes do not match the program" in json.loads(said)["failed"]


# --- over a kept connection -----------------------------------------------------------------------


@pytest.fixture
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A path that is short enough for a socket."""
    return tmp_path_factory.mktemp("m") / "s"


@pytest.mark.usefixtures("_told")
def test_a_kept_connection_is_used_and_no_ssh_is_started(short: Path) -> None:
    master = mux_master.Master(short)
    there = way(short, ssh="exit 99")
    assert result(there, asked("", text="x"))["text"] == "x"
    assert master.commands == [there.command]
    master.close()


@pytest.mark.usefixtures("_told")
@pytest.mark.parametrize("kind", ["denies", "other"])
def test_who_takes_no_session_leaves_it_to_ssh(short: Path, kind: str) -> None:
    master = mux_master.Master(short, kind)
    assert result(way(short), asked("", text="x"))["text"] == "x"
    assert master.commands == []
    master.close()


@pytest.mark.usefixtures("_told")
def test_a_socket_that_nobody_listens_on_leaves_it_to_ssh(short: Path) -> None:
    assert result(way(short), asked("", text="x"))["text"] == "x"
    short.touch()
    assert result(way(short), asked("", text="x"))["text"] == "x"


@pytest.mark.usefixtures("_told")
def test_a_connection_that_breaks_is_asked_for_once_more(short: Path) -> None:
    master = mux_master.Master(short, "cuts")
    said = result(way(short), asked("", text="x"))
    assert said["unreachable"] is True
    assert said["msg"].startswith("[AK-102] the connection was lost before")
    assert len(master.commands) == 2
    master.close()


def test_a_message_that_is_none_is_refused() -> None:
    async def hear(data: bytes) -> mux.MuxMessage:
        here, there = mux.socket.socketpair()
        here.setblocking(False)
        there.sendall(data)
        there.close()
        try:
            return await mux.receive_message(here)
        finally:
            here.close()

    assert asyncio.run(hear(mux.pack_message(mux.HELLO, 4))).number(0) == 4
    for wrong in (b"\xff\xff\xff\xff", b"\0\0\0\1x"):
        with pytest.raises(mux.MuxError, match="a message of"):
            asyncio.run(hear(wrong))
    with pytest.raises(EOFError):
        asyncio.run(hear(b"\0\0\0\x09abc"))
    with pytest.raises(mux.MuxError, match="ends early"):
        mux.MuxMessage(mux.FAILURE, b"abc").number(0)


# --- every way in which it goes wrong -------------------------------------------------------------


@pytest.mark.usefixtures("_told")
def test_banners_and_what_else_is_printed_are_no_answer() -> None:
    noisy = 'echo "Welcome to 192.0.2.7"; echo "Authorised use only" >&2; printf "no line end"; exec /bin/sh -c "$1"'
    said = result(way(None, ssh=noisy), asked("", how="print", text="x"))
    assert said == {"changed": False, "text": "x", "ansible_facts": {"of": "it"}}


@pytest.mark.usefixtures("_told")
@pytest.mark.parametrize("ssh", ["exec sleep 60", 'sleep 60; exec /bin/sh -c "$1"'])
def test_who_hangs_is_named_when_the_time_is_over_and_the_others_have_answered(ssh: str) -> None:
    ways = {"hangs": way(None, ssh=ssh), "well": way(None)}
    when: dict[str, float] = {}
    begun = time.monotonic()
    found = asyncio.run(
        rounds.query_all_nodes(
            ways,
            dict.fromkeys(ways, asked("", text="x", seconds=2)),
            5,
            lambda host, _: when.setdefault(host, time.monotonic() - begun),
        )
    )
    assert when["well"] < 2 <= when["hangs"] < 4
    said = answers.build_task_result(ways["hangs"], found["hangs"])
    assert said["unreachable"] is True
    assert said["msg"].startswith("[AK-101] no answer within 2 s.")
    assert answers.build_task_result(ways["well"], found["well"])["text"] == "x"


@pytest.mark.usefixtures("_told")
def test_who_holds_a_connection_and_says_nothing_is_given_up_as_well(short: Path) -> None:
    master = mux_master.Master(short, "mute")
    assert "[AK-101]" in result(way(short), asked("", seconds=1))["msg"]
    master.close()


@pytest.mark.usefixtures("_told")
def test_a_program_that_takes_too_long_is_ended_on_the_node_too(private: Path) -> None:
    line = asked(private, how="sleep", text="60", seconds=1).line(
        "M", program.build_query_program(TEST.module)
    )
    question = {**json.loads(line), "seconds": 1}
    node = started_node(
        json.dumps(question).encode() + b"\n" + program.build_query_program(TEST.module).data
    )
    assert node.wait(timeout=10) == -14


def started_node(told: bytes) -> subprocess.Popen[bytes]:
    """The node's side with this question; the controller stays."""
    node = subprocess.Popen(
        ["/bin/sh", "-c", program.build_query_command([sys.executable])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert node.stdin
    node.stdin.write(program.load_boot_program() + told)
    node.stdin.flush()
    return node


@pytest.mark.usefixtures("_told")
def test_waiting_for_a_turn_is_not_waiting_for_an_answer() -> None:
    ways = {str(number): way(None, ssh='sleep 0.7; exec /bin/sh -c "$1"') for number in range(4)}
    questions = dict.fromkeys(ways, asked("", text="x", seconds=2))
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
def test_ssh_is_quoted_in_its_own_words(ssh: str, message: str, why: str) -> None:
    said = result(way(None, ssh=ssh), asked(""))
    assert said == {"changed": False, "unreachable": True, "msg": message}
    found = reach.explain_reach_failure(message, "192.0.2.7")
    assert found is not None
    assert found.what == why


@pytest.mark.usefixtures("_told")
def test_a_connection_that_ends_half_way_is_tried_twice(tmp_path: Path) -> None:
    count = tmp_path / "count"
    # as much as asks for the program, and the beginning of an answer
    ssh = f'echo x >> {count}; /bin/sh -c "$1" | dd bs=1 count=50 2>/dev/null; exit 255'
    said = result(way(None, ssh=ssh), asked("", text="x"))
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
        rounds.query_all_nodes(ways, dict.fromkeys(ways, asked("", text="x", seconds=20)), 5)
    )
    assert answers.build_task_result(ways["good"], found["good"])["text"] == "x"
    assert answers.build_task_result(ways["evil"], found["evil"])["msg"].startswith("[AK-103]")


def test_an_error_that_nobody_has_foreseen_is_one_nodes_outcome(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def talk_of(to: channel.ConnectionSpec, _asked: talk.NodeQuery) -> talk.NodeReply:
        if to.address == "evil":
            raise RecursionError("nested")
        await asyncio.sleep(0.1)
        return talk.NodeReply(None, 3, "", "well", begun=True)

    monkeypatch.setattr(rounds, "query_new_connection", talk_of)
    ways = {name: way(None, address=name) for name in ("evil", "good")}
    found = asyncio.run(rounds.query_all_nodes(ways, dict.fromkeys(ways, asked("")), 5))
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


def test_who_may_not_become_root_is_told_sudos_words() -> None:
    said = result(way(None, ssh="echo 'sudo: a password is required' >&2; exit 1"), asked(""))
    assert said["failed"] is True
    assert said["msg"].startswith(
        "[AK-103] no answer, but exit status 1: sudo: a password is required."
    )
    found = reach.explain_reach_failure(said["msg"] + said["module_stderr"], "192.0.2.7")
    assert found is not None
    assert "sudo" in found.what


def test_a_shell_that_does_something_else_is_shown() -> None:
    said = result(way(None, ssh="echo This account is currently not available.; exit 1"), asked(""))
    assert "exit status 1: This account is currently not available." in said["msg"]
    assert "ssh ann@192.0.2.7 true" in said["msg"]


def test_who_talks_without_end_is_given_up() -> None:
    begun = time.monotonic()
    said = result(way(None, ssh="yes"), asked("", seconds=30))
    assert said["msg"].startswith("[AK-103] no answer, but endless other output: y.")
    assert time.monotonic() - begun < 20


@pytest.mark.usefixtures("_told")
def test_a_program_that_fails_or_dies_is_ours_to_mend() -> None:
    said = result(way(None), asked("", how="fail", text="of itself"))
    assert said["msg"] == (
        "[AK-104] the program failed on the node: ValueError: of itself. Report it with these lines."
    )
    assert "Traceback" in said["module_stderr"]
    died = result(way(None), asked("", how="die", text="3"))
    assert "exit status 3" in died["msg"]


def test_an_old_python_says_its_version(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\necho 'fullmesh: Python 3.6.8' >&2; exit 1\n")
    old.chmod(0o755)
    said = result(way(None, command=program.build_query_command([str(old)])), asked(""))
    assert (said["failed"], said["python"]) == (True, "3.6.8")


def test_the_text_that_an_old_python_reads_is_one_that_it_can_read() -> None:
    assert program.FIRST.index("version_info<(3,9)") < program.FIRST.index("exec(")
    assert "f'" not in program.FIRST


def test_no_python_at_all(tmp_path: Path) -> None:
    missing = [str(tmp_path / "python3.99"), "python3.98"]
    said = result(way(None, command=program.build_query_command(missing)), asked(""))
    assert said["failed"] is True
    found = reach.explain_reach_failure(said["msg"] + said["module_stderr"], "192.0.2.7")
    assert found is not None
    assert found.step == "Install python3 on it"


@pytest.mark.usefixtures("_told")
def test_the_first_python_that_is_there_is_taken_and_told(tmp_path: Path) -> None:
    several = [str(tmp_path / "python3.99"), sys.executable, "python3"]
    said = result(
        way(None, command=program.build_query_command(several), found=True), asked("", text="x")
    )
    assert said["ansible_facts"] == {"of": "it", "discovered_interpreter_python": sys.executable}


def test_no_ssh_at_all() -> None:
    there = channel.ConnectionSpec(["/nonexistent/ssh"], None, "true", True, False, "192.0.2.7", "")
    said = result(there, asked(""))
    assert said["unreachable"] is True
    assert "/nonexistent/ssh: No such file or directory" in said["msg"]


def test_what_has_to_be_asked_one_by_one_is_said_once_for_each_reason() -> None:
    reasons = {f"n{number}": "its connection is local" for number in range(7)} | {
        "m": "of something"
    }
    first, second = answers.describe_one_by_one_hosts(reasons)
    assert first == (
        "[AK-106] n0, n1, n2, n3, n4 and 2 more: queried one by one, because its connection is local. "
        "This is slower but gives the same result (docs/scale.md)."
    )
    assert "m: queried one by one, because of something" in second


def test_a_command_survives_the_shells_on_its_way(tmp_path: Path) -> None:
    odd = tmp_path / "a python's"
    odd.symlink_to(sys.executable)
    wrapped = f"/bin/sh -c {shlex.quote(program.build_query_command([str(odd)]))}"
    done = subprocess.run(
        ["/bin/sh", "-c", wrapped], input=b"1\n\n", capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_who_gave_no_answer_is_named_with_all_others() -> None:
    told: dict[str, answers.TaskResult] = {
        "a": {"changed": False},
        "b": answers.build_unreachable_result("[AK-101] no answer within 5 s."),
        "c": {"failed": True, "msg": "[VC-213] the listeners could not be started"},
        "d": {"failed": True},
    }
    assert answers.describe_failed_hosts(told) == [
        "b: [AK-101] no answer within 5 s.",
        "c: [VC-213] the listeners could not be started",
        "d: it failed without a message",
    ]


@pytest.mark.usefixtures("_told")
def test_what_changes_something_is_not_asked_twice(short: Path) -> None:
    assert [name for name, ask in program.KNOWN.items() if ask.reads] == ["node_facts"]
    master = mux_master.Master(short, "cuts")
    question = asked("", text="x")
    said = result(way(short), replace(question, ask=replace(question.ask, reads=False)))
    assert said["unreachable"] is True
    assert len(master.commands) == 1
    master.close()


# --- the controller goes, or asks for an early end -------------------------------------------------


@pytest.mark.usefixtures("_told")
def test_a_program_ends_with_the_controller(private: Path) -> None:
    line = asked(private, how="sleep", text="60", seconds=60).line(
        "M", program.build_query_program(TEST.module)
    )
    node = started_node(line + program.build_query_program(TEST.module).data)
    assert node.stdin
    node.stdin.close()
    assert node.wait(timeout=10) == -9


def together(
    ways: dict[str, channel.ConnectionSpec], questions: dict[str, talk.NodeQuery], first: str
) -> Any:
    """Ask all, and stop the rest once *first* has answered."""

    async def run() -> dict[str, rounds.Outcome]:
        stop = asyncio.Event()
        asks = {host: replace(one, stop=stop) for host, one in questions.items()}
        return await rounds.query_all_nodes(
            ways, asks, 5, lambda host, _: stop.set() if host == first else None
        )

    begun = time.monotonic()
    found = asyncio.run(run())
    assert time.monotonic() - begun < 30
    return found


@pytest.mark.usefixtures("_told")
def test_others_are_stopped_once_one_part_has_failed(private: Path) -> None:
    ways = {"bad": way(None), "good": way(None)}
    questions = {
        "bad": asked(private, text="x", seconds=60),
        "good": asked(private, how="stoppable", text="60", seconds=60),
    }
    found = together(ways, questions, "bad")
    assert answers.build_task_result(ways["good"], found["good"])["text"] == "stopped"


@pytest.mark.usefixtures("_told")
def test_who_does_not_stop_keeps_nobody_waiting(
    private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(talk, "STOP_SECONDS", 0.5)
    deaf = "sleep 60"
    ways = {"bad": way(None), "deaf": way(None, command=deaf)}
    questions = {host: asked(private, text="x", seconds=60) for host in ways}
    assert isinstance(together(ways, questions, "bad")["deaf"], rounds.QueryTimeout)


def test_a_person_looks_at_the_controller_without_ssh() -> None:
    assert answers.format_login_command(way(None, address="")) == "env"
    assert answers.format_login_command(way(None)) == "ssh ann@192.0.2.7"


@pytest.mark.usefixtures("_told")
def test_who_begins_to_speak_and_falls_silent_is_lost(private: Path) -> None:
    question = replace(asked(private, how="sleep", text="60", seconds=60), silence=1.0)
    said = result(way(None, command="echo x; sleep 60"), question)
    assert said["msg"].startswith(
        "[AK-102] the connection was lost before the node answered: it was"
    )


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        ({"unreachable": True}, 0.0),
        ({"failed": True, "msg": "x"}, 0.0),
        ({"broken": 1.25}, 1.25),
        ({"done": True}, None),
    ],
)
def test_a_part_that_has_failed_is_told_by_its_answer(
    answer: dict[str, Any], seconds: float | None
) -> None:
    assert answers.read_broken_seconds(answer) == seconds


@pytest.fixture
def action(monkeypatch: pytest.MonkeyPatch) -> Any:
    """action_plugins/ask_nodes.py, which gives the others no time of their own."""
    spec = importlib.util.spec_from_file_location(
        "ask_nodes_action", ROOT / "action_plugins/ask_nodes.py"
    )
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "FOLLOW_SECONDS", 0.0)
    return module


class Modules:
    """Hosts that are asked by their module: what they answered once *ready* exists, and that they were stopped."""

    def __init__(self, ready: Path | None = None, **answers: dict[str, Any]) -> None:
        self.answers, self.stopped, self.ready = answers, False, ready
        self.threads = dict.fromkeys([*answers, "slow"]) if answers else {}

    @property
    def found(self) -> dict[str, dict[str, Any]]:
        return self.answers if self.ready is None or self.ready.exists() else {}

    def stop(self) -> None:
        self.stopped = True
        self.answers["slow"] = {"done": True}


@pytest.mark.usefixtures("_told")
def test_a_part_that_fails_stops_the_others_and_is_named_first(private: Path, action: Any) -> None:
    ways = {"bad": way(None), "good": way(None)}
    questions = {
        "bad": asked(private, how="fail", text="no room", seconds=60),
        "good": asked(private, how="stoppable", text="60", seconds=60),
    }
    asking = action.RunningQueries(ways, questions, Modules(), hold=False, together=True)
    found = asyncio.run(asking.ask())
    assert answers.build_task_result(ways["good"], found["good"])["text"] == "stopped"
    assert asking.first.startswith(
        "bad: [AK-104] the program failed on the node: ValueError: no room"
    )
    assert asking.late == set()


@pytest.mark.usefixtures("_told")
def test_hosts_that_are_asked_by_their_module_stop_the_others_and_are_stopped(
    private: Path, action: Any, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    modules = Modules(ready, bad={"failed": True, "msg": "[VC-305] it may not."})
    questions = {"good": asked(private, how="stoppable", text=f"60 {ready}", seconds=60)}
    asking = action.RunningQueries(
        {"good": way(None)}, questions, modules, hold=False, together=True
    )
    found = asyncio.run(asking.ask())
    assert answers.build_task_result(way(None), found["good"])["text"] == "stopped"
    assert modules.stopped
    assert asking.first == "bad: [VC-305] it may not. The other nodes stop."


@pytest.mark.usefixtures("_told")
def test_answers_that_do_not_belong_together_stop_nobody(private: Path, action: Any) -> None:
    ways = {"bad": way(None), "good": way(None)}
    questions = {
        "bad": asked(private, how="fail", text="no room", seconds=60),
        "good": asked(private, text="x", seconds=60),
    }
    asking = action.RunningQueries(ways, questions, Modules(), hold=False, together=False)
    found = asyncio.run(asking.ask())
    assert answers.build_task_result(ways["good"], found["good"])["text"] == "x"
    assert asking.first == ""
