"""Open MPI: mpirun cannot start its daemons on the other nodes

mpirun could not start its daemon (orted, prted) on a node, or the daemon could not connect back.
The SSH login failed, Open MPI is not in the PATH of a non-login shell (or has another version), or
a firewall or a second network is in the path.

**Place:** between mpirun's node and the others (a Slurm container often has no ssh)

**Prove:** ssh NODE 'which orted prted && env | grep PATH', which must work without a password

**Fix:** Set up SSH keys and known hosts between all nodes, and start mpirun with --prefix DIRECTORY
and --mca oob_tcp_if_include INTERFACE. Under Slurm with containers, use srun --mpi=pmix instead of
mpirun.

**Source:** open-mpi/ompi#11690, #11936, read: Open MPI's help texts
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import Fact, LogCause, LogEvidence, LogFinding, Pattern

LOGIN = tuple(
    Fact("login error", pattern)
    for pattern in (
        Pattern("Host key verification failed", r"(?P<error>Host key verification failed)"),
        Pattern("ermission denied", r"(?P<error>Permission denied \([\w,-]{1,80}\))"),
        Pattern(
            "Could not resolve hostname", r"(?P<error>Could not resolve hostname [^\s:]{1,100})"
        ),
        Pattern("command not found", r"(?P<error>(?:orted|prted|ssh): command not found)"),
        Pattern("No route to host", r"(?P<error>connect to host .{1,100}: No route to host)"),
    )
)


def describe_login(_finding: LogFinding, evidence: LogEvidence) -> str:
    """Quote the error message of ssh or the shell."""
    said = sorted({values[0] for values, _ in evidence.facts.of("login error")})
    return f"The log says: {said[0]}." if said else ""


CAUSE = LogCause(
    "LG-728",
    __doc__,
    examples=(
        "ORTE was unable to reliably start one or more daemons.",
        "prterun was unable to reliably start one or more daemons.",
        "An ORTE daemon has unexpectedly failed after launch and before",
    ),
    patterns=(
        Pattern("was unable to reliably start one or more daemons"),
        Pattern("daemon has unexpectedly failed after launch"),
        Pattern("has lost communication with a remote daemon"),
    ),
    facts=LOGIN,
    explains=(Explains(("LG-328", "LG-330", "LG-528")),),
    describe=describe_login,
    weight=84,
)
