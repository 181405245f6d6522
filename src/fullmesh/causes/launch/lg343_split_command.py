"""A command in a shell script is split into two

The shell ran {detail} as a command of its own. It is meant as an argument of the line above, which
does not end with a backslash, or has a space or a comment after it.

**Place:** the script of this log, at the line that the message names

**Prove:** cat -A SCRIPT shows spaces after a backslash, and line ends of Windows (^M)

**Fix:** End each line of the command with a backslash and nothing after it. Values with spaces need
quotes.

**Source:** read: bash's execute_cmd.c
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-343",
    __doc__,
    examples=("train.sh: line 15: --nproc_per_node=8: command not found",),
    patterns=(
        Pattern(
            ": command not found",
            r"line \d{1,6}: (?P<detail>(?:--?[A-Za-z][^\s:]{0,120}|[+\w.]{1,80}=[^\s:]{0,120}): command not found)",
        ),
    ),
    explains=(Explains(("LG-201", "LG-210")),),
    weight=86,
)
