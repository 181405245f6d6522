"""An environment variable of the launcher is missing

{variable} is not set: the script was started without torchrun, or without the cluster's
environment.

**Place:** the node of this log

**Prove:** env | grep -E '^(RANK|WORLD_SIZE|LOCAL_RANK|MASTER_)'

**Fix:** Start it with the launcher of role launchers, or source /etc/fullmesh's environment file
first.

**Source:** read: torch/distributed/rendezvous.py _env_error
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-311",
    __doc__,
    looks=(
        (
            "ValueError: Error initializing torch.distributed using env:// rendezvous: "
            "environment variable RANK expected, but not set"
        ),
    ),
    patterns=(
        Pattern(
            "expected, but not set",
            r"environment variable (?P<variable>\w{1,64}) expected, but not set",
        ),
        # a traceback that was cut before its last line
        Pattern("raise _env_error(", r"raise _env_error\(\"(?P<variable>\w{1,64})\"\)"),
    ),
    explains=(Explains(("LG-201", "LG-316")),),
    key=("variable",),
    weight=91,
    recorded=(
        RecordedLog(
            "a traceback cut before the variable's line",
            (
                '  File "/env/lib/python3.8/site-packages/torch/distributed/rendezvous.py", '
                "line 166, in _env_rendezvous_handler\n"
                '    raise _env_error("MASTER_ADDR")'
            ),
        ),
    ),
)
