"""A rank may open too few files for the world size

Each rank holds a socket for every other rank and group. If the limit is too low, ranks seem to be
missing, and no message mentions open files.

**Prove:** ulimit -n

**Fix:** Raise nofile in /etc/security/limits.d, and LimitNOFILE in units.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import Finding
from fullmesh.verify.model import ClusterObservations
from fullmesh.verify.node import count_needed_files


def rule_open_files(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that processes may open enough files. The errors of too few never name the cause."""
    need = count_needed_files(int(seen.plan["world_size"]))
    for name in seen.plan["nodes"]:
        soft = seen.facts(name).get("limits", {}).get("nofile")
        if soft is not None and 0 <= soft < need:
            yield Finding(
                "VC-105",
                "L1",
                f"a process on {name} may open {soft} files, {need} are needed",
                node=name,
                seen=str(soft),
                expected=f"at least {need}",
                fix=f"{seen.apply('tuning')} (a login from before the change keeps its limit)",
            )


CAUSE = Cause(
    "VC-105",
    __doc__,
    find=rule_open_files,
    explains=(Explains(("VC-323",), has_same_node),),
    cases=(
        CauseCase("nofile", "* and root: nofile 24 in /etc/security/limits.d, or of sshd's unit"),
    ),
)
