"""No text of a node or log acts on a terminal, in any view; and nothing is printed past the common filter."""

from __future__ import annotations

import ast
import io
import json
import os
import queue
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from ansible.module_utils.fullmesh.firewall import reached
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from fullmesh.faults import Fault
from fullmesh.play import events, foresight, run, views
from fullmesh.play.live import TerminalView
from fullmesh.play.progress import Failure
from fullmesh.printed import CONTROL, STYLE, clean_line, clean_styled, clean_text
from fullmesh.settings import ROOT
from fullmesh.verbs import diagnose as diagnose_cli
from fullmesh.verbs import hang as hang_cli
from fullmesh.verbs import init as init_cli
from fullmesh.verbs import playbook
from fullmesh.verbs import report as report_cli
from fullmesh.verbs import watch as watch_cli
from fullmesh.watch.remote import NodeMessage, WatchedNode

# What a terminal obeys: C0, C1, a title, colours, directions, ends of lines, what nobody sees, half characters.
EVIL = (
    "\x1b[2J\x1b[31mOK\x1b]0;title\x07 \x9b2J\x85 \u202eback\u2066 \u2028line\u2029 \u200b\ufeff \r\x08\x7f"
    " \udc80 [red]markup[/red] \\x1b"
)
NASTY = st.text(
    st.one_of(
        st.sampled_from("ab [](){}%\\\n\t\r" + EVIL),
        st.characters(codec=None, exclude_characters="<>"),
    ),
    max_size=40,
)


def find_harmful(text: str) -> str:
    """The first character that a terminal would obey; nothing for a harmless text."""
    found = CONTROL.search(text.replace("\n", ""))
    return ascii(found[0]) if found else ""


@given(NASTY)
def test_a_clean_text_has_no_control_character_but_line_feeds(text: str) -> None:
    assert find_harmful(clean_text(text)) == ""
    assert clean_text(text).count("\n") == text.count("\n")
    assert clean_text(clean_text(text)) == clean_text(text)
    assert "\n" not in clean_line(text)


def test_ansible_colours_stay_and_others_are_removed() -> None:
    assert clean_styled("\x1b[0;32mok\x1b[0m: \x1b[2J\x9b") == "\x1b[0;32mok\x1b[0m: \\x1b[2J\\x9b"


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of a field of an event, with any text in it."""
    if "Required" in str(kind):
        kind = get_args(kind)[0]
    known = {
        str: NASTY,
        float: st.just(0.0),
        bool: st.booleans(),
        list[str]: st.lists(NASTY, max_size=3),
        dict[str, events.HostCounts]: st.dictionaries(
            NASTY,
            st.fixed_dictionaries(dict.fromkeys(get_type_hints(events.HostCounts), st.just(1))),
        ),
    }
    return known[kind] if kind in known else st.sampled_from(get_args(kind))


EVENT = st.one_of(
    [
        st.fixed_dictionaries({name: values(one) for name, one in get_type_hints(kind).items()})
        for kind in events.KINDS.values()
    ]
)


def replace_harmful(value: Any) -> Any:
    """Return the same data with a word for each character that controls a terminal."""
    if isinstance(value, str):
        return CONTROL.sub(lambda one: "\n" if one[0] == "\n" else f"<{ord(one[0])}>", value)
    if isinstance(value, dict):
        return {replace_harmful(key): replace_harmful(held) for key, held in value.items()}
    return [replace_harmful(held) for held in value] if isinstance(value, list) else value


def draw_events(found: list[dict[str, Any]], view: views.RunView) -> None:
    """Play events to a view, and let it draw."""
    for one in found:
        run.forward_event(view, json.dumps(one))
        if isinstance(view, TerminalView):
            view.console.print(view.__rich__())
    view.progress.abandon(0.0)
    everybody = len(view.progress.changed())
    for line in foresight.render_change_table(view.progress.changes, everybody):
        assert find_harmful(line) == ""
        view.say(line)
    view.say(f"{view.progress.result}")


def on_terminal(found: list[dict[str, Any]], *, brief: bool) -> str:
    console = Console(
        file=io.StringIO(),
        force_terminal=True,
        width=100,
        color_system="truecolor",
        legacy_windows=False,
    )
    view = TerminalView(console, brief=brief)
    draw_events(found, view)
    return view.console.file.getvalue()  # type: ignore[attr-defined]  # rich's own IO[str]


@given(st.lists(EVENT, max_size=8), st.booleans())
def test_a_nodes_text_acts_on_no_view(found: list[dict[str, Any]], brief: bool) -> None:
    for kind in (views.PlainView, views.JsonView):
        stream = io.StringIO()
        draw_events(found, kind(stream))
        assert find_harmful(stream.getvalue()) == ""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.time", lambda: 0.0)
        patch.setattr("time.monotonic", lambda: 0.0)
        # what is left after the view's own styles
        assert find_harmful(STYLE.sub("", on_terminal(found, brief=brief))) == ""
        # a style that came from a node would be one more than of a text without any
        known = Counter(STYLE.findall(on_terminal(replace_harmful(found), brief=brief)))
        assert Counter(STYLE.findall(on_terminal(found, brief=brief))) == known


LISTENER = """
import ctypes, socket, sys, time
ctypes.CDLL(None).prctl(15, {name!r}, 0, 0, 0)
one = socket.create_server(("0.0.0.0", 0))
print(one.getsockname()[1], flush=True)
sys.stdin.read()
"""


def test_a_process_name_does_not_control_the_terminal() -> None:
    """The review's proof: PF-129 names a listener, whose account gives itself a name."""
    name = b"\x1b[2J\x1b[31mOK"
    process = subprocess.Popen(
        [sys.executable, "-c", LISTENER.format(name=name)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        port = process.stdout.readline().decode().strip()  # type: ignore[union-attr]  # a pipe
        listeners = [one for one in reached.find_listeners("/proc") if one["port"].startswith(port)]
        text = reached.describe_listeners(listeners)
        process.stdin.close()  # type: ignore[union-attr]  # a pipe
    assert "OK" in text
    failure = Failure(("n1",), "firewall", "Let the peers in", f"[PF-129] {text}")
    plain, stream = io.StringIO(), io.StringIO()
    for view in (
        views.PlainView(plain),
        TerminalView(Console(file=stream, force_terminal=True, width=200)),
    ):
        view.failed(failure)
        view.said(("n1",), text)
        view.say(text)
    assert find_harmful(plain.getvalue()) == ""
    assert "\x1b[2J" not in stream.getvalue()
    assert "\x1b[31mOK" not in stream.getvalue()


PLAY = r"""
- name: Configure the network
  hosts: nodes
  gather_facts: false
  any_errors_fatal: false
  vars: {evil: "{{ lookup('ansible.builtin.file', 'evil.json') | from_json }}"}
  tasks:
    - name: Say it
      ansible.builtin.debug: {msg: "{{ evil }}"}
    - name: Warn and write, {{ evil }}
      ansible.builtin.copy: {content: "{{ evil }}\n", dest: "{{ place }}", mode: "0600"}
      diff: true
    - name: Loop
      ansible.builtin.command: printf '%s' {{ item | quote }}
      loop: ["{{ evil }}", a]
      changed_when: true
    - name: Fail
      ansible.builtin.shell: printf '%s' {{ evil | quote }} >&2; exit 3
      changed_when: false
"""
HOSTS = (
    "nodes: {hosts: {n1: }, vars: {ansible_connection: local, ansible_python_interpreter: PYTHON}}"
)


@pytest.mark.parametrize("colours", [False, True])
def test_ansibles_own_output_is_cleaned(tmp_path: Path, colours: bool) -> None:
    mark = "\x1b[35;5mMARK\x1b[0m "
    text = mark + EVIL.replace("\udc80", "")
    (tmp_path / "evil.json").write_text(json.dumps(text))
    (tmp_path / "play.yml").write_text(PLAY)
    (tmp_path / "hosts.yml").write_text(HOSTS.replace("PYTHON", sys.executable))
    command = ["ansible-playbook", str(tmp_path / "play.yml"), "-i", str(tmp_path / "hosts.yml")]
    command += ["-vv", "--diff", "-e", json.dumps({"place": str(tmp_path / "made")})]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={
            **os.environ,
            "ANSIBLE_FORCE_COLOR": str(colours),
            "ANSIBLE_NOCOLOR": str(not colours),
        },
        check=False,
        capture_output=True,
    )
    said = (done.stdout + done.stderr).decode("utf-8", "surrogateescape")
    assert said.count("MARK") >= 5
    assert "PLAY RECAP" in said
    assert "\x1b[35;5m" not in said
    assert "\x1b[31mOK" not in said
    assert find_harmful(STYLE.sub("", said) if colours else said) == ""
    assert bool(STYLE.search(said)) is colours


def test_every_verb_cleans_its_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "ansible.log"
    log.write_text(f"[ERROR]: {EVIL}", errors="replace")
    shown = views.PlainView(sys.stderr)
    playbook.show_run_end(shown, run.RunOutcome(1, log))
    diagnose_cli.print_diagnosis(tmp_path, log, as_json=False, in_time=True)
    init_cli.print_fault(Fault("IN-103", f"n1: {EVIL}", f"Try: {EVIL}"))
    hang_cli.print_hang_error("HG-181", EVIL)
    watch_cli.print_watch_error("WA-107", EVIL)
    report_cli.report_missing_run(EVIL)
    job = watch_cli.WatchedJob(Path(), {}, queue.Queue(), [])
    for kind in ("stdout", "stderr"):
        job.nodes["n1"] = WatchedNode("n1", None)  # type: ignore[arg-type]  # no process
        job.take(NodeMessage("n1", kind, EVIL))
    job.tell(EVIL)
    monkeypatch.setattr(playbook.run, "read_ansible_log_tail", lambda _: [EVIL])
    playbook.show_run_end(shown, run.RunOutcome(1, log))
    said = capsys.readouterr()
    assert "OK" in said.out
    assert "OK" in said.err
    assert find_harmful(said.out + said.err) == ""


# Where text may go to a terminal without the filter, each with the reason.
PAST_THE_FILTER = {
    ("src/fullmesh/printed.py", "print_text"): "the filter itself",
    ("src/fullmesh/verbs/playbook.py", "confirm_undo"): "a question without any value",
    ("src/fullmesh/play/live.py", "say"): "cleaned there; rich draws",
    ("src/fullmesh/play/live.py", "ended"): "cleaned there; rich draws",
    ("src/fullmesh/play/live.py", "said"): "cleaned there; rich draws",
    ("src/fullmesh/report/terminal.py", "print_result"): "of a result that scrub has cleaned",
    ("src/fullmesh/report/terminal.py", "print_node_table"): "called by print_result",
    ("src/fullmesh/report/terminal.py", "print_rails"): "called by print_result",
    ("src/fullmesh/result/schema.py", "main"): "for developers, without any value",
    ("src/fullmesh/verbs/init.py", "ask_question"): "cleaned there",
    ("callback_plugins/fullmesh_events.py", "tell"): "JSON in ASCII, to a file",
    ("src/fullmesh/ask/lease.py", "tell"): "JSON in ASCII, to a pipe of ask_nodes",
    ("src/fullmesh/ask/lease.py", "beat"): "a line feed, to a node",
    ("callback_plugins/fullmesh_progress.py", "write_stderr_unlocked"): "cleaned there",
}
WRITES = re.compile(
    r"^(print|input|os\.write(v)?|os\.pwrite|.*\b(console|Console\(.*\))\.(print|log|out|input))$"
    r"|(std(out|err)(__)?(\.buffer)?|stream)\.write(lines)?$|\b_?display\.(?!display$|styled)\w+$"
)


def calls(tree: ast.AST, where: str = "") -> list[tuple[str, str]]:
    """Each call of a module, with the function that contains it."""
    found = []
    for node in ast.iter_child_nodes(tree):
        inside = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else where
        if isinstance(node, ast.Call):
            found.append((where, ast.unparse(node.func)))
        found += calls(node, inside)
    return found


def test_all_output_passes_the_filter() -> None:
    tops = ("src/fullmesh", "callback_plugins", "action_plugins", "filter_plugins")
    files = [path for top in tops for path in (ROOT / top).rglob("*.py")]
    files.append(ROOT / "src/devtools/demo.py")
    found = {
        (str(path.relative_to(ROOT)), where)
        for path in files
        for where, name in calls(ast.parse(path.read_text()))
        if WRITES.search(name)
    }
    assert found == PAST_THE_FILTER.keys()


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("print(x)", True),
        ("sys.stderr.write(x)", True),
        ("sys.stdout.buffer.write(x)", True),
        ("self.stream.write(x)", True),
        ("self.console.print(x)", True),
        ("self._display.warning(x)", True),
        ("self._display.display(x)", False),
        ("path.write_text(x)", False),
    ],
)
def test_the_search_finds_each_print_to_a_terminal(text: str, seen: bool) -> None:
    ((_, name),) = calls(ast.parse(text))
    assert bool(WRITES.search(name)) is seen
