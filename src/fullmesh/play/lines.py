"""The text lines of a run, the same for a terminal and a log."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Sequence

from fullmesh.play.phases import PLAN
from fullmesh.play.progress import Failure, RunPhase, RunProgress
from fullmesh.printed import clean_line

SHOWN = 5  # names to list, the others are counted
NAME_WIDTH, OUTCOME_WIDTH = 21, 32
WIDTH = 80  # of a log or pipe
MARK, TIME = 2, 9  # columns of a phase's mark and of its seconds


def format_host_list(hosts: Sequence[str]) -> str:
    """List some names, and count the others."""
    rest = len(hosts) - SHOWN
    return ", ".join(hosts[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def render_change_notice(hosts: Sequence[str], preview: str) -> str:
    """Render the nodes that a run may change, and the command that previews the changes."""
    return f"apply may change {format_count(len(hosts), 'node')}: {format_host_list(hosts)}. To preview: {preview}"


def render_undo_notice(
    hosts: Sequence[str], roles: Sequence[str], preview: str, width: int = WIDTH
) -> list[str]:
    """List the nodes that undo changes, describe the changes, and name the command that previews them."""
    sentences = (
        f"undo changes {format_count(len(hosts), 'node')}: {', '.join(hosts)}.",
        "It restores files, services, sysctls and network settings, and removes the packages that"
        " Fullmesh installed.",
        f"Roles, as far as they changed the node: {', '.join(roles)}.",
    )
    # a name is never cut
    wrap = textwrap.TextWrapper(width, break_on_hyphens=False, break_long_words=False).wrap
    return [*itertools.chain.from_iterable(map(wrap, sentences)), f"To preview: {preview}"]


def format_count(number: int, word: str) -> str:
    """Return a number and its noun."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def describe_phase_outcome(phase: RunPhase, *, check: bool = False) -> str:
    """Describe the result of a phase."""
    if phase.failed:
        return (
            "refused" if phase.name == PLAN else f"failed on {format_host_list(list(phase.failed))}"
        )
    if phase.remark or phase.name == PLAN:
        return phase.remark or "derived"
    total = phase.changes.total()
    if not total:
        return f"{format_count(len(phase.hosts), 'node')} checked" if phase.hosts else "done"
    where = format_count(len(phase.changes), "node")
    return f"{'would make ' if check else ''}{format_count(total, 'change')} on {where}"


def render_phase_line(phase: RunPhase, *, check: bool = False, width: int = 0) -> str:
    """Render a finished phase in one line, or in several of *width* columns (0: any width)."""
    name, came = clean_line(phase.name), clean_line(describe_phase_outcome(phase, check=check))
    room = max(width - MARK - NAME_WIDTH - 1 - TIME - 1, OUTCOME_WIDTH // 2) if width else len(came)
    came, *more = textwrap.wrap(came, room, break_on_hyphens=False) or [""]
    line = f"{name:<{NAME_WIDTH}} {came:<{min(OUTCOME_WIDTH, room) if width else OUTCOME_WIDTH}}"
    indent = " " * (MARK + NAME_WIDTH + 1)
    return "\n".join([f"{line} {phase.seconds:>6.1f} s", *(indent + text for text in more)])


def format_running_task(progress: RunProgress) -> str:
    """Format the running task."""
    task = progress.task.rpartition(" | ")[2]
    return f"{progress.role}: {task}" if progress.role else task


def describe_waiting_hosts(progress: RunProgress) -> str:
    """Describe the hosts that have not answered."""
    hosts = sorted(progress.waiting)
    return f"waiting for {format_host_list(hosts)}" if hosts else ""


def describe_progress(progress: RunProgress, at: float) -> str:
    """Render the progress: the task, its duration, and the hosts that it waits for."""
    if progress.phase is None:
        return "starting"
    parts = [
        f"{progress.phase.name}: {format_running_task(progress)}, {at - progress.task_begun:.0f} s"
    ]
    return ", ".join([*parts, *([describe_waiting_hosts(progress)] if progress.waiting else [])])


def render_failure(failure: Failure) -> list[str]:
    """Why hosts failed, the whole message."""
    # the plan concerns all hosts, whichever host computes it
    where = "" if failure.phase == PLAN else f" on {format_host_list(failure.hosts)}"
    head = f"FAILED{where}, in {failure.phase or 'the run'}: {failure.task}"
    return [head, *(f"  {line}" for line in failure.message.rstrip("\n").split("\n"))]


def render_host_message(hosts: tuple[str, ...], text: str) -> str:
    """Render a message about hosts."""
    return f"{format_host_list(hosts)}: {text}"


def describe_run_changes(progress: RunProgress) -> str:
    """Describe the changes of the whole run in one line."""
    changed = progress.changed()
    if not changed:
        return "no node was changed"
    if not any(changed.values()):
        word = "would change" if progress.check else "changed"
        return f"nothing {word} on {format_count(len(changed), 'node')}"
    word = "would change" if progress.check else "changed"
    return f"{word}: " + ", ".join(f"{host} {number}" for host, number in changed.items())
