"""Rules that see who-has and its answer: chains at the card and of family arp, and no others."""

from __future__ import annotations

from typing import Any

import pytest
from causes.changes import (
    ARP_TYPE,
    EL_ADDRESS,
    add_interface_chain,
    add_neighbor,
    add_rule,
    block_reply_links,
    combine,
    get_node,
    get_survey,
    match_port,
    remove_neighbors,
)
from records import EL1, UBUNTU1, World, diagnose_answers, load_world

DROP: dict[str, Any] = {"drop": None}
IP_TYPE: dict[str, Any] = {"match": {**ARP_TYPE["match"], "right": "ip"}}
BYTES = {
    "match": {"op": "==", "left": {"payload": {"base": "ll", "offset": 96, "len": 16}}, "right": 1}
}


def findings(*changes: Any) -> list[dict[str, Any]]:
    held = load_world("healthy")
    combine(*changes)(held)
    return [one for one in diagnose_answers(held)["findings"] if one["severity"] == "error"]


def of_arp(held: World) -> None:
    """A table of the family arp on el1 whose policy is to drop."""
    nft = get_survey(held, EL1)["nft"]
    chain = {"family": "arp", "table": "guard", "name": "in", "handle": 1, "policy": "drop"}
    nft["chains"].append({**chain, "type": "filter", "hook": "input", "prio": 0})


def test_chains_of_family_arp_are_checked() -> None:
    (found,) = findings(remove_neighbors, of_arp)
    assert (found["code"], found["node"]) == ("DG-187", EL1)
    assert "policy accept" in found["fix"]
    assert {tuple(pair) for pair in found["pairs"]} == {(EL1, UBUNTU1), (UBUNTU1, EL1)}


@pytest.mark.parametrize(
    "change",
    [
        add_interface_chain(IP_TYPE, DROP),
        add_interface_chain(match_port(50000, 54095), DROP),
        add_rule("wall", DROP),
        add_interface_chain(
            {"match": {"op": "==", "left": {"meta": {"key": "l4proto"}}, "right": "tcp"}}, DROP
        ),
        add_interface_chain(
            {"match": {"op": "!=", "left": {"meta": {"key": "protocol"}}, "right": "arp"}}, DROP
        ),
    ],
)
def test_rules_that_never_see_arp_are_not_blamed(change: Any) -> None:
    assert "DG-187" not in [one["code"] for one in findings(remove_neighbors, change)]


def test_a_rule_that_may_block_arp_is_a_possible_cause() -> None:
    (found,) = findings(remove_neighbors, add_interface_chain(BYTES, DROP))
    assert found["code"] == "DG-187"
    assert "may be the one that drops" in found["cause"]


def test_one_that_does_outranks_one_that_may() -> None:
    (found,) = findings(remove_neighbors, add_interface_chain(BYTES, DROP), of_arp)
    assert found["node"] == EL1


def test_an_arp_rule_is_ignored_if_neighbours_are_found() -> None:
    assert findings(add_interface_chain(ARP_TYPE, DROP)) == []


def test_a_static_neighbour_entry_is_reported_with_its_state() -> None:
    (found,) = findings(block_reply_links("dropped"), add_neighbor)
    assert "PERMANENT or NOARP" in found["seen"]  # of a survey that did not keep which
    held = load_world("healthy")
    combine(block_reply_links("dropped"), add_neighbor)(held)
    entry = get_node(held, UBUNTU1)["links"]["neighbours"]["entries"][EL_ADDRESS]
    entry["nud"] = "NOARP"
    (found,) = (one for one in diagnose_answers(held)["findings"] if one["severity"] == "error")
    assert found["code"] == "DG-157"
    assert "02:00:00:00:00:99 NOARP: the kernel never asks again" in found["seen"]
