"""What is left to auto where no plan was resolved: a diagnosis, a machine alone."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ladder_samples import plan
from record_files import RECORDED, load_record

from fullmesh.diagnose import judge, shape
from fullmesh.filters import torch_runtime
from fullmesh.model import auto

OPTIONS = {"torch": "2.13.0", "lock": ""}


def build_answer(cards: int, on_bus: int) -> Any:
    """Return a node's answer to a diagnosis, with GPUs that the lab does not have."""
    look = load_record(RECORDED / "ladder/el1.json")
    look["facts"]["survey"]["gpus"] |= {
        "cards": [{"name": "H100", "uuid": str(at), "memory": ""} for at in range(cards)],
        "pci": [{"bus": str(at), "device": "", "driver": ""} for at in range(on_bus)],
    }
    return shape.sanitize_node({"node": look}, {"el1"})


@pytest.mark.parametrize(("cards", "on_bus", "ranks"), [(8, 8, 8), (0, 4, 4), (0, 0, 1)])
def test_a_diagnosis_counts_the_gpus_that_it_saw(cards: int, on_bus: int, ranks: int) -> None:
    small = judge.fill_in_ranks(plan(2), {"el1": build_answer(cards, on_bus)})
    assert {name: node["local_ranks"] for name, node in small["nodes"].items()} == {"el1": ranks}


def test_explicit_settings_win() -> None:
    made = plan(2)
    made["auto"] = {}
    assert (
        judge.fill_in_ranks(made, {"el1": build_answer(8, 8)})["nodes"]["el1"]["local_ranks"] == 1
    )


def made_for(asked: str, made: Any, **accelerators: Any) -> str:
    seen = {"devices": [], "nvidia_driver": "", "nvidia_shown": 0, **accelerators}
    facts = {"fullmesh": {"accelerators": seen}}
    return torch_runtime.torch_runtime_made_for(asked, made, "el1", facts, OPTIONS)


CARD = {"vendor": "nvidia", "bus": "0000:10:00.0", "device": "0x2330", "driver": "nvidia"}


def test_a_role_asks_the_plan_and_else_the_machine() -> None:
    resolved = auto.apply_auto_choice(plan(2), {"accelerator": "cuda13.0", "local_ranks": 8})
    assert made_for("auto", resolved) == "cuda13.0"
    assert made_for("cpu", resolved) == "cpu"
    assert made_for("auto", {}) == "cpu"
    assert made_for("auto", {}, devices=[CARD], nvidia_driver="580.95.05") == "cuda13.0"
    with pytest.raises(AnsibleFilterError, match="PR-116"):
        made_for("auto", {}, devices=[CARD])


@pytest.mark.parametrize(
    ("extra", "count"),
    [
        ({}, None),
        (None, None),
        ("text", None),
        ({auto.VISIBLE: "0,1"}, 2),
        ({auto.VISIBLE: ""}, 0),
        ({auto.VISIBLE: "-1"}, 0),
    ],
)
def test_an_automatic_gpu_count_depends_on_running_jobs(extra: object, count: int | None) -> None:
    assert auto.count_visible_devices(extra) == count
