"""Cases of VC-329. Injected with a real Slurm in tests/e2e/test_slurm.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from records import UBUNTU1 as UB

from causes.changes import make_job_login
from fullmesh.verify.model import ClusterObservations

LOGIN = ("limit", "NPROC", "10")


def start_with_srun(*steps: tuple[str, ...], **more: Any) -> Callable[[ClusterObservations], None]:
    """Report a job of srun on ubuntu1, next to a login with a failed step of its own."""

    def change(seen: ClusterObservations) -> None:
        survey = seen.nodes[UB]["node"]["facts"]["survey"]
        found = make_job_login(*steps, **more)
        planned = {"GLOO_SOCKET_IFNAME": "eth1", "MASTER_PORT": "29500"}
        survey["job_start"] = make_job_login(file=planned)
        survey["slurm_start"] = {
            "error": "",
            "steps": found["steps"],
            "task": {},
            "sources": {},
            "prolog": "/etc/slurm/task-prolog",
            "seconds": 0.3,
            **more,  # type: ignore[typeddict-item]
        }

    return change


VERIFICATION = {
    "TaskProlog with another interface": start_with_srun(
        task={"GLOO_SOCKET_IFNAME": "lo", "MASTER_PORT": "29500"},
        sources={"GLOO_SOCKET_IFNAME": "/etc/slurm/task-prolog:2"},
    ),
    "limit of slurmd": start_with_srun(("limit", "MEMLOCK", "65536")),
    "srun that starts nothing": start_with_srun(
        error="srun: error: task 0 launch failed: Slurmd could not execve job"
    ),
}
