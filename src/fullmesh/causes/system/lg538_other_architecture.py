"""A program is for another kind of CPU

The node cannot run a program or library ({detail}). The image or wheel is for another CPU, for
example x86_64 on an Arm node (Grace, GH200, GB200, DGX Spark), or the file is no program at all.

**Place:** the image of the node of this log

**Prove:** on that node: uname -m; docker image inspect IMAGE --format '{{{{.Architecture}}}}'; file
PROGRAM

**Fix:** Use an image and wheels that are built for the node's CPU (docker buildx --platform
linux/arm64), or choose nodes of one kind.

**Source:** read: errno ENOEXEC, remsky/Kokoro-FastAPI#401
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import RANK_FAILURE_EFFECTS, LogCause, Pattern

CAUSE = LogCause(
    "LG-538",
    __doc__,
    examples=(
        "exec /usr/bin/python3: exec format error",
        "bash: /opt/job/train: cannot execute binary file: Exec format error",
    ),
    patterns=(
        Pattern("exec format error", r"(?P<detail>(?:exec \S{1,120}: )?exec format error)"),
        Pattern("Exec format error", r"(?P<detail>Exec format error)"),
        Pattern("wrong ELF class", r"(?P<detail>wrong ELF class: ELFCLASS\d\d)"),
        # an instruction that this CPU does not have
        Pattern(
            "Illegal instruction",
            r"(?:^\s*|\bline \d+: +\d+ |\btasks? [\d,-]{1,40}: |signal 4 \()(?P<detail>Illegal instruction)",
        ),
        Pattern("(SIGILL)", r"(?P<detail>Signal 4 \(SIGILL\))"),
        Pattern("(exitcode: -4)", r"(?P<detail>exitcode: -4)"),
        Pattern("code 132", r"(?P<detail>exit(?:ed with)? code 132)\b"),
    ),
    explains=(Explains(RANK_FAILURE_EFFECTS),),
    weight=90,
)
