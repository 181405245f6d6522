"""Views of a run without a terminal: a line for each phase and regular progress, or the events for programs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol, TextIO

from fullmesh.play import lines
from fullmesh.play.progress import Failure, ProgressListener, RunPhase, RunProgress
from fullmesh.printed import print_text

# The project promises 10.
SILENCE_SECONDS = 8.0


class RunView(ProgressListener, Protocol):
    """The interface between the runner and a view."""

    progress: RunProgress
    preview: str

    def tick(self) -> None:
        """Update the view after some time."""

    def status(self, text: str) -> None:
        """Show a step outside of any playbook."""

    def raw(self, line: str) -> None:
        """Take a line of the event stream."""

    def say(self, text: str, style: str = "") -> None:
        """Show a line of the command itself."""

    def close(self) -> None:
        """End the view."""


class PlainView:
    """Lines of text.

    Attributes:
        preview: the command that previews the changes. If empty, the run is not announced.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.progress = stream, RunProgress(self)
        self.doing = self.preview = ""
        self.begun = self.spoken = time.monotonic()

    def say(self, text: str, style: str = "") -> None:
        """Write a line."""
        del style
        self.spoken = time.monotonic()
        print_text(text, self.stream)

    def announce(self, hosts: Sequence[str]) -> None:
        """Announce a run that changes nodes."""
        if self.preview and not self.progress.check:
            self.say(lines.render_change_notice(hosts, self.preview))

    def ended(self, phase: RunPhase) -> None:
        """Show the line of a phase that has ended."""
        mark = "FAILED " if phase.failed else "ok     "
        self.say(mark + lines.render_phase_line(phase, check=self.progress.check))

    def failed(self, failure: Failure) -> None:
        """Show a failure in full."""
        for line in lines.render_failure(failure):
            self.say(line)

    def said(self, hosts: tuple[str, ...], text: str) -> None:
        """Print a message of the run."""
        for line in lines.render_host_message(hosts, text).split("\n"):
            self.say(f"note   {line}")

    def status(self, text: str) -> None:
        """Remember the current step, and print it if it takes long."""
        if text != self.doing:
            self.doing, self.begun = text, time.monotonic()

    def tick(self) -> None:
        """Print a sign of life if nothing was printed for a long time."""
        now = time.monotonic()
        if now - self.spoken < SILENCE_SECONDS:
            return
        waited = f"{self.doing}, {now - self.begun:.0f} s" if self.doing else ""
        self.say(f"  …    {waited or lines.describe_progress(self.progress, time.time())}")

    def raw(self, line: str) -> None:
        """Do nothing, since people do not read this."""

    def close(self) -> None:
        """Do nothing, since nothing is open."""


class JsonView(PlainView):
    """The events as they come, for programs. The stream has nothing else."""

    def say(self, text: str, style: str = "") -> None:
        """Do nothing, since the stream has only events."""

    def raw(self, line: str) -> None:
        """Print an event."""
        print_text(line, self.stream)
