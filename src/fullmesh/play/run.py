"""Start ansible-playbook, write its output to a log, and show its progress from its events."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from fullmesh import contract
from fullmesh.play.events import KINDS, PID_VARIABLE, RUN_VARIABLE, VARIABLE
from fullmesh.play.options import AUTO, JSON, needs_password
from fullmesh.play.views import JsonView, PlainView, RunView
from fullmesh.settings import ROOT

LOG, EVENTS = "ansible.log", "events.jsonl"
STEP_SECONDS = 0.1
# A terminal's Ctrl-C also reaches Ansible, which then ends its workers. If it is still running, it gets these signals.
PATIENCE: tuple[tuple[signal.Signals | None, float], ...] = (
    (None, 3.0),
    (signal.SIGINT, 10.0),
    (signal.SIGTERM, 5.0),
    (signal.SIGKILL, 5.0),
)
WORKER_PATIENCE = ((signal.SIGTERM, 3.0), (signal.SIGKILL, 3.0))
TAIL_LINES = 30


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended.

    Attributes:
        code: ansible-playbook's exit code.
        log: everything that it printed.
        in_time: whether it ended before its deadline.
    """

    code: int
    log: Path
    in_time: bool = True


def choose_view(progress: str, *, brief: bool = False) -> RunView:
    """Choose the view of a run. Only a terminal gets motion and colours, and *brief* cuts its notes to one line."""
    if progress == JSON:
        return JsonView(sys.stdout)
    if progress == AUTO and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        from rich.console import Console  # noqa: PLC0415 (slow to import, and only a terminal needs it)

        from fullmesh.play.live import TerminalView  # noqa: PLC0415 (see above)

        return TerminalView(Console(stderr=True), brief=brief)
    return PlainView(sys.stderr)


class LineFollower:
    """The complete lines that a file gained since the last call."""

    def __init__(self, path: Path) -> None:
        self.path, self.offset, self.rest = path, 0, b""

    def lines(self) -> Iterator[str]:
        """Return the new text."""
        with self.path.open("rb") as stream:
            stream.seek(self.offset)
            text = stream.read()
        self.offset += len(text)
        *whole, self.rest = (self.rest + text).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", "replace")


def forward_event(shown: RunView, line: str) -> None:
    """Pass an event on. Skip an invalid one, since a display problem must not end a run."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        event = json.loads(line)
        shown.progress.take(contract.convert_value(KINDS[event["event"]], event))
        shown.raw(line)


def end_process(process: subprocess.Popen[bytes], *, interrupted: bool) -> None:
    """End a run, gently first."""
    for number, seconds in PATIENCE if interrupted else PATIENCE[2:]:
        if number is not None:
            process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=seconds)
            return


def list_workers(events: Path) -> list[int]:
    """Return Ansible's processes that write events to a file. A system without /proc shows none."""
    entry = b"\0%s=%s\0" % (VARIABLE.encode(), os.fsencode(events))
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or belongs to another user
            if (
                entry in b"\0" + (path / "environ").read_bytes()
                and b"ansible-playbook" in (path / "cmdline").read_bytes()
            ):
                found.append(int(path.name))
    return found


def end_workers(events: Path) -> None:
    """End Ansible's workers, which have their own sessions and outlive a main process that SIGHUP or the kernel killed.

    A worker passes SIGTERM on to its ssh. SIGKILL goes to its whole process group.
    """
    for number, seconds in WORKER_PATIENCE:
        for pid in list_workers(events):
            with contextlib.suppress(ProcessLookupError):
                if number == signal.SIGKILL and os.getpgid(pid) == pid:
                    os.killpg(pid, number)
                else:
                    os.kill(pid, number)
        end = time.monotonic() + seconds
        while list_workers(events):
            if time.monotonic() > end:
                break
            time.sleep(STEP_SECONDS)
        else:
            return


@contextlib.contextmanager
def end_on_signals() -> Iterator[None]:
    """End the play on SIGTERM and on a closed terminal (SIGHUP), instead of leaving it behind."""

    def stop(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_with_view(
    command: Sequence[str],
    shown: RunView,
    folder: Path,
    *,
    env: Mapping[str, str] | None = None,
    deadline: float = 0.0,
) -> RunOutcome:
    """Run a playbook in front of a view.

    *folder* keeps log and events, *deadline* is in seconds, 0 for none. KeyboardInterrupt and SystemExit pass on when
    the play has ended. While Ansible asks for a password, nothing is shown, and the deadline waits.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log, events = folder / LOG, folder / EVENTS
    for path in (log, events):
        path.touch(0o600)
    settings = {**os.environ, **(env or {}), VARIABLE: str(events), RUN_VARIABLE: folder.name}
    settings[PID_VARIABLE] = str(os.getpid())
    # the log is a file, so no colours and no line wrapping
    settings |= {"ANSIBLE_NOCOLOR": "1", "ANSIBLE_FORCE_COLOR": "0"}
    begun, follow = time.monotonic(), LineFollower(events)
    asks = needs_password(command)
    with log.open("ab") as stream, end_on_signals():
        process = subprocess.Popen(  # noqa: S603 (our own program's name and the user's options)
            list(command), cwd=ROOT, env=settings, stdout=stream, stderr=subprocess.STDOUT
        )
        in_time, interrupted = True, False
        try:
            while in_time and not has_process_ended(process):
                for line in follow.lines():
                    forward_event(shown, line)
                if asks and not shown.progress.play:
                    begun = time.monotonic()
                    continue
                shown.tick()
                in_time = not deadline or time.monotonic() - begun < deadline
        except KeyboardInterrupt:
            interrupted = True
            raise
        finally:
            if process.poll() is None:
                end_process(process, interrupted=interrupted)
            end_workers(events)
            for line in follow.lines():
                forward_event(shown, line)
            shown.progress.abandon(time.time())
            shown.close()
    return RunOutcome(process.returncode, log, in_time)


def has_process_ended(process: subprocess.Popen[bytes]) -> bool:
    """Wait a moment for the end."""
    try:
        process.wait(timeout=STEP_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def read_ansible_log_tail(log: Path) -> list[str]:
    """Return the end of a log, starting at Ansible's last own error."""
    found = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    starts = [at for at, line in enumerate(found) if line.startswith(("[ERROR]", "ERROR!"))]
    return found[starts[-1] if starts else 0 :][-TAIL_LINES:]
