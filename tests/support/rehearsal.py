"""Run the trial of a rollback, for tests that simulate systemd."""

from __future__ import annotations

import os
from unittest import mock

from ansible.module_utils.fullmesh.transaction import engine


def rehearse_rollback(argv: list[str]) -> bool:
    """Say whether *argv* asks systemd for a rehearsal, and do it here; this machine need not have a node's programs."""
    words = argv[-1].split() if argv else []
    if words[-1:] != ["rehearse"]:
        return False
    there = mock.patch.object(engine.shutil, "which", lambda name, path: f"/usr/bin/{name}")
    with there, mock.patch.object(engine, "find_failed_trials", return_value=[]):
        engine.rehearse(os.path.dirname(words[-3]))
    return True
