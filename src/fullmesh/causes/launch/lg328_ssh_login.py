"""A launcher cannot log in to a node over SSH

An SSH login from this node failed ({detail}). Launchers such as mpirun, pdsh and deepspeed start
the other nodes over SSH and need a login without a password.

**Place:** between the launcher's node and the node that the message names

**Prove:** from the launcher's node, as the same account: ssh -o BatchMode=yes HOST true

**Fix:** Start sshd on the node or in its container, on the port that the launcher uses, and set up
keys and known hosts (node_ssh_manage: true). Or use a launcher without SSH (docs/launchers.md,
srun).

**Source:** NVIDIA/nccl-tests#299, read: OpenSSH's messages
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

# The server writes the same words into the journal about logins that fail at its end, such as scans of its port.
# Those lines name a severity before the words, or end with [preauth].
NOT_SERVER = r"(?<!error: )(?<!fatal: )"
NOT_BEFORE_LOGIN = r"(?!.{0,160}\[preauth\])"

CAUSE = LogCause(
    "LG-328",
    __doc__,
    examples=(
        "ssh: connect to host 10.0.0.12 port 22: Connection refused",
        "Host key verification failed.",
    ),
    patterns=(
        Pattern(
            "ssh: connect to host", r"(?P<detail>connect to host \S{1,100} port \d{1,5}: .{1,40})"
        ),
        Pattern("Host key verification failed", r"(?P<detail>Host key verification failed)"),
        Pattern(
            "kex_exchange_identification",
            NOT_SERVER + r"(?P<detail>kex_exchange_identification: [\w :]{5,60})",
        ),
        Pattern(
            "no matching host key type",
            r"(?P<detail>no matching host key type found)" + NOT_BEFORE_LOGIN,
        ),
        Pattern(
            "Too many authentication failures",
            r"(?P<detail>Too many authentication failures)" + NOT_BEFORE_LOGIN,
        ),
        Pattern(
            "ssh exited with exit code 255", r"(?P<detail>\S{1,80}: ssh exited with exit code 255)"
        ),
        Pattern("ermission denied", r"(?P<detail>Permission denied \((?:[a-z-]{1,30},?){1,6}\))"),
        Pattern("UNPROTECTED PRIVATE KEY", r"(?P<detail>UNPROTECTED PRIVATE KEY FILE)"),
    ),
    yields=True,
    weight=83,
)
