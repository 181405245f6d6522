"""A container cannot be started: its image file or a mount is missing

The container runtime of a node could not open the image file or mount a path ({detail}). The path is
not there on this node, or the account may not read it.

**Place:** the node of this log, and the paths in the container's options

**Prove:** on that node, as the job's account: ls -ld PATH; findmnt -T PATH

**Fix:** Create or mount the path on every node, correct the option (--bind, -v, --container-mounts),
or move the image file to a file system that all nodes share.

**Source:** read: runc's and Apptainer's messages
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-339",
    __doc__,
    examples=(
        'runc create failed: unable to start container process: error mounting "/data" to rootfs at "/data": no such',
        "FATAL:   container creation failed: mount hook function failure: mount /a->/a error: no such file",
        "FATAL:   could not open image /home/u/x.sif: failed to retrieve path for /home/u/x.sif",
    ),
    patterns=(
        Pattern('error mounting "', r'error mounting "(?P<detail>[^"\n]{1,200})" to rootfs'),
        Pattern(
            "container creation failed: mount",
            r"container creation failed: (?P<detail>mount [^\n]{5,120})",
        ),
        Pattern("could not open image ", r"FATAL: +(?P<detail>could not open image [^\s:]{1,200})"),
        Pattern(
            "while extracting ", r"FATAL: +(?P<detail>while extracting \S{1,200}): root filesystem"
        ),
    ),
    weight=86,
)
