"""Cases of VC-325."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.faults import TUNED, Fault, job_account
from fullmesh.verify.model import ClusterObservations


def refuse_unit(seen: ClusterObservations) -> None:
    """A command of a drop-in says no."""
    survey = seen.nodes[UB]["node"]["facts"]["survey"]
    survey["unit_start"] = {"error": "ExecStartPre=/bin/false ended with status 1", "seconds": 0.1}


def refuse_ranks(seen: ClusterObservations) -> None:
    """The ranks of the verification start as the unit."""
    gloo = seen.nodes[UB]["gloo"]
    gloo["ranks"]["1"] = {"events": [], "log": ""}
    gloo["ended"] = {
        "codes": {},
        "killed": [],
        "error": "ExecStartPre=/bin/false ended with status 1",
        "code": "VC-325",
        "fix": "systemctl cat fullmesh-job@",
    }


VERIFICATION = {"unit that refuses jobs": refuse_unit, "unit that refuses ranks": refuse_ranks}
DROP_IN = "/etc/systemd/system/fullmesh-job@.service.d"
FAULTS = tuple(
    Fault(
        "job-unit-refuses",
        TUNED,
        job_account(
            f"mkdir -p {DROP_IN}\nprintf '[Service]\\n{line}\\n' > {DROP_IN}/fault.conf",
            f"rm -r {DROP_IN}",
        ),
        variant=variant,
        expect={"cause": cause},
    )
    for line, variant, cause in (
        ("ExecStartPre=/bin/false", "", "ExecStartPre=/bin/false"),
        ("ExecCondition=/bin/false", "condition", "ExecCondition=/bin/false"),
        ("MemoryDenyWriteExecute=yes", "code", "cannot generate code"),
        ("SystemCallFilter=~epoll_create1", "events", "cannot wait for events"),
    )
)
