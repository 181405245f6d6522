"""If very many links are blocked, examine only enough of them to find the causes.

A rule checks both ends' packet filters for each link, about 70 checks. 1,000 nodes that block each other have a million
such links. The result for some links of a group with one cause (`verify.blocked.group_blocked_links`) applies to the
whole group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.observed.ladder import LinkResult
from fullmesh.result.findings import Finding
from fullmesh.verify.mesh import LOOKED_AT
from fullmesh.verify.model import NodeAnswers

PairOfNodes = tuple[str, str]


def list_blocked_peers(records: Sequence[LinkResult]) -> list[str]:
    """List the peers with a blocked connection, each once."""
    return list(
        dict.fromkeys(
            r["node"] for r in records if r["verdict"] != "open" and r["kind"] != "outside"
        )
    )


def select_links(evidence: ClusterEvidence) -> set[PairOfNodes] | None:
    """Select the links to examine, evenly spread and equally many per node. None means all."""
    shut = {
        name: held
        for name in evidence.nodes
        if (held := list_blocked_peers(evidence.records(name)))
    }
    if sum(len(peers) for peers in shut.values()) <= LOOKED_AT:
        return None
    each = max(1, LOOKED_AT // len(shut))
    sources = list(shut)[:: max(1, len(shut) // LOOKED_AT)][:LOOKED_AT]
    found: set[PairOfNodes] = set()
    for number, name in enumerate(sources):
        peers = shut[name]
        # different peers for each node, since each may have its own cause
        begin = number * each % len(peers)
        found |= {(name, peer) for peer in [*peers[begin:], *peers[:begin]][:each]}
    return found


def thin_out_links(evidence: ClusterEvidence, kept: set[PairOfNodes]) -> ClusterEvidence:
    """Reduce the evidence to these links and all open ones."""
    nodes: dict[str, NodeAnswers] = {}
    for name, said in evidence.seen.nodes.items():
        nodes[name] = said
        if "links" not in said:
            continue
        gone = {
            peer for peer in list_blocked_peers(said["links"]["links"]) if (name, peer) not in kept
        }
        links = [record for record in said["links"]["links"] if record["node"] not in gone]
        nodes[name] = {**said, "links": {**said["links"], "links": links}}
    return replace(evidence, seen=replace(evidence.seen, nodes=nodes))


def extend_to_groups(
    deeper: Sequence[Finding], ladder: Sequence[Finding], kept: set[PairOfNodes]
) -> list[Finding]:
    """Extend a finding about all examined links of a group to the rest of the group."""
    groups = [(set(one.pairs), set(one.pairs) & kept) for one in ladder if one.pairs]
    made = []
    for one in deeper:
        own = set(one.pairs)
        more = [pairs for pairs, seen in groups if seen and seen <= own]
        whole = own.union(*more)
        made.append(replace(one, pairs=tuple(sorted(whole))) if whole != own else one)
    return made
