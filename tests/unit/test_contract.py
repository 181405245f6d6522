"""Recorded answers match their types, and the strict reader names a mismatch by its path."""

from __future__ import annotations

import copy
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast, get_args, get_type_hints

import pytest
import records
from record_files import RECORDED, load_record, name_record, write_record

from fullmesh import contract, node_values
from fullmesh.causes.node.vc307_answer_format import rule_answer_format
from fullmesh.diagnose import inventory
from fullmesh.filters.observe import verify_cluster
from fullmesh.model.types import ClusterPlan
from fullmesh.observed import ladder, node, ranks, survey
from fullmesh.report import model
from fullmesh.verify import blocked, gpu
from fullmesh.verify import ranks as verify_ranks
from fullmesh.verify.model import ClusterObservations

# The end of a record's name -> its content. See tests/support/record_ladder.yml and
# record_ranks.py.
KINDS: dict[str, Any] = {
    "": ladder.LadderNodeResult,
    "facts": node.NodeFacts,
    "links": ladder.LadderLinksResult,
    "started": ranks.StartedRanks,
    "gloo": ranks.CollectedRanks,
    "gpus": ranks.CollectedRanks,
}
# Fields that Ansible adds to every answer.
ANSIBLES = {"failed", "changed", "invocation", "warnings"}


def answers() -> Iterator[Any]:
    """List every recorded answer: (its file, type, answer)."""
    for path in sorted((RECORDED / "ladder").glob("*.json.gz")):
        name = name_record(path)
        yield pytest.param(KINDS[name.partition("-")[2]], load_record(path), id=name)
    for path in sorted((RECORDED / "diagnose").glob("*.json.gz")):
        held = load_record(path).get("nodes", {})
        for name, said in held.items():
            for part, kind in (
                ("node", ladder.LadderNodeResult),
                ("links", ladder.LadderLinksResult),
            ):
                if part in said:
                    answer = {k: v for k, v in said[part].items() if k not in ANSIBLES}
                    yield pytest.param(kind, answer, id=f"{path.name}-{name}-{part}")
            if "listeners" in said.get("started", {}):
                answer = said["started"]["listeners"]
                yield pytest.param(
                    ladder.ListenerReport, answer, id=f"{path.name}-{name}-listeners"
                )


@pytest.mark.parametrize(("kind", "answer"), list(answers()))
def test_a_recorded_answer_matches_its_type(kind: Any, answer: Any) -> None:
    assert contract.convert_value(kind, answer) == answer


@pytest.mark.parametrize("step", ["sockets", "latency", "bandwidth", "gpus", "nccl_sizes", "ddp"])
@pytest.mark.parametrize("data", [{}, "x", {"applicable": 1}, {"listeners": [[1]]}])
def test_an_invalid_step_is_reported_and_finds_nothing(step: str, data: Any) -> None:
    """A rank is a user's process, so the other rules judge its valid output."""
    said = load_record(RECORDED / "ladder/el1-gpus.json")
    for event in said["ranks"]["0"]["events"]:
        if event["step"] == step and event["state"] == "ok":
            event["data"] = data
    with pytest.raises(contract.ContractError) as refused:
        contract.convert_value(ranks.CollectedRanks, said)
    assert [path for path in refused.value.paths if path.startswith("$.ranks")]
    whole = contract.convert_rank_steps(said["ranks"]["0"])
    assert step not in whole
    assert "groups" in whole
    seen = records.build_cluster()
    seen.nodes["el1"]["gloo"] = cast("ranks.CollectedRanks", said)
    assert len(verify_ranks.build_rank_rows(seen)) == 2
    assert {one.code for one in (*verify_ranks.check_ranks(seen), *gpu.check_gpu_jobs(seen))} <= {
        "VC-717",
        "VC-718",
    }
    assert verify_ranks.summarize_collectives(seen)["world_size"] == 2
    assert gpu.build_nccl_details(seen)
    assert gpu.build_training_details(seen)


def test_there_are_records_of_both_families_and_of_broken_links() -> None:
    names = {str(one.id) for one in answers()}
    assert {"el1", "ubuntu1"} <= names
    assert sum(name.endswith("-links") for name in names) >= 16


@pytest.fixture
def look() -> Any:
    return load_record(RECORDED / "ladder/ubuntu1.json")


def test_an_unknown_field_is_refused_at_any_depth(look: Any) -> None:
    look["facts"]["survey"]["gpus"]["cardz"] = []
    look["ports"][1]["prot"] = 1
    with pytest.raises(contract.ContractError) as refused:
        contract.convert_value(ladder.LadderNodeResult, look)
    assert refused.value.paths == {
        "$.facts.survey.gpus.cardz": "unknown field",
        "$.ports[1].prot": "unknown field",
    }


def test_a_missing_field_is_refused_with_its_place(look: Any) -> None:
    del look["facts"]["survey"]["gpus"]["cards"]
    with pytest.raises(contract.ContractError) as refused:
        contract.convert_value(ladder.LadderNodeResult, look)
    assert refused.value.paths == {"$.facts.survey.gpus": "Object missing required field `cards`"}


def test_a_field_of_another_type_is_refused_with_its_place(look: Any) -> None:
    look["facts"]["cpus"] = "2"
    with pytest.raises(
        contract.ContractError, match=r"^\$\.facts\.cpus: Expected `int`, got `str`$"
    ):
        contract.convert_value(ladder.LadderNodeResult, look)


def test_no_answer_at_all_is_refused() -> None:
    with pytest.raises(contract.ContractError, match=r"^\$: Expected `object`, got `null`$"):
        contract.convert_value(survey.NodeSurvey, None)


def test_a_copy_is_separate_from_its_input(look: Any) -> None:
    before = copy.deepcopy(look)
    contract.convert_value(ladder.LadderNodeResult, look)["ports"].clear()
    assert look == before


def register_answers(look: Any) -> dict[str, Any]:
    """Return the role's registered data after one node was queried and no link was tested."""
    skipped = {"changed": False, "skipped": True, "skip_reason": "Conditional result was False"}
    looked = {"answers": {"ubuntu1": look | {"changed": False}}, "changed": False, "ordinary": {}}
    return {"__verify_cluster_node": looked, "__verify_cluster_links": skipped}


def test_a_skipped_task_has_no_output(look: Any) -> None:
    found = verify_cluster.collect_node_answers(register_answers(look), {"nodes": ["ubuntu1"]})
    assert found == ({"ubuntu1": {"node": look}}, {})


def test_an_invalid_answer_is_named_and_the_rest_is_judged(look: Any) -> None:
    del look["facts"]["survey"]["disk"]["free"]
    nodes, odd = verify_cluster.collect_node_answers(register_answers(look), {"nodes": ["ubuntu1"]})
    assert nodes["ubuntu1"]["node"]["facts"] == look["facts"]
    assert odd == {"ubuntu1": ["$.facts.survey.disk: Object missing required field `free`"]}
    [found] = rule_answer_format(ClusterObservations(plan={}, nodes=nodes, odd=odd))
    assert (found.code, found.node, found.severity) == ("VC-307", "ubuntu1", "warning")
    assert found.seen == odd["ubuntu1"][0]


PLANS = [
    pytest.param(load_record(path)["plan"], id=path.name)
    for path in sorted((RECORDED / "diagnose").glob("*.json.gz"))
    if not path.name.startswith("policies")
]


@pytest.mark.parametrize("made", PLANS)
def test_a_recorded_plan_matches_its_type(made: Any) -> None:
    assert contract.convert_value(ClusterPlan, made) == made


@pytest.mark.parametrize(
    "variables",
    [
        {"fullmesh_address": "10.78.2.11/24", "time_sync_source": "leader"},
        {
            "fullmesh_links": [
                {"vlan": {"id": 7, "parent": "eth1"}, "addresses": ["fd00::1/64"], "mtu": 9000}
            ]
        },
        {"ansible_host": "10.78.2.11"},
    ],
    ids=["site.yml's", "VLAN", "guessed"],
)
def test_a_derived_plan_matches_its_type(variables: dict[str, Any]) -> None:
    made = inventory.build_tolerant_plan({"n1": variables}, ["n1"])
    assert contract.convert_value(ClusterPlan, json.loads(json.dumps(made))) == made


def test_every_table_of_verdicts_is_complete() -> None:
    words = set(get_args(ladder.Verdict))
    assert set(blocked.VERDICTS) == words
    assert set(blocked.CODES_OF) == set(blocked.SAID) == words - {"open"}
    assert set(model.STATES) == words | {model.UNKNOWN}


def test_every_pattern_belongs_to_a_field_of_a_record() -> None:
    for record, patterns in {**node_values.CHECKED, **node_values.NAMED}.items():
        module, _, name = record.partition(".")
        kind = getattr(importlib.import_module(f"fullmesh.observed.{module}"), name)
        assert patterns.keys() <= get_type_hints(kind).keys(), record
        assert record in node_values.NAMED or contract.narrow_type(kind) is not kind


def test_long_recorded_json_is_stored_compressed_without_a_time_stamp() -> None:
    """The same text always gives the same bytes, so recording unchanged data again changes no file."""
    # a store of undo points is copied to a node unchanged, and people edit the table of tool cases
    plain = [path for path in RECORDED.rglob("*.json") if not {"undo", "tools"} & {*path.parts}]
    long = [path.name for path in plain if path.read_text().count("\n") > 60]
    assert long == []
    stored = [*RECORDED.rglob("*.gz")]
    assert len(stored) > 60
    assert {path.read_bytes()[3:8] for path in stored} == {bytes(5)}


def test_a_stored_record_is_read_back(tmp_path: Path) -> None:
    write_record(tmp_path / "el1.json", '{"a": "\u00e4"}\n')
    assert [path.name for path in tmp_path.iterdir()] == ["el1.json.gz"]
    assert load_record(tmp_path / "el1.json") == load_record(tmp_path / "el1.json.gz")
    assert load_record(tmp_path / "el1.json") == {"a": "\u00e4"}
