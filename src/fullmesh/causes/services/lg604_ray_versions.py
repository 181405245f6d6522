"""Ray: head and node have different versions of Ray or Python

The cluster runs Ray {ray} on Python {python}, and the process on {process} has another version of
one of them: they do not work together.

**Where:** the node of the process on {process}

**Prove:** on every node: ray --version and python --version of the environment that Ray runs in

**Fix:** Install one version on all nodes, from one lock, and start Ray anew everywhere.

**Source:** read: ray/_private/utils.py, check_version_info
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-604",
    __doc__,
    looks=(
        (
            "RuntimeError: Version mismatch: The cluster was started with:\n"
            "    Ray: 2.60.0\n"
            "    Python: 3.11.2\n"
            "This process on node 10.78.7.12 was started with:\n"
            "    Ray: 2.59.0\n"
            "    Python: 3.11.2"
        ),
    ),
    patterns=(
        Pattern(
            "This process on ",
            r"RuntimeError: Version mismatch: The cluster was started with:.{1,80}?Ray: (?P<ray>\S{1,40}).{1,80}?"
            r"Python: (?P<python>\S{1,40}).{1,80}?This process on (?P<process>.{1,120}?) was started with:",
            before=3,
        ),
    ),
    key=("process",),
    weight=95,
)
