"""The progress callback: it prints while a task runs, names missing answers, and stops."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import fullmesh_events as events
import fullmesh_progress as progress
import pytest


def host(name: str) -> Any:
    return SimpleNamespace(get_name=lambda: name)


def test_the_heart_beats_until_it_is_stopped() -> None:
    said: list[str] = []
    twice = threading.Event()

    def say(text: str) -> None:
        said.append(text)
        if len(said) == 2:
            twice.set()

    heart = progress.Heartbeat(say, every=0.01)
    heart.start("Install torch")
    heart.waiting |= {"b", "a"}
    assert twice.wait(10)
    heart.stop()
    count = len(said)
    assert "Install torch" in said[0]
    assert said[-1].endswith("waiting for a, b\n")
    assert heart.thread is None
    assert len(said) == count


def test_many_hosts_are_counted() -> None:
    said: list[str] = []
    spoken = threading.Event()
    heart = progress.Heartbeat(lambda text: (said.append(text), spoken.set())[0], every=0.01)
    heart.start("x")
    heart.waiting |= {f"n{at:03}" for at in range(200)}
    spoken.clear()
    assert spoken.wait(10)
    heart.stop()
    assert "n000, n001, n002, n003, n004 and 195 more" in said[-1]


def test_phases_are_listed_and_answers_are_counted() -> None:
    callback = progress.CallbackModule()
    shown: list[str] = []
    callback._display = SimpleNamespace(display=shown.append)
    callback.v2_playbook_on_play_start(SimpleNamespace(get_name=lambda: "Network"))
    callback.plays[0] = ("Network", callback.plays[0][1] - 5)
    callback.v2_playbook_on_task_start(SimpleNamespace(get_name=lambda: "task"), False)
    callback.v2_runner_on_start(host("a"), SimpleNamespace(action="ansible.builtin.command"))
    callback.v2_runner_on_start(host("b"), SimpleNamespace(action="ansible.builtin.command"))
    callback.v2_runner_on_ok(SimpleNamespace(_host=host("a")))
    assert callback.heart.waiting == {"b"}
    callback.v2_runner_on_failed(SimpleNamespace(_host=host("b")))
    assert callback.heart.waiting == set()
    callback.v2_playbook_on_stats(None)
    assert shown == ["phases: Network 5.0 s"]
    assert callback.heart.thread is None


def test_warning_about_a_missing_folder_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    callback = events.CallbackModule()
    shown: list[Any] = []
    monkeypatch.setattr(callback, "tell", shown.append)
    missing = "Skipped '/opt/x' path due to this access issue: '/opt/x' is not a directory\n"
    answer = SimpleNamespace(
        host="a", values={"warnings": [missing, "low disk"]}, task=SimpleNamespace(action="find")
    )
    callback._answer(answer, "ok")
    assert [one["text"] for one in shown if one["event"] == "said"] == ["low disk"]
