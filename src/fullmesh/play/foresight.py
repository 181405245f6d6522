"""Render the changes that check mode predicts, as a table for approval."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence

from fullmesh.play.progress import TaskChange
from fullmesh.printed import clean_line

NODES_SHOWN = 4
FILES_SHOWN = 4


def list_change_rows(changes: Sequence[TaskChange]) -> list[tuple[str, str, str]]:
    """List (owner, change, nodes) in the order of the run, without duplicates."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for change in changes:
        owner = clean_line(change.role or change.phase)
        for what in change.what or (change.task.rpartition(" | ")[2],):
            found.setdefault((owner, clean_line(what)), {})[clean_line(change.host)] = None
    return [(owner, what, ", ".join(sorted(hosts))) for (owner, what), hosts in found.items()]


def merge_folder_rows(found: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Many files of one folder on the same nodes share a row."""
    folders = Counter((owner, what.rpartition("/")[0], hosts) for owner, what, hosts in found)
    rows: dict[tuple[str, str, str], None] = {}
    for owner, what, hosts in found:
        folder = what.rpartition("/")[0]
        count = folders[(owner, folder, hosts)]
        many = bool(folder) and count > FILES_SHOWN
        rows[(owner, f"{folder}/ ({count} files)" if many else what, hosts)] = None
    return list(rows)


def format_changed_nodes(hosts: str, everybody: int) -> str:
    """List a few nodes by name, or count many."""
    listed = hosts.split(", ")
    if len(listed) == everybody and everybody > NODES_SHOWN:
        return f"all {everybody}"
    return (
        hosts
        if len(listed) <= NODES_SHOWN
        else f"{', '.join(listed[:2])} and {len(listed) - 2} more"
    )


def render_change_table(changes: Sequence[TaskChange], everybody: int, width: int = 0) -> list[str]:
    """Render the rows as text. The first column appears only if it changes.

    If the table is wider than *width* columns (0: any width), the changes are listed below their role and nodes.
    """
    found = [
        (owner, what, format_changed_nodes(hosts, everybody))
        for owner, what, hosts in merge_folder_rows(list_change_rows(changes))
    ]
    if not found:
        return []
    head = ("role", "what would change", "nodes")
    widths = [max(len(row[at]) for row in [head, *found]) for at in range(len(head))]
    if 0 < width < sum(widths) + 2 * (len(widths) - 1):
        return render_change_list(found, width)
    lines, before = [f"{head[0]:<{widths[0]}}  {head[1]:<{widths[1]}}  {head[2]}"], ""
    for owner, what, hosts in found:
        shown = owner if owner != before else ""
        lines.append(f"{shown:<{widths[0]}}  {what:<{widths[1]}}  {hosts}")
        before = owner
    return lines


def render_change_list(found: Sequence[tuple[str, str, str]], width: int) -> list[str]:
    """Render the changes below a line with their role and nodes. No path and no node name is cut."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for owner, what, hosts in found:
        grouped.setdefault((owner, hosts), []).append(what)
    lines = []
    for (owner, hosts), changes in grouped.items():
        for text, first, more in [(f"{owner} on {hosts}:", "", "    ")] + [
            (what, "  ", "    ") for what in changes
        ]:
            lines += textwrap.wrap(
                text,
                width,
                initial_indent=first,
                subsequent_indent=more,
                break_long_words=False,
                break_on_hyphens=False,
            )
    return lines
