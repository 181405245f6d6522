"""Ray: the head and a node have different versions of Ray or Python

The cluster runs Ray {ray} on Python {python}, and the process on {process} has another version of
Ray or Python. They cannot work together.

**Place:** the node of the process on {process}

**Prove:** on every node, run `ray --version` and `python --version` in the environment that Ray
uses

**Fix:** Install the same version on all nodes from one lock file, and restart Ray on all of them.

**Source:** read: ray/_private/utils.py, check_version_info
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-604",
    __doc__,
    examples=(
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
