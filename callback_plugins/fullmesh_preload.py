"""What every worker would do for itself is done once, before Ansible forks it.

A worker is forked for each task on each host. The first filter that it meets makes it read every filter plugin, and its
garbage collector touches, and so copies, every page that it shares with its parent. Measured with two nodes
(benchmarks/second_run.py): docs/architecture.md, "Speed".
"""

from __future__ import annotations

import gc
from typing import Any

from ansible.plugins.callback import CallbackBase
from ansible.plugins.loader import filter_loader, test_loader

DOCUMENTATION = """
name: fullmesh_preload
type: aggregate
short_description: Loads filters and tests once instead of once for each task and host
description:
  - Loads all filter and test plugins before the workers are forked, so that each has them from the start.
  - Keeps the garbage collector of the workers off what they share with their parent.
requirements:
  - enabled in ansible.cfg
"""


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible ships no types
    """The callback; it runs in the process that forks."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "fullmesh_preload"
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """At every play, as a role's own plugins make Ansible forget what it has loaded; cheap where not."""
        del play
        for loader in (filter_loader, test_loader):
            list(loader.all())
        gc.collect()
        # Python's documentation of gc.freeze: before fork, for pages that stay shared
        gc.freeze()
