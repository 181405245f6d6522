"""A node starts more or fewer ranks than it has GPUs (a warning for fewer, set by hand)

A job starts fullmesh_local_ranks ranks on each node, and every rank uses the GPU of its number. Too
few ranks leave GPUs idle, and too many leave ranks without a GPU. A GPU under MIG is several
devices and is not counted.

**Prove:** nvidia-smi -L && grep -r LOCAL_WORLD_SIZE /etc/fullmesh/env

**Fix:** Set fullmesh_local_ranks to the number of GPUs. To keep some GPUs out of jobs, list the
others in CUDA_VISIBLE_DEVICES (cluster_env_extra).
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, Explains
from fullmesh.causes.relations import has_same_node
from fullmesh.model.auto import VISIBLE, list_visible_devices
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names
from fullmesh.verify.cards import get_gpu_survey, has_gpus, list_gpus
from fullmesh.verify.model import ClusterObservations


def count_usable_gpus(seen: ClusterObservations, name: str) -> tuple[int, str]:
    """Return how many GPUs a job on a node may use (0: unknown), and the source of the number.

    With MIG, a GPU is several devices, which are not counted.
    """
    gpus = list_gpus(seen, name)
    if any(gpu.get("mig") == "Enabled" for gpu in gpus):
        return 0, ""
    given = seen.survey(name).get("environment", {}).get("values", {}).get(VISIBLE)
    if given and has_gpus(seen, name):
        return len(list_visible_devices(given["value"])), VISIBLE
    return len(gpus) or len(get_gpu_survey(seen, name).get("pci", [])), "GPUs"


def has_explicit_ranks(seen: ClusterObservations, name: str) -> bool:
    """Return whether the inventory itself sets the ranks of a node. Plans from before ``auto`` count as not set."""
    asked = seen.plan.get("auto")
    return asked is not None and not (name in asked and asked[name]["ranks"])


def rule_ranks_per_gpu(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that a node starts as many ranks as it has GPUs. If the user set fewer, it is only a warning."""
    groups: dict[tuple[int, int, str, bool], list[str]] = {}
    for name, node in seen.plan["nodes"].items():
        count, source = count_usable_gpus(seen, name)
        ranks = int(node["local_ranks"])
        if count and count != ranks:
            key = (ranks, count, source, has_explicit_ranks(seen, name))
            groups.setdefault(key, []).append(name)
    for (ranks, count, source, by_hand), names in groups.items():
        said = f"{VISIBLE} names {count} GPUs" if source == VISIBLE else f"{count} GPUs are there"
        idle = f"{count - ranks} of them idle" if ranks < count else "the others have none"
        yield Finding(
            "VC-718",
            "L7",
            f"a job starts {ranks} rank(s) on {join_names(names)} and {said}: {idle}",
            node=names[0],
            peer=join_names(names[1:]),
            seen=f"fullmesh_local_ranks: {ranks}" + (", set by hand" if by_hand else ""),
            expected=f"fullmesh_local_ranks: {count}",
            fix=(
                f"fullmesh_local_ranks: {count} for {join_names(names)}, or auto, in the inventory (or, if jobs "
                "should not use "
                f"all GPUs, cluster_env_extra: {{{VISIBLE}: ...}}). Then {seen.apply('launch')}"
            ),
            severity=WARNING if by_hand and ranks < count else ERROR,
        )


CAUSE = Cause(
    "VC-718",
    __doc__,
    find=rule_ranks_per_gpu,
    weight=370,
    explains=(Explains(("VC-711",), has_same_node),),
)
