"""The live view on a real terminal: permanent lines stay, whatever is drawn below them."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import pyte
import pytest

from fullmesh.settings import ROOT

WIDTH, HEIGHT = 80, 400
# Phases and notes as quickly as they can come, nodes that start and end between two looks, a name wider than the
# terminal; and whatever thread might draw does so all the time, since one that draws eight times a second
# collides once in a hundred runs.
SCRIPT = """
import json, sys, time
from rich.console import Console
from fullmesh.play import live, run

class Busy(live.Live):
    def __init__(self, *args, **settings):
        super().__init__(*args, **{**settings, "refresh_per_second": 500})

live.Live = Busy
sys.setswitchinterval(1e-6)
shown = live.TerminalView(Console(file=sys.stderr))

def take(**event):
    run.forward_event(shown, json.dumps({"at": time.time(), **event}))

take(event="began", playbook="site.yml", plays=[], check=False)
for turn in range(60):
    for play in ("Configure the network", "Configure the firewall"):
        hosts = ["a", "b", "c", f"a-node-with-a-name-{'x' * 80}"][: 2 + 2 * (turn % 2)]
        take(event="play", play=play, hosts=hosts)
        take(event="task", task="Write", role="")
        for host in hosts:
            take(event="host", host=host)
        take(event="said", host="a", text=f"note {turn} {play}")
        shown.tick()
        time.sleep(0.01)
        for host in hosts:
            take(event="answer", host=host, status="changed", what=["x"])
        if len(hosts) > 2:
            take(event="failure", host="b", task="Write", role="", message="[XX-101] no.", caught=False)
        shown.tick()
shown.progress.abandon(time.time())
shown.close()
"""


@pytest.fixture(scope="module")
def shown() -> list[str]:
    """Return the final content of the terminal."""
    own = {"PYTHONPATH": str(ROOT / "src"), "LANG": "C.UTF-8", "TERM": "xterm-256color"}
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, **own, "COLUMNS": str(WIDTH)},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    screen = pyte.Screen(WIDTH, HEIGHT)
    stream = pyte.ByteStream(screen)
    try:
        while raw := os.read(ours, 65536):
            stream.feed(raw)
    except OSError:  # how Linux tells that the other end is closed
        pass
    os.close(ours)
    lines = "\n".join(line.rstrip() for line in screen.display).strip("\n").splitlines()
    assert process.wait() == 0, lines
    return lines


def test_every_line_is_printed_once_in_order(shown: list[str]) -> None:
    wanted = []
    for turn in range(60):
        for play in ("Configure the network", "Configure the firewall"):
            name = play.removeprefix("Configure the ")
            wanted.append(f"  a: note {turn} {play}")
            if turn % 2:
                wanted += [f"FAILED on b, in {name}: Write", "  [XX-101] no.", f"✗ {name}"]
            else:
                wanted.append(f"✓ {name}")
    # a phase ends with the next one's first task, after the note that was said in it
    assert [line.partition("  ")[0] if line[0] in "✓✗" else line for line in shown] == wanted


def test_nothing_of_the_live_region_remains(shown: list[str]) -> None:
    assert not [line for line in shown if "working" in line or "done, waits" in line]
