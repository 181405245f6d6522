"""The account of jobs may not use the node's GPUs or RDMA interfaces

Their device files belong to a group, which the account is not in. ROCm's `/dev/kfd` and `/dev/dri/renderD*` usually
belong to `render`. Torch then sees no GPU ("No HIP GPUs are available"), although root's commands show all of them. If
only RDMA is closed, NCCL falls back to TCP, or stops.

**Prove:** su -l ACCOUNT -c 'id; ls -l /dev/kfd /dev/dri/renderD* /dev/nvidia* /dev/infiniband'

**Fix:** Add the account to the group (usermod -aG render ACCOUNT), log in again, and restart its jobs.

**Source:** ROCm installation, "Configuring permissions for GPU access"; viebrix/pytorch-gfx803-for-Whisper#1
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names
from fullmesh.verify.cards import get_torch_build
from fullmesh.verify.job_start import list_failed_steps
from fullmesh.verify.model import ClusterObservations

RDMA = "/dev/infiniband/"


def rule_closed_devices(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the account may use the device files of GPUs and RDMA interfaces."""
    for name, start, steps in list_failed_steps(seen, "device"):
        account = shlex.quote(start["account"])
        paths = [one["subject"] for one in steps]
        groups = sorted({one["error"] for one in steps} - {""})
        join = f"usermod -aG {shlex.quote(','.join(groups))} {account}, then log in again and restart the jobs"
        needed = any(not one.startswith(RDMA) for one in paths) and get_torch_build(seen, name) in (
            "cuda",
            "hip",
        )
        yield Finding(
            "VC-327",
            "L1",
            f"{start['account']}, the account of jobs, may not use {join_names(paths)} on {name}",
            node=name,
            seen=f"{paths[0]}: {steps[0]['source']}",
            expected="read and write",
            check=f"on {name}: su -l {account} -c id; ls -l {shlex.quote(paths[0])}",
            fix=f"on {name}: {join}"
            if groups
            else f"on {name}: give a group of {account} read and write on {paths[0]} (a rule of udev)",
            severity=ERROR if needed else WARNING,
        )


CAUSE = Cause(
    "VC-327",
    __doc__,
    find=rule_closed_devices,
    weight=283,
    explains=(Explains(("VC-719",), has_same_node),),
    cases=(
        CauseCase(
            "job-device-closed", "/dev/kfd belongs to a group without the account", severity=WARNING
        ),
    ),
)
