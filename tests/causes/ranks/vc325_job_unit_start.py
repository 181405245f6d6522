"""Cases of VC-325."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.faults import TUNED, VICTIM, Fault, at
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
UNIT, ACCOUNT = "/etc/systemd/system/fullmesh-job@.service", "trainer"
BEFORE = "/run/fullmesh-job.before"
DROP_IN = f"{UNIT}.d"


def refuse(line: str) -> str:
    """Return the commands that give jobs an account, as launchers_job_user does, and a drop-in that refuses them."""
    return (
        f"useradd -m {ACCOUNT}; cp -p {UNIT} {BEFORE}\n"
        f"sed -i 's/^User=.*/User={ACCOUNT}/' {UNIT}\n"
        f"mkdir -p {DROP_IN}\nprintf '[Service]\\n{line}\\n' > {DROP_IN}/fault.conf\nsystemctl daemon-reload"
    )


FAULTS = tuple(
    Fault(
        "job-unit-refuses",
        TUNED,
        at(
            VICTIM,
            refuse(line),
            f"rm -r {DROP_IN}; cp -p {BEFORE} {UNIT}; rm {BEFORE}; systemctl daemon-reload; userdel -r {ACCOUNT}",
        ),
        variant=variant,
    )
    for line, variant in (
        ("ExecStartPre=/bin/false", ""),
        ("ExecCondition=/bin/false", "condition"),
        ("MemoryDenyWriteExecute=yes", "code"),
    )
)
