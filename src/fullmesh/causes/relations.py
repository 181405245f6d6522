"""Relations between a finding of a cluster and the findings that it explains, and codes that many causes explain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fullmesh.causes.engine import fold_findings, list_explanations
from fullmesh.result.findings import ERROR, WARNING, Finding

LINKS = ("VC-201", "VC-202", "VC-203", "VC-204", "VC-205", "VC-206", "VC-207", "VC-208", "VC-209")
# Drops that the kernel reports, and programs at the point at which packets end.
KERNELS = ("DG-180", "DG-181")
WALLS = ("DG-101", "DG-105", "DG-113", "DG-114", "DG-115", "DG-116", "DG-117", "DG-175")
SHUT = ("VC-201", "VC-202", "VC-203", "VC-205")
# Findings that a block of the probe's own account can cause.
SPARED = (*LINKS, *WALLS, *KERNELS, "DG-138", "DG-139", "DG-156")
WHOLE_JOB = ("VC-303", "VC-306", "VC-401", "VC-402", "VC-403", *(f"VC-80{n}" for n in range(1, 9)))
NAMED = ("VC-101", "VC-102", "DG-123", "DG-124", "DG-127")
RANGES = ("VC-107", "DG-107", "VC-212", "VC-213", "VC-602", "DG-112")


def has_root_node(root: Finding, other: Finding) -> bool:
    """Return whether the other finding is about the root's node, or about links that all end at it."""
    if other.pairs:
        return all(root.node in pair for pair in other.pairs)
    return bool(root.node) and root.node in (other.node, other.peer)


def has_same_node(root: Finding, other: Finding) -> bool:
    """Return whether both findings need a fix on the same node."""
    return bool(root.node) and root.node == other.node


def has_root_end(root: Finding, other: Finding) -> bool:
    """Return whether all links of the other end at the root's node, or at the node whose address it has."""
    ends = {root.node, root.peer}
    return has_root_node(root, other) or (
        bool(other.pairs) and all(ends & set(pair) for pair in other.pairs)
    )


def has_same_links(root: Finding, other: Finding) -> bool:
    """Return whether all links of the other are links of the root."""
    return bool(other.pairs) and set(other.pairs) <= set(root.pairs)


def has_same_blocked_ports(root: Finding, other: Finding) -> bool:
    """Return whether the links are the same, and the root names all kinds of ports of the other."""
    return has_same_links(root, other) and set(other.kinds) <= set(root.kinds)


def is_return_path(root: Finding, other: Finding) -> bool:
    """Return whether the other is about the opposite direction: replies need the link back as well."""
    if "EADDRNOTAVAIL" in root.seen:  # no port for a connection of one's own; answers need none
        return has_same_links(root, other)
    back = {(target, source) for source, target in root.pairs}
    return has_same_links(root, other) or (bool(other.pairs) and set(other.pairs) <= back)


def is_account_rule(root: Finding, other: Finding) -> bool:
    """Return whether the rule that drops the packets matches on the account that sends them."""
    return is_return_path(root, other) and any(word in other.seen for word in ("skuid", "skgid"))


def has_kernel_ports_only(root: Finding, other: Finding) -> bool:
    """Return whether only ports that the root's kernel chose are blocked, and none of the planned range."""
    into = all(root.node == target for _, target in other.pairs) and bool(other.pairs)
    return into and set(other.kinds) <= {"sample"}


def is_out_of_ports(root: Finding, other: Finding) -> bool:
    """Return whether connections from the root's node fail because its kernel has no free port."""
    from_it = bool(other.pairs) and all(root.node == source for source, _ in other.pairs)
    return from_it and "EADDRNOTAVAIL" in other.seen


def is_own_name(root: Finding, other: Finding) -> bool:
    """Return whether the other is about the node's own name."""
    return has_same_node(root, other) and other.peer == other.node


def has_lossy_end(root: Finding, other: Finding) -> bool:
    """Return whether the node lost connections and is an end of the link. A mere risk of loss explains nothing."""
    return root.severity == ERROR and has_root_node(root, other)


def has_no_route(root: Finding, other: Finding) -> bool:
    """Return whether the kernel of the root's node has no route at all.

    Its routes disappeared with its interface or address. A route or rule that rejects packets gives
    EINVAL, EACCES or EHOSTUNREACH (ip-route(8)) and stays a cause of its own.
    """
    return has_same_node(root, other) and "ENETUNREACH" in other.seen


# A rule that is known to stop the packet is a cause of its own, whatever else is wrong with the link.
DESPITE_RULE = (has_kernel_ports_only, has_same_blocked_ports, is_account_rule)


def has_rule_evidence(finding: Finding) -> bool:
    """Return whether the finding names the firewall's rule."""
    return (
        finding.code in (*SHUT, *WALLS) and "table " in finding.seen and " chain " in finding.seen
    )


def can_explain_on_cluster(root: Finding, other: Finding) -> bool:
    """Return whether one finding of a cluster explains the other."""
    if root.code == other.code and not other.pairs:
        return has_same_node(root, other)  # the same finding in other words
    known = has_rule_evidence(other)
    return any(not known or one.relation in DESPITE_RULE for one in list_explanations(root, other))


def drop_duplicate_findings(found: Sequence[Finding]) -> list[Finding]:
    """Return each finding once."""
    kept: list[Finding] = []
    for one in found:
        if one not in kept:
            kept.append(one)
    return kept


def downgrade_probe_only(found: Sequence[Finding]) -> list[Finding]:
    """Return the findings. A fault that only the probe's account has becomes a warning: jobs are not affected."""
    causes = [one for one in found if one.code == "DG-184"]
    return [
        replace(one, severity=WARNING)
        if one.code in SPARED and any(is_return_path(cause, one) for cause in causes)
        else one
        for one in found
    ]


def fold_cluster_findings(found: Sequence[Finding]) -> list[Finding]:
    """Return the root causes, errors first and the deepest first, each with the findings that follow from it."""
    return fold_findings(
        downgrade_probe_only(drop_duplicate_findings(found)), can_explain_on_cluster
    )
