"""The tries of RDMA in the reports: a matrix for each rail, and the cause in its red cells."""

from __future__ import annotations

import io
from typing import Any

import pytest
import records
from causes.changes import Break, combine, set_survey_part
from causes.rdma import END, dg196_rdma_rule, dg199_slow_rail, make_gid, make_try, set_results
from records import EL1 as EL
from records import UBUNTU1 as UB
from report_pages import Page
from rich.console import Console

from fullmesh.report import page, rails, terminal
from fullmesh.report.rails import RailMatrix

LOST = make_try(
    EL,
    2,
    own={"step": "send", "error": "IBV_WC_RETRY_EXC_ERR", "count": 0},
    peer={"step": "receive", "count": 0},
)
RAILS = [
    {
        "name": f"rail{rail}",
        "network": f"10.8{rail}.0.0/24",
        "cable": False,
        "members": {EL: f"10.8{rail}.0.11", UB: f"10.8{rail}.0.12"},
    }
    for rail in (1, 2)
]


def add_planned_nics(world: records.World) -> None:
    """Give each node the interfaces of its rails, with their addresses."""
    for name in (EL, UB):
        interfaces = world["nodes"][name]["node"]["facts"]["survey"]["interfaces"]
        interfaces += [
            {
                **interfaces[0],
                "name": f"rail{number}",
                "addresses": [f"{rail['members'][name]}/24"],
            }
            for number, rail in enumerate(RAILS)
        ]


def diagnose(*changes: Break, planned: bool = True) -> Any:
    """The result of a recorded diagnosis, in which both nodes have two rails."""
    world = records.load_world("healthy")
    combine(set_results(), *changes)(world)
    if planned:
        world["plan"]["rails"] = RAILS
        add_planned_nics(world)
    return records.diagnose_answers(world)


def show(result: Any) -> str:
    """The terminal's text."""
    stream = io.StringIO()
    terminal.print_result(result, Console(file=stream, width=120, no_color=True))
    return stream.getvalue()


def map_outcomes(one: RailMatrix) -> dict[tuple[str, str], str]:
    return {
        (source, target): cell.word
        for source, cells in one.rows
        for target, cell in zip(one.nodes, cells, strict=True)
        if cell
    }


def test_rails_that_all_work_are_one_line() -> None:
    result = diagnose()
    (one,) = rails.build_rail_matrices(result)
    assert (one.rails, one.works) == (["rail1", "rail2"], True)
    line = "RDMA on rail1, rail2: works between 2 of 2 ordered pairs of nodes"
    shown = Page(page.render_report_page(result))
    assert f"{line}." in shown.text()
    assert [a for _, a in shown.elements if a.get("aria-label") == "Matrix of rail1"] == []
    assert line in show(result)


def test_a_rail_that_fails_shows_the_cause_in_its_cell() -> None:
    result = diagnose(set_results((EL, LOST)))
    good, bad = sorted(rails.build_rail_matrices(result), key=lambda one: list(one.rails))
    assert (good.rails, good.works, bad.rails) == (["rail1"], True, ["rail2"])
    assert map_outcomes(bad) == {(EL, UB): "failed", (UB, EL): "works"}
    cell = bad.rows[0][1][1]
    assert cell is not None
    assert list(cell.lines) == [
        "VC-224",
        "RDMA packets between two devices are lost",
        "IBV_WC_RETRY_EXC_ERR",
    ]
    shown = Page(page.render_report_page(result))
    assert len([a for _, a in shown.elements if a.get("aria-label") == "Matrix of rail2"]) == 1
    assert "RDMA packets between two devices are lost" in shown.text()
    text = show(result)
    assert "RDMA on rail2: works between 1 of 2 ordered pairs of nodes, 1 failed" in text
    assert [line.split() for line in text.splitlines() if line.startswith(EL)][-1] == [
        EL,
        "-",
        "VC-224",
    ]


def test_a_cell_has_the_root_cause_of_its_finding() -> None:
    """A firewall rule that drops the packets of soft-RoCE."""
    (change,) = dg196_rdma_rule.CHANGES.values()
    world = records.load_world("healthy")
    change.apply(world)
    bad = next(
        one for one in rails.build_rail_matrices(records.diagnose_answers(world)) if not one.works
    )
    assert {cell.lines[0] for cell in bad.list_cells()} == {"DG-196"}


def test_measured_rates_are_in_the_cells() -> None:
    world = records.load_world("healthy")
    dg199_slow_rail.set_rates(el1_2=13_000.0)(world)
    world["plan"]["rails"] = RAILS
    result = records.diagnose_answers(world)
    found = {one.rails[0]: one for one in rails.build_rail_matrices(result)}
    assert found["rail2"].works
    assert [[list(cell.lines) for cell in cells if cell] for _, cells in found["rail2"].rows] == [
        [["13 Gbit/s"]],
        [["92 Gbit/s"]],
    ]
    assert "13 Gbit/s" in Page(page.render_report_page(result)).text()
    assert "DG-199" in show(result)


def test_a_pair_that_was_not_tried_does_not_work() -> None:
    untried = make_try(UB, 1, own={"step": "not_tried", "count": 0}, peer={"count": 0})
    result = diagnose(set_results((UB, untried)))
    one = next(one for one in rails.build_rail_matrices(result) if one.rails == ["rail1"])
    assert not one.works
    assert map_outcomes(one) == {(EL, UB): "works", (UB, EL): "not tried"}
    assert one.describe().endswith("works between 1 of 2 ordered pairs of nodes, 1 not tried")


def test_swapped_cables_are_the_cause_of_both_rails() -> None:
    lost: dict[str, Any] = {"own": LOST["own"], "peer": LOST["peer"]}
    spare = [
        (EL, make_try(EL, 1, 2, own=END, peer=END)),
        (EL, make_try(EL, 2, 1, own=END, peer=END)),
    ]
    straight = [(name, make_try(name, rail, **lost)) for name in (EL, UB) for rail in (1, 2)]
    result = diagnose(set_results(*straight, *spare))
    (one,) = rails.build_rail_matrices(result)
    assert one.rails == ["rail1", "rail2"]
    cell = one.rows[0][1][1]
    assert cell is not None
    assert cell.lines[0] == "VC-227"


@pytest.mark.parametrize(
    ("networks", "names"),
    [
        (True, ["10.81.0.0/24", "10.82.0.0/24"]),
        (False, ["rxe1", "rxe2"]),
    ],
)
def test_rails_that_are_not_planned_have_the_name_of_their_network(
    networks: bool, names: list[str]
) -> None:
    changes = []
    for name, host in ((EL, 11), (UB, 12)):
        held = records.load_world("healthy")["nodes"][name]["node"]["facts"]["survey"]["interfaces"]
        rail_nics = [
            {**held[0], "name": f"eth{rail}", "addresses": [f"10.8{rail}.0.{host}/24"]}
            for rail in (1, 2)
        ]
        changes += [set_survey_part("interfaces", [*held, *rail_nics], name)] if networks else []
    (one,) = rails.build_rail_matrices(diagnose(*changes, planned=False))
    assert one.rails == names


def test_cables_of_a_ring_are_one_rail_and_other_nodes_have_no_pair() -> None:
    result = diagnose()
    for link in result["links"]:
        link["rdma"] = [{**link["rdma"][0], "rail": "ring"}]
    third = {**result["links"][0], "to": "third"}
    result["links"].append(third)
    result["plan"]["nodes"]["third"] = {**result["plan"]["nodes"][EL], "name": "third"}
    (one,) = rails.build_rail_matrices(result)
    assert map_outcomes(one)["third", EL] == "no pair"
    assert one.works


def test_a_wide_rail_lists_failed_pairs_only() -> None:
    result = diagnose(set_results((EL, LOST)))
    link = next(one for one in result["links"] if one["from"] == EL)
    for number in range(9):
        name = f"node{number}"
        result["plan"]["nodes"][name] = {**result["plan"]["nodes"][EL], "name": name}
        result["nodes"][name] = result["nodes"][EL]
        result["links"].append({**link, "to": name})
    shown = Page(page.render_report_page(result))
    labels = [a.get("aria-label") for _, a in shown.elements]
    assert "RDMA that failed" in labels
    assert "Matrix of rail2" not in labels
    assert "node8" in shown.text()
    assert "works between 1 of 11 ordered pairs of nodes, 10 failed" in show(result)


def test_results_of_older_versions_are_shown() -> None:
    result = diagnose(set_results((EL, LOST)))
    for link in result["links"]:
        for row in link["rdma"]:
            del row["rail"]
            row.pop("code", None)
    good, bad = rails.build_rail_matrices(result)
    assert (good.rails, good.works, bad.rails) == (["rxe1"], True, ["rxe2"])
    assert map_outcomes(bad)[EL, UB] == "failed"


def test_a_gid_of_no_network_has_the_name_of_its_device() -> None:
    odd = make_try(EL, 1, gid=make_gid(9, 11))
    found = rails.build_rail_matrices(diagnose(set_results((EL, odd))))
    assert [one.rails for one in found] == [["rail1"], ["rail2"], ["rxe1"]]
