"""Slurm: enroot is not allowed to make a user namespace

pyxis could not start the container because enroot could not make a user namespace ({reason}). Their
number is limited (user.max_user_namespaces), or the system or a security module forbids them.

**Place:** the node of this log

**Prove:** on that node: unshare -Ur true, and sysctl user.max_user_namespaces
kernel.unprivileged_userns_clone kernel.apparmor_restrict_unprivileged_userns

**Fix:** Raise user.max_user_namespaces on every node (enroot's requirements list the settings), and
end processes of old jobs that hold namespaces.

**Source:** NVIDIA/pyxis#93, read: enroot's requirements
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-729",
    __doc__,
    examples=(
        "slurmstepd: error: pyxis:     enroot-nsenter: failed to create user namespace: No space left on device",
    ),
    patterns=(
        Pattern(
            "failed to create user namespace",
            r"failed to create user namespace: (?P<reason>[\w ]{1,60})",
        ),
    ),
    weight=88,
)
