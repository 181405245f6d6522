"""DeepSpeed: its launcher cannot log in to a node

The deepspeed command starts the other nodes over ssh, and {host} rejects a login without a
password.

**Place:** between the node that printed this and {host}

**Prove:** ssh -o BatchMode=yes HOST true (as the same account)

**Fix:** Start it on every node with --no_ssh (docs/launchers.md), or allow logins between the nodes
(node_ssh_manage: true).

**Source:** read: deepspeed/launcher/runner.py of 0.19
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-686",
    __doc__,
    examples=(
        (
            "RuntimeError: Using hostfile at /job/hostfile but host=10.78.2.12 was not reachable "
            "via ssh. If you are running with a single node please remove /job/hostfile or setup "
            "passwordless ssh."
        ),
    ),
    patterns=(
        Pattern(
            "was not reachable via ssh",
            r"Using hostfile at \S{1,200} but host=(?P<host>\S{1,120}) was not reachable via ssh",
        ),
        # what it ran, if the log ends before its own message
        Pattern(
            "'ssh -o PasswordAuthentication=no ",
            r"'ssh -o PasswordAuthentication=no (?:-p \d{1,5} )?(?P<host>\S{1,120}) hostname' returned non-zero",
        ),
        Pattern(
            "hostname -I']' returned",
            r"'ssh (?:-\w \S{1,40} )?(?P<host>\S{1,120}) hostname -I'\]' returned non-zero exit status",
        ),
    ),
    weight=94,
)
