"""Read the facts of each node for the checks L0, L1 and L6. Their rules are in the causes' modules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fullmesh.observed.ladder import NcclListener
from fullmesh.verify import schedule
from fullmesh.verify.model import ClusterObservations

FILES_PER_RANK = 4  # descriptors per peer and rank (faults.md 47)
FILES_OF_PYTHON = 256  # of a small job: with 12, its ranks hang
PAIR = 2
RUN_RANGE = "net.ipv4.ip_local_port_range"
RUN_RESERVED = "net.ipv4.ip_local_reserved_ports"
# key of a node's facts -> its name
LOOKED_AT = {
    "kernel": "the kernel",
    "glibc": "glibc",
    "nic_driver": "the driver of the cluster's NIC",
    "torch_cuda": "the CUDA that torch is built for",
    "driver_cuda": "the CUDA of the GPU driver",
    "locale": "the locale",
    "time_zone": "the time zone",
}


def count_needed_files(world_size: int) -> int:
    """Return how many files a rank needs to open."""
    return max(FILES_OF_PYTHON, FILES_PER_RANK * world_size)


def list_node_links(seen: ClusterObservations, name: str) -> tuple[tuple[str, str], ...]:
    """List all links of a node in both directions. With many nodes, the node alone is enough."""
    if len(seen.plan["nodes"]) > schedule.MANY:
        return ()
    peers = [peer for peer in seen.plan["nodes"] if peer != name]
    return tuple(pair for peer in peers for pair in ((name, peer), (peer, name)))


def compute_clock_offsets(seen: ClusterObservations) -> dict[str, float]:
    """Return each node's clock offset from the master's, as measured in the handshakes."""
    reference = str(seen.plan["master"]["node"])
    best: dict[str, tuple[float, float]] = {reference: (0.0, 0.0)}

    def note(name: str, error: float, offset: float) -> None:
        if name not in best or error < best[name][0]:
            best[name] = (error, offset)

    for name, node in seen.nodes.items():
        swept = node.get("links", {}).get("swept", {})
        if "clock" in swept and name != reference:
            offset, error = swept["clock"]
            note(name, error, -offset)
        for link in node.get("links", {}).get("links", []):
            if link["offset"] is None:
                continue
            if name == reference:
                note(link["node"], link["offset_error"], link["offset"])
            elif link["node"] == reference:
                note(name, link["offset_error"], -link["offset"])
    return {name: value for name, (_, value) in best.items()}


def get_versions(seen: ClusterObservations, name: str) -> dict[str, str]:
    """Return the versions that must agree."""
    found = seen.facts(name).get("versions", {})
    python = ".".join(str(found.get("python", "")).split(".")[:2])
    system = seen.nodes.get(name, {}).get("node", {}).get("nccl", {}).get("version", "")
    return {
        "torch": str(found.get("torch", "")),
        "python": python,
        "nccl (system)": str(system),
        "nccl (torch's own)": str(found.get("torch_nccl", "")),
    }


def explain_no_nccl(seen: ClusterObservations) -> str:
    """Return why L6 is skipped, or ""."""
    answers: list[Mapping[str, Any]] = [
        seen.nodes.get(name, {}).get("node", {}).get("nccl", {}) for name in seen.plan["nodes"]
    ]
    if not any(answers):
        return "NCCL was not tested: no node has its cluster address"
    if all(not said or said.get("reason") == "missing" for said in answers):
        return "no system library libnccl.so.2 on any node"
    return ""


def list_nccl_answers(seen: ClusterObservations) -> Iterator[tuple[str, NcclListener]]:
    """List the nodes that have NCCL's library, and what it did there without a GPU."""
    for name in seen.plan["nodes"]:
        said = seen.nodes.get(name, {}).get("node", {}).get("nccl")
        if said and said["reason"] != "missing":
            yield name, said


def get_software(seen: ClusterObservations, name: str) -> dict[str, str]:
    """Return a node's software versions, "" if unknown."""
    facts = seen.facts(name)
    said: Mapping[str, Any] = facts.get("software", {})
    gpus = seen.survey(name).get("gpus", {})
    more = {"kernel": facts.get("kernel", ""), "driver_cuda": gpus.get("cuda", "")}
    return {key: str({**said, **more}.get(key) or "") for key in LOOKED_AT}
