"""Shared by the tests of queries: a connection with a simulated ssh."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

from fullmesh.ask import answers, channel, program, rounds, talk

# The module that these tests send. Its arguments say what it does.
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
        seconds, _, ready = text.partition(" ")
        time.sleep(0.3)  # of the start, without a handler
        try:
            signal.signal(signal.SIGUSR1, stop)
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


def make_query(
    folder: Path | str, how: str = "", text: str = "", seconds: int = 20
) -> talk.NodeQuery:
    return talk.NodeQuery(TEST, {"how": how, "text": text}, seconds, str(folder))


def ask(to: channel.ConnectionSpec, question: talk.NodeQuery) -> rounds.Outcome:
    return asyncio.run(rounds.query_all_nodes({"a": to}, {"a": question}, 5))["a"]


def result(to: channel.ConnectionSpec, question: talk.NodeQuery) -> dict[str, Any]:
    return answers.build_task_result(to, ask(to, question))


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
