"""Cases of DG-185."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.changes import Change, combine, limit_logins, make_rdma_ports, set_survey_part
from causes.faults import BARE, VICTIM, Fault, make_step

CHANGES = {
    "login with few files": Change(UB, limit_logins(nofile=12)),
    "login with few processes": Change(UB, limit_logins(processes=20)),
    "login that may lock little": Change(
        UB,
        combine(
            limit_logins(memlock=65536),
            set_survey_part("rdma", make_rdma_ports(), EL, UB),
            set_survey_part("limits", {"nofile": 65536, "memlock": -1}, EL, UB),
        ),
    ),
}
FAULTS = (
    Fault(
        "login-limits",
        BARE,
        (
            *make_step(VICTIM, "useradd -M -u 1999 jobber", "userdel jobber"),
            *make_step(
                VICTIM,
                "echo 'jobber - nproc 20' >/etc/security/limits.d/fault.conf",
                "rm /etc/security/limits.d/fault.conf",
            ),
        ),
        variables={"launchers_job_user": "jobber"},
    ),
)
