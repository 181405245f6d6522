"""Results of the probe that ran as the account of jobs."""

from __future__ import annotations

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.firewall.packet_filter import (
    find_possible_stops,
    make_reply_packet,
    make_tcp_packet,
)
from fullmesh.causes.routes.decisions import ANYBODY, has_account_rule, list_odd_decisions
from fullmesh.observed.ladder import JobProbe
from fullmesh.observed.ports import KERNEL_RANGE


def get_job_probe(evidence: ClusterEvidence, name: str) -> JobProbe | None:
    """Return a node's results as the account of jobs, or None if that was not tried."""
    return evidence.seen.nodes.get(name, {}).get("links", {}).get("as_job")


def is_return_blocked(evidence: ClusterEvidence, name: str, peer: str) -> bool:
    """Return whether the account's replies are blocked, too. Peers then cannot reach its listeners.

    The probe's listeners run as another account, so the test cannot show this. It follows from the
    kernel's decision, or from the rules.
    """
    for way in list_odd_decisions(evidence, name):
        of_account = way["uid"] != ANYBODY and way["direction"] == "answer"
        if of_account and way["peer"] == evidence.address(peer):
            return True
    interface = evidence.get_cluster_interface(name)
    port = (evidence.port_range(name) or KERNEL_RANGE).first
    asked = make_tcp_packet(evidence.address(peer), evidence.address(name), port, interface)
    return any(
        has_account_rule(evidence, name, stop.table)
        for stop in find_possible_stops(evidence.ruleset(name), make_reply_packet(asked, port))
    )
