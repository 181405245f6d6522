"""What nodes are unlike in, held against one another without a list of what may be wrong."""

from __future__ import annotations

import copy
from functools import cache

import records
from causes.cases import CHANGES
from causes.changes import Break, change_sysctl, combine, get_survey, set_survey_part
from records import EL1 as EL
from records import UBUNTU1 as UB

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.diagnose import compare, judge, show
from fullmesh.diagnose.compare import CauseCandidate
from fullmesh.result.findings import Finding

DROPPED = Finding("VC-201", "L2", "dropped", node=UB, peer=EL, pairs=((EL, UB),))
LARGE = Finding("VC-208", "L2", "large packets vanish", node=UB, peer=EL, pairs=((EL, UB),))
# What NetworkManager and networkd do otherwise on the recorded nodes, which is true.
USUAL = {"firewalld/zones/public/runtime/interfaces/CARD"}
# A difference that stops no packet.
ELSEWHERE = ("environment/", "rdma/", "efa/", "shm/", "job_start", "job_unit")


@cache
def healthy() -> records.World:
    return records.load_world("healthy")


def build_evidence(*changes: Break) -> ClusterEvidence:
    world = copy.deepcopy(healthy())
    combine(*changes)(world)
    return judge.build_evidence(
        world["plan"], records.convert_answers(world["nodes"]), records.ABOUT
    )


def add_third_node(world: records.World) -> None:
    """A node more, a copy of the first: names and addresses of its own."""
    world["plan"]["nodes"]["el2"] = copy.deepcopy(world["plan"]["nodes"][EL])
    world["plan"]["nodes"]["el2"].update(address="10.78.5.13", host="el2")
    other = copy.deepcopy(world["nodes"][EL])
    facts = other["node"]["facts"]
    facts["addresses"] = {"10.78.5.13": "eth1", "127.0.0.1": "lo"}
    facts["names"]["hostname"] = "el2"
    for nic in facts["survey"]["interfaces"]:
        nic["mac"] = nic["mac"].replace("0", "7") if nic["mac"].strip("0:") else nic["mac"]
    world["nodes"]["el2"] = other


def list_new(found: list[CauseCandidate]) -> list[CauseCandidate]:
    return [one for one in found if one.what not in USUAL]


def test_healthy_nodes_differ_only_in_names_and_volatile_values() -> None:
    assert list_new(compare.find_differences(build_evidence())) == []
    assert compare.find_shared_identities(build_evidence()) == []


def test_a_value_is_shown_with_its_nodes() -> None:
    (one,) = list_new(
        compare.find_differences(build_evidence(change_sysctl("net.ipv4.conf.all.arp_ignore", "1")))
    )
    assert one.what == "sysctls/net.ipv4.conf.all.arp_ignore"
    assert one.values == {"0": [EL], "1": [UB]}
    assert set(one.odd) == {EL, UB}  # with two nodes, either may be right


def test_the_odd_one_of_three_nodes_is_named() -> None:
    found = compare.find_differences(
        build_evidence(add_third_node, change_sysctl("net.ipv4.conf.all.arp_ignore", "1"))
    )
    (one,) = [one for one in found if one.what.startswith("sysctls/")]
    assert (one.odd, list(one.values)[-1], one.weight) == ((UB,), "0", 1)


def test_a_shared_identity_is_found_on_any_nic() -> None:
    def one_mac(world: records.World) -> None:
        for name in (EL, UB):
            get_survey(world, name)["interfaces"][-1]["mac"] = "02:00:00:00:00:01"

    (one,) = compare.find_shared_identities(build_evidence(one_mac))
    assert (one.what, one.values) == ("hardware address", {"02:00:00:00:00:01": [EL, UB]})


def test_no_comparison_if_every_finding_has_a_cause() -> None:
    assert (
        compare.rank_candidates(
            build_evidence(change_sysctl("net.ipv4.conf.all.arp_ignore", "1")), []
        )
        == []
    )
    mild = Finding("VC-201", "L2", "x", node=UB, severity="warning")
    assert compare.list_unexplained_errors([mild]) == []


def test_candidates_are_weighed_against_the_symptom() -> None:
    def mtu(world: records.World) -> None:
        next(nic for nic in get_survey(world)["interfaces"] if nic["name"] == "eth1")["mtu"] = 9000

    both = build_evidence(mtu, change_sysctl("net.ipv4.conf.all.arp_ignore", "1"))
    assert list_new(compare.rank_candidates(both, [LARGE]))[0].what == "interfaces/CARD/mtu"
    assert (
        list_new(compare.rank_candidates(both, [DROPPED]))[0].what
        == "sysctls/net.ipv4.conf.all.arp_ignore"
    )


def test_nodes_that_the_symptom_does_not_touch_are_no_candidates() -> None:
    elsewhere = build_evidence(
        add_third_node, change_sysctl("net.ipv4.conf.all.arp_ignore", "1", "el2")
    )
    found = compare.rank_candidates(elsewhere, [DROPPED])
    assert "sysctls/net.ipv4.conf.all.arp_ignore" not in [one.what for one in found]


def test_broken_nodes_are_compared_with_some_of_many() -> None:
    class Many(ClusterEvidence):
        """Names alone."""

        @property
        def nodes(self) -> list[str]:
            return [f"n{number}" for number in range(2000)]

    made = build_evidence()
    chosen = compare.select_compared_nodes(Many(made.seen, made.plan), {"n1999", "n7"})
    assert chosen[:2] == ["n7", "n1999"]
    assert len(chosen) == len(set(chosen)) == 2 + compare.NODES_MOST
    every = {f"n{number}" for number in range(2000)}
    assert (
        len(compare.select_compared_nodes(Many(made.seen, made.plan), every)) == compare.NODES_MOST
    )


def test_differences_that_cannot_matter_are_omitted() -> None:
    found = compare.rank_candidates(
        build_evidence(set_survey_part("shm", {"size": 1, "free": 1})), [DROPPED]
    )
    assert list_new(found) == []


def test_any_change_is_among_the_first_candidates_without_a_rule() -> None:
    """Every typed change by which the rules are tested, if a survey shows it."""

    def all_of(one: ClusterEvidence) -> set[str]:
        return {
            found.what
            for found in (*compare.find_differences(one), *compare.find_shared_identities(one))
        }

    before = all_of(build_evidence())
    hit: set[str] = set()
    other: set[str] = set()
    missed: set[str] = set()
    for name, (_, _, change) in CHANGES.items():
        changed = build_evidence(change)
        fresh = all_of(changed) - before
        first = {one.what for one in compare.rank_candidates(changed, [DROPPED])}
        if first & fresh:
            hit.add(name)
        elif fresh:
            (other if all(one.startswith(ELSEWHERE) for one in fresh) else missed).add(name)
    assert missed == set()
    assert len(hit) > 50
    assert other


def test_differences_are_shown_with_an_unexplained_finding() -> None:
    world = copy.deepcopy(healthy())
    combine(CHANGES["between"][2], change_sysctl("net.ipv4.conf.all.arp_ignore", "1"))(world)
    found = records.diagnose_answers(world)
    assert [one["code"] for one in found["findings"]] == ["DG-115"]
    text = f"sysctls/net.ipv4.conf.all.arp_ignore: 0 on {EL}; 1 on {UB}"
    assert found["notes"][0] == {"node": "", "code": "DG-172", "text": text}
    assert f"(hints, not proof):\nnote: [DG-172] {text}" in "\n".join(show.format_diagnosis(found))
