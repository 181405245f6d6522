"""A variable of jobs has a name that no library reads (warning)

A wrong letter in the name is enough: NCCL ignores `NCCL_SOCKET_IFNAM`, chooses an interface by itself, and prints
nothing. The same happens with a name that only other versions of NCCL know. Fullmesh compares the names with those in
the NCCL library that a job would load.

**Prove:** strings -n 5 libnccl.so.2 | grep -x NAME

**Fix:** Correct the name, or remove the variable.

**Source:** measured: the names in the libraries of NCCL 2.28.9 and 2.30.7
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.result.findings import WARNING, Finding, join_names
from fullmesh.verify.job_start import SHOWN, list_failed_steps
from fullmesh.verify.model import ClusterObservations


def rule_unread_variables(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that a library reads each variable of jobs."""
    for name, _, steps in list_failed_steps(seen, "name"):
        names = join_names([one["subject"] for one in steps], SHOWN)
        near = join_names([one["error"] for one in steps], SHOWN)
        places = sorted({one["source"].partition(":")[0] for one in steps} - {""})
        yield Finding(
            "VC-328",
            "L1",
            f"{names} {'has' if len(steps) == 1 else 'have'} no effect on {name}: jobs read {near}",
            node=name,
            seen="; ".join(f"{one['subject']} ({one['source']})" for one in steps[:SHOWN]),
            expected=near,
            check=f"on {name}: cat -A {' '.join(map(shlex.quote, places))}" if places else "",
            fix=f"on {name}: correct the name in {join_names(places) or 'the login'}",
            severity=WARNING,
        )


CAUSE = Cause(
    "VC-328",
    __doc__,
    find=rule_unread_variables,
    weight=120,
    severity=WARNING,
    cases=(CauseCase("job-variable-unread", "NCCL_SOCKET_IFNAM in /etc/environment"),),
)
