"""Cases of VC-327."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, fail_job_start, make_job_login, set_survey_part
from causes.faults import TUNED, VICTIM, Fault, job_account, make_step
from fullmesh.result.findings import WARNING

VERIFICATION = {
    "GPUs of a group": fail_job_start(
        ("device", "/dev/kfd", "render", "mode 0660, owner 0, group 105"),
        ("device", "/dev/dri/renderD128", "render", "mode 0660, owner 0, group 105"),
    ),
}
RDMA = ("device", "/dev/infiniband/uverbs0", "", "mode 0600, owner 0, group 0")
CHANGES = {
    "RDMA of root": Change(UB, set_survey_part("job_start", make_job_login(RDMA), UB), WARNING)
}
# A stand-in: the number of /dev/null. The nodes' torch is built for CPUs, so it is a warning.
MAKE = "groupadd -f -g 993 kfd && mknod -m 660 /dev/kfd c 1 3 && chgrp kfd /dev/kfd"
FAULTS = (
    Fault(
        "job-device-closed",
        TUNED,
        (*job_account("true"), *make_step(VICTIM, MAKE, "rm /dev/kfd; groupdel kfd")),
        severity=WARNING,
        expect={"cause": "may not use /dev/kfd"},
    ),
)
