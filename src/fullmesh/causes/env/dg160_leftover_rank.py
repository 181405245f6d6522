"""A file gives every process the rank or the size of one job

torchrun, srun and mpirun set these variables for each process. A script that you start by hand, or
with a launcher that keeps existing values, gets the same rank on every node, or waits for a world
size that is never reached.

**Prove:** grep -rE '(RANK|WORLD_SIZE)=' /etc/environment /etc/profile.d /etc/systemd/system.conf

**Fix:** Remove the variables from the file. Set them on the command line of the job that needs
them.
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.result.findings import WARNING, Finding, join_names

# What a launcher gives each process; a file gives it to all of them.
OF_A_PROCESS = ("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")


# Files that set the environment of every process on the node.
FOR_ALL = ("/etc/environment", "/etc/profile.d/", "/etc/systemd/")


def is_persistent_source(source: str) -> bool:
    """Return whether a file sets a variable for every process. Files of role cluster_env do not count."""
    return source.startswith(FOR_ALL) and "fullmesh" not in source


def rule_leftover_rank_env(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find files that give every process the rank or the size of one job."""
    for name in evidence.nodes:
        found = {
            variable: held
            for variable in OF_A_PROCESS
            if (held := evidence.variable(name, variable))
            and held[0]
            and is_persistent_source(held[1])
        }
        if not found:
            continue
        sources = list(dict.fromkeys(source for _, source in found.values()))
        shown = ", ".join(f"{variable}={value}" for variable, (value, _) in found.items())
        yield Finding(
            "DG-160",
            "L1",
            f"{join_names(sources)} on {name} gives {join_names(list(found))} to every process: a job that is started"
            " without a launcher uses them",
            node=name,
            seen=f"{shown} from {join_names(sources)}",
            expected="none of them in a file",
            fix=f"on {name}: take {join_names(list(found))} out of {join_names(sources)}",
            severity=WARNING,
        )


CAUSE = Cause(
    "DG-160",
    __doc__,
    find=rule_leftover_rank_env,
    needs=("environment",),
    severity=WARNING,
    weight=170,
    cases=(CauseCase("rank-left", "RANK=0 in /etc/environment"),),
)
