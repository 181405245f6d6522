"""A node name does not resolve to the cluster address

torchrun sends host names to the peers. A peer that resolves such a name to another address connects
to the wrong machine.

**Prove:** getent ahosts NAME

**Fix:** ansible-playbook site.yml -i INVENTORY --tags network (writes the plan's names into /etc/hosts).
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import Finding, join_names
from fullmesh.verify.model import ClusterObservations


def rule_name_resolution(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that every name of the plan resolves to the cluster address on every node."""
    wanted = {n: h["address"] for h in seen.plan["hosts"] for n in h["names"]}
    for name in seen.plan["nodes"]:
        answers = seen.facts(name).get("names", {}).get("plan", {})
        wrong = [n for n, a in wanted.items() if n in answers and (answers[n] or [""])[0] != a]
        if wrong:
            first = answers[wrong[0]]
            said = "no answer in time" if first is None else join_names(first) or "unknown name"
            yield Finding(
                "VC-101",
                "L1",
                f"{name} resolves {join_names(wrong)} to an address other than the cluster address",
                node=name,
                peer=join_names(wrong),
                seen=f"{wrong[0]}: {said}",
                expected=f"{wrong[0]}: {wanted[wrong[0]]}",
                check=f"on {name}: getent ahosts {wrong[0]}",
                fix=seen.apply("network"),
            )


CAUSE = Cause("VC-101", __doc__, find=rule_name_resolution)
