"""Two nodes use the same rank, or a rank is missing

2 ranks with one number overwrite each other's keys in the store. The other ranks wait for the
missing one: 'wait timeout, keys: …/RANK'.

**Prove:** on every node: env | grep RANK

**Fix:** Give every node its own NODE_RANK.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import has_same_node
from fullmesh.foreign_text import parse_decimal
from fullmesh.result.findings import WARNING, Finding, join_names


def rule_node_ranks(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find nodes that use the same node rank."""
    for variable in ("NODE_RANK", "GROUP_RANK"):
        held = {n: v[0] for n in evidence.nodes if (v := evidence.variable(n, variable)) and v[0]}
        for value, count in Counter(held.values()).items():
            if count < 2:  # noqa: PLR2004 (a double)
                continue
            names = [n for n, v in held.items() if v == value]
            right = {n: str(evidence.plan["nodes"][n]["node_rank"]) for n in names}
            wrong = [n for n in names if right[n] != value] or names[1:]
            source = (evidence.variable(wrong[0], variable) or ("", ""))[1]
            yield Finding(
                "DG-132",
                "L1",
                f"{variable} is {value} on {join_names(names)}: a rank is used twice and another is missing",
                node=wrong[0],
                peer=join_names([n for n in names if n not in wrong]),
                seen=f"{variable}={value} from {source}",
                expected=right[wrong[0]],
                fix=f"set {variable}={right[wrong[0]]} in {source} on {wrong[0]}"
                + ("" if evidence.assumed else f", or {evidence.seen.apply('launch')}"),
            )


def rule_running_ranks(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find ranks that a running job has twice or not at all."""
    by_port: dict[str, list[tuple[str, Mapping[str, str]]]] = {}
    for name in evidence.nodes:
        for job in evidence.survey(name).get("jobs", []):
            env: Mapping[str, str] = job["environment"]
            if all(parse_decimal(env.get(key)) is not None for key in ("RANK", "WORLD_SIZE")):
                by_port.setdefault(env.get("MASTER_PORT", ""), []).append((name, env))
    for port, found in by_port.items():
        by_rank: dict[str, set[str]] = {}
        for name, env in found:
            by_rank.setdefault(env["RANK"], set()).add(name)
        twice = {rank: nodes for rank, nodes in by_rank.items() if len(nodes) > 1}
        world = max(int(env["WORLD_SIZE"]) for _, env in found)
        missing = [str(r) for r in range(min(world, 65536)) if str(r) not in by_rank]
        if not twice and not missing:
            continue
        rank, nodes = next(iter(twice.items()), ("", {found[0][0]}))
        what = (
            f"rank {rank} runs on {join_names(sorted(nodes))}"
            if twice
            else f"rank {join_names(missing)} runs nowhere"
        )
        yield Finding(
            "DG-132",
            "L1",
            f"of the job at port {port or '?'} {what}",
            node=sorted(nodes)[0],
            seen=f"ranks {join_names(sorted(by_rank, key=int))} of {world}",
            expected=f"ranks 0 to {world - 1}, each once",
            fix="end the job on all nodes and start it with one NODE_RANK for each node",
            severity=WARNING,  # ranks are started and end one after the other: a moment's picture
        )


def rule_any_rank_twice_or_missing(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find duplicate and missing ranks in the environment and in running jobs."""
    yield from rule_node_ranks(evidence)
    yield from rule_running_ranks(evidence)


CAUSE = Cause(
    "DG-132",
    __doc__,
    find=rule_any_rank_twice_or_missing,
    weight=200,
    explains=(Explains(("VC-324",), has_same_node),),
    cases=(CauseCase("node-rank", "NODE_RANK=0 on a second node"),),
)
