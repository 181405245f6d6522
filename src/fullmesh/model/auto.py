"""What the inventory leaves to ``auto`` is put into the plan once the nodes were looked at. Pure.

The plan is derived before any node is touched, so what depends on the nodes (how many ranks each starts, what torch is
made for) stands in ``plan["auto"]`` as what was asked. `apply_auto_choice` turns it into the plan that all roles read.
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
# As many GPUs as the largest machines have (HGX, DGX-2). A data range that is left to auto holds their ranks, so that
# it is known before anybody looked.
MOST_GPUS = 16
USUAL_GPUS = 8


def list_visible_devices(text: object) -> list[str]:
    """The devices that a value of CUDA_VISIBLE_DEVICES leaves to a job."""
    return [one for one in str(text).split(",") if one.strip() not in ("", "-1")]


def count_visible_devices(extra: object) -> int | None:
    """How many GPUs ``cluster_env_extra`` leaves to jobs; None where it says nothing of them."""
    if not isinstance(extra, Mapping) or VISIBLE not in extra:
        return None
    return len(list_visible_devices(extra[VISIBLE]))


def read_auto_settings(
    chosen: Mapping[str, Any], defaults: Mapping[str, Any], *, ranks: bool
) -> AutoSettings:
    """What a host's settings say of torch, and whether its ranks are left to auto.

    Args:
        chosen: the host's settings.
        defaults: the roles' own.
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
    """The plan with what was worked out for all that left it to auto: ``resolved`` beside ``auto``."""
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
