"""Cases of VC-324."""

from __future__ import annotations

from collections.abc import Callable

from records import UBUNTU1 as UB

from causes.changes import start_of_job
from causes.faults import TUNED, Fault, edited
from fullmesh.verify.model import ClusterObservations


def files(**own: str) -> Callable[[ClusterObservations], None]:
    """All nodes have a file, and ubuntu1's has other values. An empty one is missing."""

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
            node["node"]["facts"]["survey"]["job_start"] = start_of_job(file=held)

    return change


VERIFICATION = {
    "another size": files(NNODES="1"),
    "no size": files(NNODES=""),
    "another master port": files(MASTER_PORT="29501"),
    "rank out of range": files(NODE_RANK="5"),
    "rank of another node": files(NODE_RANK="0"),
    "address of another node": files(FULLMESH_ADDRESS="192.0.2.1"),
    "no number of ranks": files(NPROC_PER_NODE=""),
}
FAULTS = (
    Fault(
        "job-env-other-size",
        TUNED,
        edited("/etc/fullmesh/env", "sed -i 's/^NNODES=.*/NNODES=1/' /etc/fullmesh/env"),
    ),
)
