"""Load filters and tests once, before Ansible forks its workers.

Ansible forks a worker for each task on each host. Without this callback, the first filter makes each worker read every
filter plugin. Its garbage collector also writes to, and so copies, every page that it shares with its parent.
Measurements with two nodes (benchmarks/second_run.py): docs/architecture.md, "Speed".
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Any

# a collection may have its plugins one folder deeper
for one in Path(__file__).resolve().parents[1:3]:
    if (one / "src").is_dir():
        sys.path.insert(0, str(one / "src"))

from ansible.plugins.callback import CallbackBase

from fullmesh.ansible_private import list_play_hosts, load_filters_and_tests
from fullmesh.filters import late

DOCUMENTATION = """
name: fullmesh_preload
type: aggregate
short_description: Loads filters and tests once instead of once for each task and host
description:
  - Loads all filter and test plugins before the workers are forked, so that each has them from the start.
  - Keeps the workers' garbage collector from copying memory that they share with their parent.
requirements:
  - enabled in ansible.cfg
"""


# Several tasks of every run use this module's filters, each in its own worker.
PLAN = "node_view"


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible ships no types
    """The callback. It runs in the process that forks the workers."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "fullmesh_preload"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self.hosts = 0

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """Load at every play, because a role's own plugins make Ansible drop its cache."""
        self.hosts = len(list_play_hosts(play))
        if not self.hosts:  # as most plays of a run that has nothing to do
            return
        load_filters_and_tests()
        late.load_filter(PLAN)
        freeze_objects()

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        """Import all filters before the first task that runs in several workers."""
        del is_conditional
        if self.hosts > 1 and not task.run_once and late.load_all_filters():
            freeze_objects()


def freeze_objects() -> None:
    """Exclude all existing objects from the workers' garbage collection."""
    gc.collect()
    # Python's documentation of gc.freeze: before fork, for pages that stay shared
    gc.freeze()
