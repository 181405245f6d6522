"""A variable of jobs has a value that its file does not seem to set

A file with Windows line endings sets values that end with a carriage return. Blanks and quotes that a
reader keeps are part of the value, too. Programs reject such a number, or look for an interface of
that name. torch ends with a name in `TORCH_LOGS` that it does not know. If a shell cannot read `/etc/fullmesh/env` at
all, the launcher ends.

**Prove:** cat -A /etc/fullmesh/env /etc/environment

**Fix:** Remove the characters that the message names (dos2unix FILE).

**Source:** measured: torchrun rejects --nnodes with a carriage return
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names
from fullmesh.verify.cards import OURS
from fullmesh.verify.job_start import SHOWN, list_failed_steps
from fullmesh.verify.model import ClusterObservations

# A wrong value of these ends a job or splits it.
VITAL = (
    *("MASTER_", "RANK", "WORLD_SIZE", "NODE_RANK", "NNODES", "NPROC", "LOCAL_", "FULLMESH_"),
    *(
        "GLOO_",
        "NCCL_SOCKET",
        "NCCL_IB",
        "NCCL_NET",
        "TP_SOCKET",
        "UCX_NET",
        "OMP_NUM",
        "CUDA_VISIBLE",
        "TORCH_DISTRIBUTED_DEBUG",
        "TORCH_LOGS",
        "PET_",
        "PATH",
    ),
)


def rule_odd_values(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that programs read the values that the files' author meant."""
    for name, _, steps in list_failed_steps(seen, "value", "source"):
        for source in dict.fromkeys(one["source"].partition(":")[0] for one in steps):
            held = [one for one in steps if one["source"].partition(":")[0] == source]
            broken = [one for one in held if one["step"] == "source"]
            place = source or (broken[0]["subject"] if broken else "the login's environment")
            words = join_names([f"{one['subject']} {one['error']}" for one in held], SHOWN)
            vital = broken or any(one["subject"].startswith(VITAL) for one in held)
            yield Finding(
                "VC-315",
                "L1",
                f"a shell on {name} cannot read {place}: {broken[0]['error']}"
                if broken
                else f"values from {place} on {name} are not what they look like: {words}",
                node=name,
                seen="; ".join(
                    f"{one['subject']}: {one['error']} ({one['source'] or place})"
                    for one in held[:SHOWN]
                ),
                expected="plain values and line feeds",
                check=f"on {name}: cat -A {shlex.quote(place)}" if place.startswith("/") else "",
                fix=seen.apply("launch") if place == OURS else f"on {name}: correct {place}",
                severity=ERROR if vital else WARNING,
            )


CAUSE = Cause(
    "VC-315",
    __doc__,
    find=rule_odd_values,
    weight=280,
    explains=(Explains(("VC-322", "VC-324", "VC-325"), has_same_node),),
    cases=(CauseCase("job-env-crlf", "/etc/fullmesh/env with Windows line endings"),),
)
