"""Python does not find the script on a node

Python {detail}. The path does not exist on this node or in this container: it is wrong, its
directory is not mounted, or it is on another node and not shared (a directory in /tmp).

**Place:** the node or container of this log

**Prove:** on each node, in the job's environment: ls -l PATH (the path of the message)

**Fix:** Correct the path, or put the script on a file system that all nodes share and mount. If a
launcher writes it to a temporary directory, set TMPDIR to a shared one.

**Source:** mlcommons/storage#322, read: Python's main.c
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-342",
    __doc__,
    examples=(
        "/usr/bin/python3: can't open file '/srv/job/train.py': [Errno 2] No such file or directory",
    ),
    patterns=(
        Pattern(
            "can't open file",
            r"python[\d.]{0,5}: (?P<detail>can't open file '[^']{1,160}'): \[Errno",
        ),
    ),
    explains=(Explains(("LG-201", "LG-210")),),
    weight=86,
)
