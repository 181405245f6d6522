"""Cases of DG-185."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.changes import Change, held_to, put, rdma, together
from causes.faults import BARE, VICTIM, Fault, at

CHANGES = {
    "login with few files": Change(UB, held_to(nofile=4)),
    "login with few processes": Change(UB, held_to(processes=20)),
    "login that may lock little": Change(
        UB,
        together(
            held_to(memlock=65536),
            put("rdma", rdma(), EL, UB),
            put("limits", {"nofile": 65536, "memlock": -1}, EL, UB),
        ),
    ),
}
FAULTS = (
    Fault(
        "login-limits",
        BARE,
        (
            *at(VICTIM, "useradd -M -u 1999 jobber", "userdel jobber"),
            *at(
                VICTIM,
                "echo 'jobber - nproc 20' >/etc/security/limits.d/fault.conf",
                "rm /etc/security/limits.d/fault.conf",
            ),
        ),
        variables={"launchers_job_user": "jobber"},
    ),
)
