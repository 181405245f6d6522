"""Slurm: enroot could not start the container

enroot, which pyxis starts for --container-image, failed on a node: {detail}

**Place:** the node that srun or slurmstepd names

**Prove:** on that node, as the job's user: nvidia-smi, ls -ld for each source in
--container-mounts, and grep -E 'RUNTIME|CACHE|DATA|TEMP' /etc/enroot/enroot.conf

**Fix:** For a mount, create its source on every node and let the job's user read it (root often cannot read an NFS
export with root_squash). For a directory, name one in enroot.conf that the user may write. For the hook 98-nvidia.sh,
repair the node's driver (nvidia-smi) or install the matching container toolkit.

**Source:** NVIDIA/pyxis#101, #12, read: pyxis prints enroot's own log, indented
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-730",
    __doc__,
    examples=(
        (
            "slurmstepd: error: pyxis:     [ERROR] /etc/enroot/hooks.d/98-nvidia.sh exited with "
            "return code 1"
        ),
        "slurmstepd: error: pyxis:     mkdir: cannot create directory '/run/enroot': Permission denied",
    ),
    patterns=(
        Pattern(
            "pyxis:  ",
            (
                r"error: pyxis: {2,8}(?P<detail>(?:enroot-\w{1,20}: (?!failed to create user namespace)"
                r"|nvidia-container-cli: |mkdir: |\[ERROR\] /etc/enroot/hooks\.d/)[^\n]{1,180})"
            ),
        ),
        Pattern(
            "pyxis: [ERROR]",
            r"error: pyxis: (?P<detail>\[ERROR\] /etc/enroot/hooks\.d/[^\n]{1,180})",
        ),
        Pattern("pyxis: couldn't mkdir", r"error: pyxis: (?P<detail>couldn't mkdir [^\n]{1,180})"),
    ),
    explains=(Explains(("LG-522", "LG-524")),),
    weight=70,
    recorded=(
        RecordedLog(
            "the hook says why",
            (
                "slurmstepd: error: pyxis: container start failed with error code: 1\n"
                "slurmstepd: error: pyxis: printing enroot log file:\n"
                "slurmstepd: error: pyxis:     nvidia-container-cli: initialization error: nvml "
                "error: driver not loaded\n"
                "slurmstepd: error: pyxis:     [ERROR] /etc/enroot/hooks.d/98-nvidia.sh exited "
                "with return code 1\n"
                "srun: error: node1: task 0: Exited with exit code 1"
            ),
            folded=("LG-304", "LG-522"),
        ),
    ),
)
