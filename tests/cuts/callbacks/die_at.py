"""SIGKILL for this controller and its workers at the moment a task would begin: before anything of it is sent."""

from __future__ import annotations

import os
import signal

from ansible.playbook.task import Task
from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: die_at
type: aggregate
short_description: Kills the controller where a task begins
description: The task is the one whose name holds the text in FULLMESH_DIE_AT. For tests only.
"""


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Looks at every task before its first host gets it."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "die_at"

    def v2_playbook_on_task_start(self, task: Task, is_conditional: bool) -> None:
        """Die here."""
        if os.environ["FULLMESH_DIE_AT"] in task.get_name():
            os.killpg(os.getpgrp(), signal.SIGKILL)
