"""Cases of VC-327."""

from __future__ import annotations

from causes.changes import fail_job_start
from causes.faults import TUNED, VICTIM, Fault, job_account, make_step
from fullmesh.result.findings import WARNING

VERIFICATION = {
    "GPUs of a group": fail_job_start(
        ("device", "/dev/kfd", "render", "mode 0660, owner 0, group 105"),
        ("device", "/dev/dri/renderD128", "render", "mode 0660, owner 0, group 105"),
    ),
    "RDMA of root": fail_job_start(
        ("device", "/dev/infiniband/uverbs0", "", "mode 0600, owner 0, group 0")
    ),
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
