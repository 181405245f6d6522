"""Every rule of verification and of diagnosis fires for real answers of modules.

A recorded answer, or a typed change of one (tests/causes), makes exactly one code. This file fails
if a rule never fires or a code is never made. A rule may read a field that no module writes. The
strict reader then rejects the change that would make it fire.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import boot_changes
import pytest
import records
from causes import cases, changes
from verify_changes import with_gpus

from fullmesh import contract
from fullmesh.causes.cloud import accounts
from fullmesh.causes.engine import load_cause, load_causes
from fullmesh.causes.node import vc307_answer_format
from fullmesh.diagnose import judge, run
from fullmesh.observed.survey import NodeSurvey
from fullmesh.verify import gpu, pairs, ranks
from fullmesh.verify.model import ClusterObservations

# Codes that no node's answer makes, with the reason.
ELSEWHERE = {
    "VC-307": "made of an answer that its type refuses (test_contract.py)",
    **{
        f"VC-88{digit}": "of several jobs, not of one answer (test_bisected.py)"
        for digit in range(6)
    },
    "VC-701": "a setting of the role (test_verify_cluster.py)",
    "VC-702": "a setting of the role (test_verify_cluster.py)",
    "VC-780": "a setting of the role (test_verify_cluster.py)",
    "DG-172": "a note beside a finding that nothing explains (test_compare.py)",
    "EF-109": "explain-log's word for a line that is harmless (test_efa.py)",
}
WITHOUT_A_VALUE = {"EF-102", "EF-104", "EF-106"}  # the fault is a missing value
OTHER_RULES = {
    vc307_answer_format.rule_answer_format: "an answer that its type refuses (test_contract.py)",
    accounts.rule_security_groups: "AWS's answers, not a node's (test_diagnose_cloud.py)",
}
CAUSES = load_causes("DG")
VERIFICATION = (
    *(one.find for one in load_causes("VC").values() if one.find),
    pairs.rule_open_links,
    *gpu.JOB_RULES,
    *ranks.RULES,
)


@cache
def nodes_with_gpus() -> ClusterObservations:
    with TemporaryDirectory() as folder:
        return with_gpus(Path(folder))


def change_verification(name: str) -> ClusterObservations:
    seen = copy.deepcopy(nodes_with_gpus())
    cases.VERIFICATION[name][1](seen)
    return records.read_again(seen)


@cache
def healthy() -> records.World:
    return records.load_world("healthy")


def apply_change(name: str) -> records.World:
    return change_nodes(cases.CHANGES[name][2])


def change_nodes(change: changes.Break) -> records.World:
    """Return nodes with a current fault."""
    world = copy.deepcopy(healthy())
    change(world)
    return world


def at_boot(change: changes.Break) -> records.World:
    """Return nodes whose configuration for the next boot is known."""
    world = copy.deepcopy(healthy())
    boot_changes.with_boots(world)
    change(world)
    return world


def test_unchanged_records_have_no_finding() -> None:
    found = records.verify_answers(nodes_with_gpus())
    assert (found["verdict"], found["findings"]) == ("ok", [])
    assert {check["status"] for check in found["rungs"]} == {"passed"}
    assert records.diagnose_answers(healthy())["findings"] == []


@pytest.mark.parametrize("name", cases.VERIFICATION)
def test_one_change_gives_exactly_its_code(name: str) -> None:
    code, _ = cases.VERIFICATION[name]
    found = records.verify_answers(change_verification(name))
    assert {finding["code"] for finding in found["findings"]} == {code}
    finding = found["findings"][0]
    assert finding["node"]
    assert finding["fix"]
    cause = load_cause(code)
    if cause and cause.severity == "warning":
        assert (found["verdict"], finding["severity"]) == ("ok", "warning")
    else:
        assert found["verdict"] == "failed"
        assert found["failed_rungs"][0] == finding["rung"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("shaped verification with holes", "traffic shaping (tc tbf)"),
        ("snat of a verification", "translates the source address"),
    ],
)
def test_a_failed_check_gives_the_root_cause_as_its_reason(name: str, words: str) -> None:
    found = records.verify_answers(change_verification(name))
    reasons = {
        check["id"]: check["reason"] for check in found["rungs"] if check["status"] == "failed"
    }
    assert reasons.keys() == {"L2"}
    assert words in reasons["L2"]


@pytest.mark.parametrize("name", cases.CHANGES)
def test_one_fault_is_one_finding(name: str) -> None:
    code, where, _ = cases.CHANGES[name]
    found = records.diagnose_answers(apply_change(name))
    assert [f["code"] for f in found["findings"]] == [code]
    (finding,) = found["findings"]
    assert finding["node"] == where
    assert finding["seen"] or code in WITHOUT_A_VALUE
    assert finding["fix"]
    mild = cases.get_severity(name) == "warning"
    assert found["exit_code"] == (0 if mild else 1)
    assert finding["severity"] == ("warning" if mild else "error")


@pytest.mark.parametrize("name", cases.QUIET)
def test_a_harmless_difference_is_no_finding(name: str) -> None:
    world = copy.deepcopy(records.load_diagnosis("healthy"))
    cases.QUIET[name](world)
    assert records.diagnose_answers(world)["findings"] == []


@pytest.mark.parametrize("name", cases.BOOT_CHANGES)
def test_changes_at_the_next_boot_are_one_warning(name: str) -> None:
    code, where, change = cases.BOOT_CHANGES[name]
    found = records.diagnose_answers(at_boot(change))
    assert [(f["code"], f["node"], f["severity"]) for f in found["findings"]] == [
        (code, where, "warning")
    ]
    assert all(found["findings"][0][key] for key in ("cause", "seen", "expected", "fix"))
    assert found["exit_code"] == 0


@pytest.mark.parametrize("name", boot_changes.HARMLESS)
def test_settings_that_a_boot_keeps_are_no_finding(name: str) -> None:
    assert records.diagnose_answers(at_boot(boot_changes.HARMLESS[name]))["findings"] == []


def test_present_and_next_boot_findings_do_not_fold() -> None:
    """A manual port range is wrong now and at the next boot."""

    def both(world: records.World) -> None:
        cases.BOOT_CHANGES["the address was typed in"][2](world)
        cases.CHANGES["second table"][2](world)

    found = records.diagnose_answers(at_boot(both))
    assert [f["code"] for f in found["findings"]] == ["DG-113", "DG-166"]
    assert not any(f["code"] in run.list_boot_codes() for f in found["findings"][0]["follows"])
    assert found["exit_code"] == 1


def test_every_code_is_given_by_a_record() -> None:
    given = {code for code, _ in cases.VERIFICATION.values()}
    given |= {code for code, _, _ in cases.CHANGES.values()}
    given |= {code for code, _ in cases.RECORDED.values()}
    given |= {code for code, _, _ in cases.BOOT_CHANGES.values()}
    listed = {code for group in ("VC", "DG", "EF") for code in load_causes(group)}
    assert listed - given == ELSEWHERE.keys()


def list_silent_rules(rules_: Iterable[Callable[..., Any]], worlds: Iterable[Any]) -> set[str]:
    """List the rules that fire for none of these."""
    quiet = set(rules_)
    for one in worlds:
        quiet -= {rule for rule in quiet if any(True for _ in rule(one))}
    return {f"{rule.__module__}.{rule.__qualname__}" for rule in quiet - OTHER_RULES.keys()}


def test_every_rule_of_verification_fires() -> None:
    assert list_silent_rules(VERIFICATION, map(change_verification, cases.VERIFICATION)) == set()


def test_every_rule_of_diagnosis_fires() -> None:
    worlds = itertools.chain(
        map(apply_change, cases.CHANGES), map(records.load_world, cases.RECORDED)
    )
    looks = (
        judge.build_evidence(one["plan"], records.convert_answers(one["nodes"]), records.ABOUT)
        for one in worlds
    )
    own = [one.find for one in CAUSES.values() if one.find and one.family != run.NEXT_BOOT]
    assert list_silent_rules((*own, *run.OTHERS), looks) == set()


def remove_part(world: records.World, part: str) -> records.World:
    """Return the nodes without a part of their surveys."""
    left = copy.deepcopy(world)
    for answer in left["nodes"].values():
        answer["node"]["facts"]["survey"].pop(part, None)
    return left


@pytest.mark.parametrize("code", [code for code, cause in CAUSES.items() if cause.needs])
def test_a_cause_without_its_observations_finds_nothing(code: str) -> None:
    """The cause runs and finds nothing, so missing observations never hide other findings."""
    cause = CAUSES[code]
    assert cause.find
    assert set(cause.needs) <= NodeSurvey.__annotations__.keys()
    base = at_boot if cause.family == run.NEXT_BOOT else change_nodes
    worlds = [base(one) for found, _, one in cases.ALL_CHANGES.values() if found == code]
    worlds += [
        records.load_world(name) for name, (found, _) in cases.RECORDED.items() if found == code
    ]
    assert worlds
    for world, part in itertools.product(worlds, cause.needs):
        left = remove_part(world, part)
        look = judge.build_evidence(
            left["plan"], records.convert_answers(left["nodes"]), records.ABOUT
        )
        assert not [one for one in cause.find(look) if one.code == code]
        assert cause.find not in run.list_cause_rules(look, at_boot=base is at_boot)


def test_every_next_boot_rule_fires_with_its_own_code() -> None:
    worlds = [at_boot(change) for _, _, change in cases.BOOT_CHANGES.values()]
    looks = [
        judge.build_evidence(one["plan"], records.convert_answers(one["nodes"]), records.ABOUT)
        for one in worlds
    ]
    boot = [one.find for one in CAUSES.values() if one.find and one.family == run.NEXT_BOOT]
    assert list_silent_rules(boot, looks) == set()
    assert {code for code, _, _ in cases.BOOT_CHANGES.values()} == run.list_boot_codes()
    quiet = judge.build_evidence(
        (world := at_boot(lambda _world: None))["plan"],
        records.convert_answers(world["nodes"]),
        records.ABOUT,
    )
    assert run.check_next_boot(quiet) == []


def test_a_rule_that_reads_an_unwritten_field_is_found() -> None:
    """This is the purpose of this file: the survey was once in another place, and no GPU rule ever saw a GPU."""

    def rule_elsewhere(seen: ClusterObservations) -> Any:
        yield from seen.nodes["el1"]["node"].get("gpus", {}).get("cards", [])  # type: ignore[call-overload]

    assert list_silent_rules([rule_elsewhere], [nodes_with_gpus()]) != set()


def test_a_change_that_no_module_could_return_is_refused() -> None:
    seen = copy.deepcopy(nodes_with_gpus())
    seen.nodes["el1"]["node"]["gpus"] = {"cards": []}  # type: ignore[typeddict-unknown-key]
    with pytest.raises(contract.ContractError, match=r"\$\.gpus: unknown field"):
        records.verify_answers(seen)


def test_every_cause_of_blocked_links_is_named() -> None:
    shut = {code for code, cause in load_causes("DG").items() if cause.explain_block}
    given = {code for code, _, _ in cases.CHANGES.values()}
    assert shut - given == {"DG-114"} <= {code for code, _ in cases.RECORDED.values()}
