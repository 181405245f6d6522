"""The Docker daemon cannot be reached

A command could not talk to the Docker daemon of its node ({detail}): dockerd does not run, or the
account is not in the group that owns its socket.

**Place:** the node and account of this log

**Prove:** on that node, as the same account: systemctl is-active docker; ls -l /var/run/docker.sock; id

**Fix:** Start Docker (systemctl start docker), or add the account to the group docker and log in
again.

**Source:** read: the messages of Docker's client
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-340",
    __doc__,
    examples=(
        "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
        (
            "docker: permission denied while trying to connect to the Docker daemon socket at "
            "unix:///var/run/docker.sock"
        ),
    ),
    patterns=(
        Pattern(
            "onnect to the Docker daemon",
            r"(?P<detail>Cannot connect to the Docker daemon"
            r"|permission denied while trying to connect to the Docker daemon)",
        ),
        Pattern(
            "onnect to the docker API",
            r"(?P<detail>(?:failed|permission denied while trying) to connect to the docker API)",
        ),
    ),
    weight=86,
)
