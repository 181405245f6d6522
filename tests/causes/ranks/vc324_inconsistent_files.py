"""Cases of VC-324."""

from __future__ import annotations

from collections.abc import Callable

from records import UBUNTU1 as UB

from causes.changes import make_job_login
from causes.faults import TUNED, Fault, edit_file
from fullmesh.verify.model import ClusterObservations


def set_files(**own: str) -> Callable[[ClusterObservations], None]:
    """Give all nodes a file, which has other values on ubuntu1. An empty one is missing there."""

    def change(seen: ClusterObservations) -> None:
        for name, node in seen.nodes.items():
            planned = seen.plan["nodes"][name]
            held = {
                "NNODES": str(len(seen.plan["nodes"])),
                "MASTER_ADDR": seen.plan["master"]["address"],
                "MASTER_PORT": "29500",
                "FULLMESH_RENDEZVOUS": "a:29400",
                "FULLMESH_ADDRESS": planned["address"],
                "NODE_RANK": str(planned["node_rank"]),
                "NPROC_PER_NODE": "1",
            }
            if name == UB:
                held = {key: value for key, value in {**held, **own}.items() if value}
            node["node"]["facts"]["survey"]["job_start"] = make_job_login(file=held)

    return change


VERIFICATION = {
    "another size": set_files(NNODES="1"),
    "no size": set_files(NNODES=""),
    "another master port": set_files(MASTER_PORT="29501"),
    "rank out of range": set_files(NODE_RANK="5"),
    "rank of another node": set_files(NODE_RANK="0"),
    "address of another node": set_files(FULLMESH_ADDRESS="192.0.2.1"),
    "no number of ranks": set_files(NPROC_PER_NODE=""),
}
FAULTS = (
    Fault(
        "job-env-other-size",
        TUNED,
        edit_file("/etc/fullmesh/env", "sed -i 's/^NNODES=.*/NNODES=1/' /etc/fullmesh/env"),
    ),
)
