"""A process may not use the RDMA device

The process could not open or use the RDMA device ({detail}). The container did not get
/dev/infiniband, or it lacks the rights to lock memory or create queue pairs.

**Place:** the container or account of this log

**Prove:** in the job's own environment, run `ls -l /dev/infiniband`, `ulimit -l` and `ibv_devinfo`

**Fix:** Pass all of /dev/infiniband to the container, with the capability IPC_LOCK and --ulimit
memlock=-1 (Kubernetes: the RDMA device plugin). On the host, add the account to the group that owns
the devices.

**Source:** read: libibverbs, NCCL's ibvwrap.cc
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-530",
    __doc__,
    examples=(
        "PermissionError: [Errno 13] Permission denied: '/dev/infiniband/uverbs0'",
        (
            "n:1:2 [0] misc/ibvwrap.cc:5 NCCL WARN Call to ibv_create_qp failed with error "
            "Operation not permitted"
        ),
    ),
    patterns=(
        Pattern("ermission denied", r"(?P<detail>Permission denied: '/dev/infiniband/\w{1,40}')"),
        Pattern(
            "ibv_",
            (
                r"Call to (?P<detail>ibv_(?:create|open|alloc|reg)_\w{1,20}) failed(?: with (?:error "
                r")?.{0,20}(?:Operation not permitted|Permission denied))"
            ),
        ),
        Pattern("ibv_", r"Call to (?P<detail>ibv_open_device) failed"),
        Pattern(
            "mlx5dv_devx_obj_create",
            r"(?P<detail>mlx5dv_devx_obj_create\(\w{1,12}\)) failed, [^\n]{1,60}: Operation not permitted",
        ),
    ),
    weight=86,
)
