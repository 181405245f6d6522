"""A node answers, but its survey failed

ssh works, but Fullmesh's module did not run: Python is missing, the disk is full, or the account
lacks a permission.

**Prove:** ansible -i INVENTORY NODE -m raw -a 'python3 --version && df -h /tmp'

**Fix:** Install Python 3.9 or newer, or set ansible_python_interpreter.
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase

# dg201_unreachable_node finds it, node by node.
CAUSE = Cause(
    "DG-202",
    __doc__,
    weight=310,
    cases=(
        CauseCase(
            "no-python", "the module cannot run: no Python", by=RECORDED, fields=("node", "seen")
        ),
    ),
)
