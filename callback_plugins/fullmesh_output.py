"""Extend Ansible's default output: show and count all hosts that ask_nodes queried at once.

All displayed text is cleaned first, so that text from a node cannot control the terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# a collection may have its plugins one folder deeper
for one in Path(__file__).resolve().parents[1:3]:
    if (one / "src").is_dir():
        sys.path.insert(0, str(one / "src"))

from ansible import constants  # type: ignore[attr-defined]  # ansible ships no types
from ansible.plugins.callback.default import CallbackModule as Default

from fullmesh.ansible_private import CallbackResult, get_task_id, wrap_display
from fullmesh.play import asked
from fullmesh.printed import clean_styled, clean_text, clean_values

DOCUMENTATION = """
name: fullmesh_output
type: stdout
short_description: The default output, with every host that ask_nodes queried
description:
  - The task ask_nodes runs once and queries all hosts of a play. This callback shows each host's answer on its own
    line, as for any other task, and counts it in the recap.
extends_documentation_fragment:
  - default_callback
  - result_format_callback
requirements:
  - set as stdout in configuration
"""


class CleanDisplay:
    """Clean each text that Ansible writes to the terminal or to its log. Ansible's own colours stay."""

    def __init__(self, display: Callable[..., None]) -> None:
        self.display, self.styled = display, False

    def __call__(self, msg: str, *args: Any, **options: Any) -> None:
        """Display a message."""
        clean = clean_styled if self.styled else clean_text
        self.display(clean(msg), *args, **options)

    @contextmanager
    def styled_by_ansible(self) -> Iterator[None]:
        """Keep colours while Ansible displays text that is cleaned already."""
        self.styled = True
        try:
            yield
        finally:
            self.styled = False


class CallbackModule(Default):  # type: ignore[misc]  # ansible ships no types
    """The callback."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "fullmesh_output"

    def __init__(self) -> None:
        super().__init__()
        self.clean: CleanDisplay = wrap_display(self, CleanDisplay)

    def v2_on_file_diff(self, result: Any) -> None:
        """Show the changed lines of files, which Ansible colours one by one."""
        values = CallbackResult(result).values
        values.update(clean_values(values))
        with self.clean.styled_by_ansible():
            super().v2_on_file_diff(result)

    def v2_runner_on_ok(self, result: Any) -> None:
        """Show that a task finished on a host, or on all hosts at once."""
        answer = CallbackResult(result)
        values, task, own = answer.values, answer.task, answer.host
        asks = task.action.rpartition(".")[2] == asked.ACTION
        statuses = asked.read_host_statuses(values) if asks else {}
        if statuses.get(own) != "ignored":
            super().v2_runner_on_ok(result)
        if asks:
            asked.COUNT.add(get_task_id(task), own, values)
        for host, status in statuses.items():
            if status == "ignored":
                why = str(values["answers"][host].get("msg", "")).partition("\n")[0]
                self.clean(f"failed: [{host}] => {why}", color=constants.COLOR_ERROR)
            elif host != own and self.get_option("display_ok_hosts"):
                self.clean(f"ok: [{host}]", color=constants.COLOR_OK)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Show the recap."""
        asked.COUNT.complete(stats)
        # Ansible colours hosts and counts
        with self.clean.styled_by_ansible():
            super().v2_playbook_on_stats(stats)
