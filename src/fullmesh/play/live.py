"""The same lines on a terminal, with the running tasks below them."""

from __future__ import annotations

import time

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from fullmesh.play import lines
from fullmesh.play.progress import CONTROLLER, Failure, RunPhase
from fullmesh.play.views import PlainView
from fullmesh.printed import clean_line, clean_text, wrap_text

NODE_ROWS = 8


class TerminalView(PlainView):
    """Coloured lines, and a region that is redrawn."""

    def __init__(self, console: Console, *, brief: bool = False) -> None:
        super().__init__(console.file)  # type: ignore[arg-type]  # rich's own IO[str]
        self.console, self.brief = console, brief
        self.spinner = Spinner("dots" if console.encoding.startswith("utf") else "line")
        self.marks = ("✓", "✗") if console.encoding.startswith("utf") else ("ok", "!!")
        self.live: Live | None = None

    def __rich__(self) -> Group:
        """Render the region: the phase, its task, and each node."""
        now, progress = time.time(), self.progress
        phase = progress.phase
        head, begun = Text(f" {clean_line(self.doing)}"), now - (time.monotonic() - self.begun)
        if not self.doing:
            name = phase.name if phase else "starting"
            task = clean_line(lines.format_running_task(progress))
            head = Text.assemble((f" {clean_line(name):<{lines.NAME_WIDTH}} ", "bold"), task)
            begun = phase.begun if phase else begun
        head.truncate(max(20, self.console.width - 12), overflow="ellipsis")
        self.spinner.update(text=head.append(f"  {now - begun:.0f} s", "dim"))
        return Group(self.spinner, *([] if self.doing else self.rows(now)))

    def rows(self, now: float) -> list[Text]:
        """Return a row for each working node, or a count if there are many."""
        waited = self.progress.waiting
        hosts = sorted({*waited, *(self.progress.phase.hosts if self.progress.phase else ())})
        hosts = [host for host in hosts if host != CONTROLLER]
        if len(hosts) > NODE_ROWS:
            text = lines.describe_waiting_hosts(self.progress) or "all have answered"
            return [self.row(f"{len(hosts)} nodes, {clean_line(text)}")]
        rows = []
        for host in hosts:
            state = f"working, {now - waited[host]:.0f} s" if host in waited else "done, waits"
            name = clean_line(host)
            rows.append(self.row(f"{name:<{lines.NAME_WIDTH - 2}} {state}"))
        return rows

    def row(self, text: str) -> Text:
        """Render a line of the region, cut at the window's edge."""
        shown = Text(f"     {text}", "dim")
        shown.truncate(self.console.width - 1, overflow="ellipsis")
        return shown

    def tick(self) -> None:
        """Start to draw when there is content, and not before a password prompt."""
        if self.live is None and (self.progress.phase is not None or self.doing):
            # rich's own thread could draw after a line has read the region's height and before it is written,
            # which then removes rows outside the region
            self.live = Live(self, console=self.console, auto_refresh=False, transient=True)
            self.live.start()
        if self.live is not None:
            self.live.refresh()

    def say(self, text: str, style: str = "") -> None:
        """Print a line above the region. It stays."""
        self.console.print(Text(clean_text(text), style), soft_wrap=True)

    def ended(self, phase: RunPhase) -> None:
        """Print the line of a phase that has ended."""
        good, bad = self.marks
        mark = Text(f"{bad} ", "bold red") if phase.failed else Text(f"{good} ", "green")
        style = "red" if phase.failed else ""
        width = self.console.width
        line = lines.render_phase_line(phase, check=self.progress.check, width=width)
        self.console.print(mark.append(line, style), soft_wrap=True)

    def failed(self, failure: Failure) -> None:
        """Print a failure in full."""
        head, *message = lines.render_failure(failure)
        self.say(head, "bold red")
        for line in message:
            self.say(line)

    def said(self, hosts: tuple[str, ...], text: str) -> None:
        """Print a message of the run."""
        for line in lines.render_host_message(hosts, text).split("\n"):
            if self.brief:
                shown = Text(f"  {clean_text(line)}", "yellow")
                shown.truncate(self.console.width, overflow="ellipsis")
                self.console.print(shown)
            else:
                wrapped = wrap_text(clean_text(line), self.console.width, "  ", "    ")
                self.say("\n".join(wrapped), "yellow")

    def close(self) -> None:
        """Take the region away."""
        if self.live is not None:
            self.live.stop()
            self.live = None
