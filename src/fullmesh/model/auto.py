"""Resolve the values that the inventory leaves to ``auto``, once the nodes are surveyed. Pure.

The plan is derived before any node is contacted. Values that depend on the nodes (ranks per node, the torch build)
are first kept in ``plan["auto"]`` as requests. `apply_auto_choice` resolves them for the plan that all roles read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fullmesh.model.types import AutoSettings, ClusterPlan
from fullmesh.observed.node import ResolvedSettings
from fullmesh.plain import parse_switch

AUTO = "auto"
VISIBLE = "CUDA_VISIBLE_DEVICES"
# The GPUs of the largest machines (HGX, DGX-2). A data range of auto has room for their ranks, so that it is known
# before the survey.
MOST_GPUS = 16
USUAL_GPUS = 8


def list_visible_devices(text: object) -> list[str]:
    """List the devices that a value of CUDA_VISIBLE_DEVICES leaves to a job."""
    return [one for one in str(text).split(",") if one.strip() not in ("", "-1")]


def count_visible_devices(extra: object) -> int | None:
    """Count the GPUs that ``cluster_env_extra`` leaves to jobs. Return None if it does not set CUDA_VISIBLE_DEVICES."""
    if not isinstance(extra, Mapping) or VISIBLE not in extra:
        return None
    return len(list_visible_devices(extra[VISIBLE]))


def read_auto_settings(
    chosen: Mapping[str, Any], defaults: Mapping[str, Any], *, ranks: bool
) -> AutoSettings:
    """Read a host's settings for torch, and whether its ranks are left to auto.

    Args:
        chosen: the host's settings.
        defaults: the defaults of the roles.
        ranks: ``fullmesh_local_ranks`` is auto.
    """

    def setting(name: str) -> Any:
        return chosen.get(name, defaults[name])

    return {
        "ranks": ranks,
        "accelerator": str(setting("torch_runtime_accelerator")),
        "torch": str(setting("torch_runtime_version")),
        "lock": str(setting("torch_runtime_requirements")),
        "driver_branch": str(setting("nvidia_driver_branch"))
        if parse_switch(setting("nvidia_driver_manage"))
        else "",
        "visible": count_visible_devices(chosen.get("cluster_env_extra")),
    }


def apply_auto_choice(plan: ClusterPlan, choice: ResolvedSettings) -> ClusterPlan:
    """Return the plan with all ``auto`` values resolved. The choice itself becomes ``resolved``, next to ``auto``."""
    made: ClusterPlan = json.loads(json.dumps(plan))
    made["resolved"] = choice
    first = 0
    for host, node in made["nodes"].items():
        asked = made.get("auto", {}).get(host)
        if asked and asked["ranks"]:
            node["local_ranks"] = choice.get("local_ranks", node["local_ranks"])
        if asked and asked["accelerator"] == AUTO:
            node["accelerator"] = choice.get("accelerator", "")
        node["first_rank"] = first
        node["ranks"] = list(range(first, first + node["local_ranks"]))
        first += node["local_ranks"]
    made["world_size"] = first
    return made
