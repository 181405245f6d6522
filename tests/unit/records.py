"""What modules returned on lab nodes, read by their types; and the rollback: whatever a test changes is read again.

``recorded/ladder/NAME.json.gz`` is what ladder_node returned (tests/support/record_ladder.yml), ``NAME-gpus.json.gz``
what ladder_gloo collected of ranks that got to the top (tests/support/record_ranks.py), ``recorded/diagnose`` what
whole diagnoses were made of.
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

# What is kept of a node -> the type that its module returns; a diagnosis may ask for more than a verification.
PARTS: dict[str, Any] = {**verify_cluster.PARTS, "traced": LadderTraceResult}
EL1, UBUNTU1 = "el1", "ubuntu1"
# Both sets of records are of nodes with these names; their networks differ in one number.
DIAGNOSED, VERIFIED = "10.78.5.", "10.78.2."


def load_diagnosis(name: str) -> dict[str, Any]:
    """What real nodes said, and the plan of that run."""
    held: dict[str, Any] = load_record(RECORDED / f"diagnose/{name}.json")
    return held


def load_node_answer(name: str) -> LadderNodeResult:
    """What ladder_node returned on a node of the lab."""
    return contract.convert_value(LadderNodeResult, load_record(RECORDED / f"ladder/{name}.json"))


def make_finished_ranks(name: str, ranks: list[int]) -> CollectedRanks:
    """What ladder_gloo collected: the one rank that was recorded, as often as the plan has ranks."""
    found = contract.convert_value(
        CollectedRanks, load_record(RECORDED / f"ladder/{name}-gpus.json")
    )
    (rank,) = found["ranks"].values()
    found["ranks"] = {str(number): copy.deepcopy(rank) for number in ranks}
    found["ended"]["codes"] = dict.fromkeys(found["ranks"], 0)
    found["ended"]["load"] = 0.5  # of the machine that recorded it, which had other work as well
    found["doing"] = dict.fromkeys(found["ranks"], "done")
    return found


def get_mac(node: LadderNodeResult) -> str:
    """The hardware address of the cluster interface."""
    facts = node["facts"]
    cards = facts["survey"]["interfaces"]
    return next(card["mac"] for card in cards if card["name"] == facts["interface"]["name"])


def build_probes(nodes: dict[str, LadderNodeResult]) -> dict[str, Any]:
    """The links and listeners of the healthy diagnosis, as if these nodes had been its nodes."""
    recorded = load_diagnosis("healthy")["nodes"]
    text = json.dumps(recorded).replace(DIAGNOSED, VERIFIED)
    for name, node in nodes.items():
        text = text.replace(get_mac(recorded[name]["node"]), get_mac(node))
    found: dict[str, Any] = json.loads(text)
    return found


def build_cluster(ranks: int = 1) -> ClusterObservations:
    """The two recorded nodes, verified. Links and listeners are those of the healthy diagnosis."""
    held = {name: load_node_answer(name) for name in (EL1, UBUNTU1)}
    probed = build_probes(held)
    hosts = {}
    for name, told in held.items():
        (address,) = (
            one
            for one, card in told["facts"]["addresses"].items()
            if card == told["facts"]["interface"]["name"] and ":" not in one
        )
        hosts[name] = {
            "fullmesh_address": f"{address}/24",
            "fullmesh_interface": told["facts"]["interface"]["name"],
            "fullmesh_local_ranks": ranks,
        }
    made = derive_plan(hosts)
    nodes: dict[str, Any] = {}
    for name, told in held.items():
        survey = told["facts"]["survey"]
        # what follows from the number of ranks, and a container's 64 MB of shared memory, which no GPU box has
        survey["environment"]["values"]["WORLD_SIZE"]["value"] = str(made["world_size"])
        survey["shm"] = {"size": 64 << 30, "free": 64 << 30}
        nodes[name] = {
            "node": told,
            **{
                part: contract.convert_answer(PARTS[part], probed[name][part])
                for part in ("links", "started")
            },
            "gloo": make_finished_ranks(name, made["nodes"][name]["ranks"]),
        }
    return read_again(ClusterObservations(plan=made, nodes=nodes, inventory="inv"))


def read_again(seen: ClusterObservations) -> ClusterObservations:
    """The same, as the strict reader reads it.

    Raises:
        ContractError: a change made of it what no module returns.
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
    """The result of a verification that saw this."""
    run = builder.VerificationRun(
        "20260102T030405Z-abcd", "2026-01-02T03:04:05+00:00", "2026-01-02T03:04:15+00:00"
    )
    return root_cause.build_result(read_again(seen), run)


World = dict[
    str, Any
]  # the plan of a diagnosis, and what each node said: {"plan": ..., "nodes": {NAME: {PART: ...}}}


def load_world(name: str) -> World:
    """A recorded diagnosis, read by its types."""
    held = load_diagnosis(name)
    return {
        "plan": contract.convert_value(ClusterPlan, held["plan"]),
        "nodes": convert_answers(held["nodes"]),
    }


def convert_answers(nodes: dict[str, Any]) -> dict[str, Any]:
    """What modules returned, read by their types; where one did not end well, Ansible's own words."""
    return {
        name: {
            part: contract.convert_answer(PARTS[part], told) or told for part, told in parts.items()
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
    """The result of a diagnosis that saw this.

    Raises:
        ContractError: a change made of it what no module returns.
    """
    plan = contract.convert_value(ClusterPlan, json.loads(json.dumps(held["plan"])))
    return judge.diagnose_cluster(plan, convert_answers(held["nodes"]), ABOUT)
