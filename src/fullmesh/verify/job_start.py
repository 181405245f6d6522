"""Read the first second of a job: what its account met between the login and the first step of Python."""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.observed.survey import JobLogin, StartStep
from fullmesh.verify.model import ClusterObservations
from fullmesh.verify.socket_interfaces import INTERFACES

LOGIN_FILE = "/etc/environment"
# The launchers use these as they are. torchrun sets the others (RANK, WORLD_SIZE) for each process.
OF_THE_PLAN = (
    *("MASTER_ADDR", "MASTER_PORT", "NNODES", "NODE_RANK", "NPROC_PER_NODE"),
    *("FULLMESH_ADDRESS", "FULLMESH_RENDEZVOUS", *INTERFACES),
)
# A job runs without it; `fullmesh-hang` then has no Python stacks.
HOOKS = ("/opt/fullmesh/hook", "/opt/fullmesh/hook/sitecustomize.py")
SHOWN = 3  # values in one finding


def get_job_start(seen: ClusterObservations, name: str) -> JobLogin | None:
    """Return the start of a job on a node, or None if it was not tried."""
    return seen.survey(name).get("job_start")


def describe_account(start: JobLogin) -> str:
    """Describe the account of a job's start."""
    if start["known"]:
        return f"{start['account']}, the account of jobs,"
    return f"an account without special rights ({start['account']})"


def is_for_all_jobs(seen: ClusterObservations, name: str, start: JobLogin) -> bool:
    """Return whether a step that failed concerns the jobs of this node. Without a known account, root may run them."""
    return start["known"] or bool(seen.survey(name).get("manifest"))


def list_failed_steps(
    seen: ClusterObservations, *kinds: str
) -> Iterator[tuple[str, JobLogin, list[StartStep]]]:
    """List the nodes with failed steps of these kinds."""
    for name in seen.plan["nodes"]:
        start = get_job_start(seen, name)
        held = [one for one in start["steps"] if one["step"] in kinds] if start else []
        if start and held:
            yield name, start, held
