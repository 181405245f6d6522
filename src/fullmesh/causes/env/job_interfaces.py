"""The interfaces that variables tell jobs to use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.result.findings import Finding, join_names
from fullmesh.verify.socket_interfaces import INTERFACES, LOOPBACK, select_interfaces


def make_interface_finding(
    evidence: ClusterEvidence, code: str, variable: str, names: Sequence[str], what: str
) -> Finding:
    """Make a finding about a variable that names an unusable interface."""
    value, source = evidence.variable(names[0], variable) or ("", "")
    wanted = evidence.get_cluster_interface(names[0]) or "INTERFACE"
    fix = f"set {variable}={wanted} in {source} on {join_names(names)}"
    have = join_names([nic["name"] for nic in evidence.list_nics(names[0])])
    return Finding(
        code,
        "L1",
        f"{variable}={value} on {join_names(names)} {what}",
        node=names[0],
        peer=join_names(names[1:]),
        seen=f"{variable}={value} from {source}; {names[0]} has {have}",
        expected=wanted,
        fix=fix if evidence.assumed else f"{fix}, or {evidence.seen.apply('launch')}",
    )


def find_job_interfaces(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find configured job interfaces that do not exist or are loopback."""
    for variable in INTERFACES:
        set_on = [
            n
            for n in evidence.nodes
            if (evidence.variable(n, variable) or ("",))[0] and evidence.list_nics(n)
        ]
        taken = {
            n: select_interfaces(
                (evidence.variable(n, variable) or ("",))[0], variable, evidence.list_nics(n)
            )
            for n in set_on
        }
        absent = [n for n in set_on if not taken[n]]
        looped = [
            n
            for n in set_on
            if taken[n] and set(taken[n]) == {LOOPBACK} and len(evidence.plan["nodes"]) > 1
        ]
        if absent and len(absent) == len(evidence.nodes) and len(absent) > 1:
            yield make_interface_finding(
                evidence, "DG-119", variable, absent, "is an interface that no node has"
            )
        else:
            for name in absent:
                yield make_interface_finding(
                    evidence, "DG-120", variable, [name], "is an interface that it does not have"
                )
        if looped:
            yield make_interface_finding(
                evidence, "DG-121", variable, looped, "makes every rank announce 127.0.0.1"
            )


def find_odd_values(held: Mapping[str, str], wanted: str) -> tuple[str, list[str]]:
    """Return the usual value (the wanted one in a tie), and the nodes that have another."""
    counts = Counter(held.values()).most_common()
    most = counts[0][1]
    draw = [value for value, count in counts if count == most]
    usual = wanted if wanted in draw else draw[0]
    return usual, [name for name, value in held.items() if value != usual]
