"""The environment file of a node describes another job than those of the other nodes

`/etc/fullmesh/env` has the same NNODES, MASTER_ADDR, MASTER_PORT and FULLMESH_RENDEZVOUS on all nodes. Each node has
its own NODE_RANK and address. If a file was edited, copied from another node or is from an earlier plan, the ranks
wait for each other at different places, or some of them start a smaller job.

**Prove:** compare /etc/fullmesh/env on all nodes

**Fix:** Apply the role cluster_env to all nodes (./fullmesh apply).
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node
from fullmesh.foreign_text import parse_decimal
from fullmesh.result.findings import Finding, join_names
from fullmesh.verify.cards import OURS
from fullmesh.verify.job_start import get_job_start
from fullmesh.verify.model import ClusterObservations

# These are the same on all nodes.
OF_ALL_NODES = ("NNODES", "MASTER_ADDR", "MASTER_PORT", "FULLMESH_RENDEZVOUS")


def choose_planned_value(seen: ClusterObservations, key: str, values: list[str]) -> str:
    """Return the value of a variable for all nodes: the plan's if any node has it, else the most common."""
    master = seen.plan["master"]
    planned = {
        "NNODES": str(len(seen.plan["nodes"])),
        "MASTER_ADDR": master["address"],
        "MASTER_PORT": str(master["port"]),
    }.get(key, "")
    return planned if planned in values else max(values, key=values.count)


def list_unfit_values(
    seen: ClusterObservations, files: dict[str, dict[str, str]], name: str
) -> Iterator[tuple[str, str, str]]:
    """Yield the variables of a node's file that do not fit the other nodes' files: name, value, value that fits."""
    own = files[name]
    for key in OF_ALL_NODES:
        values = [held[key] for held in files.values() if key in held]
        fit = choose_planned_value(seen, key, values) if values else ""
        if own.get(key, "") != fit:
            yield key, own.get(key, ""), fit
    addresses = seen.facts(name).get("addresses", {})
    address = own.get("FULLMESH_ADDRESS", "")
    if addresses and address not in addresses:
        yield "FULLMESH_ADDRESS", address, str(seen.plan["nodes"][name]["address"])
    rank, planned = own.get("NODE_RANK", ""), str(seen.plan["nodes"][name]["node_rank"])
    double = [one for one, held in files.items() if held.get("NODE_RANK") == rank and one != name]
    ranks = [str(number) for number in range(parse_decimal(own.get("NNODES", "")) or 0)]
    if (ranks and rank not in ranks) or (double and rank != planned):
        yield "NODE_RANK", rank, planned
    if parse_decimal(own.get("NPROC_PER_NODE", "")) is None:
        yield "NPROC_PER_NODE", own.get("NPROC_PER_NODE", ""), "a number"


def rule_consistent_files(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the environment files of all nodes describe the same job."""
    starts = {name: get_job_start(seen, name) for name in seen.plan["nodes"]}
    files = {name: start["file"] for name, start in starts.items() if start and start["file"]}
    sized = any("NNODES" in held for held in files.values())
    if len(files) < len(seen.plan["nodes"]) or not sized:
        return
    for name in files:
        odd = list(list_unfit_values(seen, files, name))
        if not odd:
            continue
        values = join_names([f"{key}={value}" if value else f"no {key}" for key, value, _ in odd])
        yield Finding(
            "VC-324",
            "L1",
            f"{OURS} on {name} describes another job than the other nodes': {values}",
            node=name,
            seen=values,
            expected=join_names([f"{key}={fit}" for key, _, fit in odd]),
            check=f"on all nodes: grep -E '^({'|'.join(key for key, _, _ in odd)})=' {OURS}",
            fix=seen.apply("launch"),
        )


CAUSE = Cause(
    "VC-324",
    __doc__,
    find=rule_consistent_files,
    weight=610,
    explains=(Explains(("DG-131",), has_same_node),),
    cases=(CauseCase("job-env-other-size", "NNODES=1 in /etc/fullmesh/env of one node"),),
)
