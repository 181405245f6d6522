"""Recorded answers of the modules on lab nodes, read by their types, and again after each change by a test.

``recorded/ladder/NAME.json.gz`` has the answer of ladder_node (tests/support/record_ladder.yml),
``NAME-gpus.json.gz`` the collected records of finished ranks (tests/support/record_ranks.py), and
``recorded/diagnose`` the data of whole diagnoses.
"""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any, cast

from record_files import RECORDED, load_record

from fullmesh import contract
from fullmesh.diagnose import judge, root_cause
from fullmesh.filters.observe import verify_cluster
from fullmesh.model.plan import derive_plan
from fullmesh.model.types import ClusterPlan
from fullmesh.observed.ladder import LadderLinksResult, LadderNodeResult, LadderTraceResult
from fullmesh.observed.ranks import CollectedRanks
from fullmesh.verify import build as builder
from fullmesh.verify.model import ClusterObservations, NodeAnswers

# Part of a node's answers -> the type of its module. A diagnosis may have more parts than a
# verification.
PARTS: dict[str, Any] = {**verify_cluster.PARTS, "traced": LadderTraceResult}
EL1, UBUNTU1 = "el1", "ubuntu1"
# Both sets of records come from nodes with these names. Their networks differ in one number.
DIAGNOSED, VERIFIED = "10.78.5.", "10.78.2."


def load_diagnosis(name: str) -> dict[str, Any]:
    """Return the answers of real nodes, and the plan of that run."""
    held: dict[str, Any] = load_record(RECORDED / f"diagnose/{name}.json")
    return held


def load_node_answer(name: str) -> LadderNodeResult:
    """Return the answer of ladder_node on a node of the lab."""
    return contract.convert_value(LadderNodeResult, load_record(RECORDED / f"ladder/{name}.json"))


def make_finished_ranks(name: str, ranks: list[int]) -> CollectedRanks:
    """Return the collected records of ranks: the one recorded rank, once for each rank of the plan."""
    found = contract.convert_value(
        CollectedRanks, load_record(RECORDED / f"ladder/{name}-gpus.json")
    )
    (rank,) = found["ranks"].values()
    found["ranks"] = {str(number): copy.deepcopy(rank) for number in ranks}
    found["ended"]["codes"] = dict.fromkeys(found["ranks"], 0)
    found["ended"]["load"] = 0.5  # of the recording machine, which was busy with other work
    found["doing"] = dict.fromkeys(found["ranks"], "done")
    return found


def get_mac(node: LadderNodeResult) -> str:
    """Return the hardware address of the cluster interface."""
    facts = node["facts"]
    cards = facts["survey"]["interfaces"]
    return next(card["mac"] for card in cards if card["name"] == facts["interface"]["name"])


def build_probes(nodes: dict[str, LadderNodeResult]) -> dict[str, Any]:
    """Return the links and listeners of the healthy diagnosis, as if these were its nodes."""
    recorded = load_diagnosis("healthy")["nodes"]
    text = json.dumps(recorded).replace(DIAGNOSED, VERIFIED)
    for name, node in nodes.items():
        text = text.replace(get_mac(recorded[name]["node"]), get_mac(node))
    found: dict[str, Any] = json.loads(text)
    return found


def build_cluster(ranks: int = 1) -> ClusterObservations:
    """Return the two recorded nodes, with the links and listeners of the healthy diagnosis."""
    held = {name: load_node_answer(name) for name in (EL1, UBUNTU1)}
    probed = build_probes(held)
    hosts = {}
    for name, answer in held.items():
        (address,) = (
            one
            for one, card in answer["facts"]["addresses"].items()
            if card == answer["facts"]["interface"]["name"] and ":" not in one
        )
        hosts[name] = {
            "fullmesh_address": f"{address}/24",
            "fullmesh_interface": answer["facts"]["interface"]["name"],
            "fullmesh_local_ranks": ranks,
        }
    made = derive_plan(hosts)
    nodes: dict[str, Any] = {}
    for name, answer in held.items():
        survey = answer["facts"]["survey"]
        # values that depend on the number of ranks, and a container's 64 MB of shared memory, which
        # no GPU machine has
        survey["environment"]["values"]["WORLD_SIZE"]["value"] = str(made["world_size"])
        survey["shm"] = {"size": 64 << 30, "free": 64 << 30}
        nodes[name] = {
            "node": answer,
            **{
                part: contract.convert_answer(PARTS[part], probed[name][part])
                for part in ("links", "started")
            },
            "gloo": make_finished_ranks(name, made["nodes"][name]["ranks"]),
        }
    return read_again(ClusterObservations(plan=made, nodes=nodes, inventory="inv"))


def read_again(seen: ClusterObservations) -> ClusterObservations:
    """Read the observations again by their types.

    Raises:
        ContractError: a test changed them into a form that no module returns.
    """
    nodes = {
        name: {part: contract.convert_value(PARTS[part], value) for part, value in node.items()}
        for name, node in seen.nodes.items()
    }
    plan = contract.convert_value(ClusterPlan, json.loads(json.dumps(seen.plan)))
    outside = contract.convert_value(LadderLinksResult, seen.outside) if seen.outside else {}
    return replace(
        seen, plan=plan, nodes=cast("dict[str, NodeAnswers]", nodes), outside=cast("Any", outside)
    )


def verify_answers(seen: ClusterObservations) -> dict[str, Any]:
    """Return the result of a verification of these observations."""
    run = builder.VerificationRun(
        "20260102T030405Z-abcd", "2026-01-02T03:04:05+00:00", "2026-01-02T03:04:15+00:00"
    )
    return root_cause.build_result(read_again(seen), run)


World = dict[
    str, Any
]  # the plan of a diagnosis, and each node's answers: {"plan": ..., "nodes": {NAME: {PART: ...}}}


def load_world(name: str) -> World:
    """Load a recorded diagnosis, read by its types."""
    held = load_diagnosis(name)
    return {
        "plan": contract.convert_value(ClusterPlan, held["plan"]),
        "nodes": convert_answers(held["nodes"]),
    }


def convert_answers(nodes: dict[str, Any]) -> dict[str, Any]:
    """Read the modules' answers by their types. A failed answer stays in Ansible's own form."""
    return {
        name: {
            part: contract.convert_answer(PARTS[part], answer) or answer
            for part, answer in parts.items()
        }
        for name, parts in nodes.items()
    }


ABOUT = judge.DiagnosisRun(
    run="20260102T030405Z-abcd",
    started="2026-01-02T03:04:05+00:00",
    finished="2026-01-02T03:04:08+00:00",
    inventory="inv",
)


def diagnose_answers(held: World) -> dict[str, Any]:
    """Return the result of a diagnosis of these answers.

    Raises:
        ContractError: a test changed them into a form that no module returns.
    """
    plan = contract.convert_value(ClusterPlan, json.loads(json.dumps(held["plan"])))
    return judge.diagnose_cluster(plan, convert_answers(held["nodes"]), ABOUT)
