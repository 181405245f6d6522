"""Slurm: enroot could not start the container

enroot, which pyxis starts for --container-image, failed on a node: {detail}

**Where:** the node that srun or slurmstepd names

**Prove:** on that node, as the job's user: nvidia-smi; ls -ld the source of every --container-mounts;
grep -E 'RUNTIME|CACHE|DATA|TEMP' /etc/enroot/enroot.conf and ls -ld these directories

**Fix:** A mount: its source must exist on every node and be open to the job's user (root may not read
an NFS export with root_squash). A directory: give enroot.conf one that the user may write. The hook
98-nvidia.sh: the node's driver must work (nvidia-smi), and its container toolkit fit.

**Source:** NVIDIA/pyxis#101, #12; read: pyxis prints enroot's own log, indented
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-730",
    __doc__,
    looks=(
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
    ),
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
            folded=("LG-304",),
        ),
    ),
)
