"""The rules of the diagnosis for a verification that failed: the same observations, the deeper causes."""

from __future__ import annotations

from collections.abc import Sequence

from fullmesh.diagnose import fold, rules, shape, thin
from fullmesh.diagnose.model import Look
from fullmesh.verify.model import ERROR, Finding, Seen


def with_root_causes(seen: Seen, found: Sequence[Finding]) -> list[Finding]:
    """The findings with root causes above symptoms; for a verification that failed, those of the diagnosis as well.

    Without the survey of the nodes (an older module, a node that could not be asked) most rules have nothing to say,
    and the findings stay what they were.
    """
    if seen.check_mode:
        return list(found)
    if not any(finding.severity == ERROR for finding in found):
        return fold.fold(found)
    names = set(seen.plan["nodes"])
    nodes = {name: shape.node(node, names) for name, node in seen.nodes.items()}
    look = Look(
        seen=Seen(
            plan={
                **seen.plan,
                "nodes": {n: v for n, v in seen.plan["nodes"].items() if nodes.get(n)},
            },
            nodes={name: node for name, node in nodes.items() if node},
            rungs=seen.rungs,
            mode=seen.mode,
            clock_limit=seen.clock_limit,
            inventory=seen.inventory,
        ),
        plan=seen.plan,
    )
    kept = thin.chosen(look)
    if kept is None:
        deeper = rules.findings(look)
    else:
        deeper = thin.widened(rules.findings(thin.thinned(look, kept)), found, kept)
    deeper = [one for one in deeper if one.rung in seen.rungs]
    return fold.fold([*deeper, *rules.of_ladder(look, found, deeper)])
