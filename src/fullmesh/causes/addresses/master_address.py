"""Check MASTER_ADDR as a job on each node would see it."""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.evidence import ClusterEvidence, has_loopback_prefix
from fullmesh.result.findings import Finding, join_names

LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")


def is_master_address(evidence: ClusterEvidence, address: str) -> bool:
    """Return whether the master has the address. Without a plan, any node may be the master."""
    if evidence.assumed:
        return any(evidence.holds(name, address) for name in evidence.nodes)
    if evidence.master in evidence.nodes:
        return evidence.holds(evidence.master, address) or address == evidence.address(
            evidence.master
        )
    return address == evidence.address(evidence.master)


def check_master_address(evidence: ClusterEvidence, name: str, value: str) -> tuple[str, str, str]:
    """Return the code, the fault and the value seen for a node's MASTER_ADDR. All are empty if it is right."""
    if value in LOCAL_NAMES or has_loopback_prefix(value):
        return "DG-125", "is loopback, so every node looks for the store on itself", value
    found = evidence.survey(name).get("master_answers")
    if found is None:  # the node did not report the result of the lookup
        return "", "", ""
    if not found:
        return "DG-127", "is a name that it cannot resolve", f"{value}: no answer"
    if has_loopback_prefix(found[0]) and name != evidence.master:
        return "DG-124", "resolves to loopback there", f"{value}: {found[0]}"
    if not has_loopback_prefix(found[0]) and not is_master_address(evidence, found[0]):
        owner = next((n for n in evidence.nodes if evidence.holds(n, found[0])), "")
        whose = f"belongs to {owner}, not to the master" if owner else "is no node's address"
        return "DG-126", whose, f"{value}: {found[0]}" if found[0] != value else value
    return "", "", ""


def find_master_address(evidence: ClusterEvidence, wanted: str) -> Iterator[Finding]:
    """Find nodes whose MASTER_ADDR does not resolve to the master, for the cause of one code."""
    if len(evidence.plan["nodes"]) == 1:
        return
    grouped: dict[tuple[str, str, str, str], list[str]] = {}
    for name in evidence.nodes:
        held = evidence.variable(name, "MASTER_ADDR")
        if not held or not held[0]:
            continue
        fault = check_master_address(evidence, name, held[0])
        if fault[0] == wanted:
            grouped.setdefault((*fault, held[1]), []).append(name)
    for (code, what, seen, source), names in grouped.items():
        yield Finding(
            code,
            "L1",
            f"MASTER_ADDR on {join_names(names)} {what}",
            node=names[0],
            peer=evidence.master if evidence.master not in names else "",
            seen=f"MASTER_ADDR={seen} from {source}",
            expected=evidence.address(evidence.master),
            fix=f"set MASTER_ADDR={evidence.address(evidence.master)} in {source} on {join_names(names)}"
            + ("" if evidence.assumed else f", or {evidence.seen.apply('launch')}"),
        )
