"""Root causes outrank symptoms: what one finding explains is folded under it.

``ROOTS`` is in order: a code explains only codes that stand below it or nowhere in it, so there are no circles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from fullmesh.result.findings import ERROR, WARNING, Finding

Relation = Callable[[Finding, Finding], bool]


def has_root_node(root: Finding, other: Finding) -> bool:
    """The other finding is about the root's node, or about links that all have it at one end."""
    if other.pairs:
        return all(root.node in pair for pair in other.pairs)
    return bool(root.node) and root.node in (other.node, other.peer)


def has_same_node(root: Finding, other: Finding) -> bool:
    """Both ask for the same node to be fixed."""
    return bool(root.node) and root.node == other.node


def has_root_end(root: Finding, other: Finding) -> bool:
    """All links of the other have the root's node, or the one whose address it has taken, at one end."""
    ends = {root.node, root.peer}
    return has_root_node(root, other) or (
        bool(other.pairs) and all(ends & set(pair) for pair in other.pairs)
    )


def has_same_links(root: Finding, other: Finding) -> bool:
    """All links of the other are links of the root."""
    return bool(other.pairs) and set(other.pairs) <= set(root.pairs)


def has_same_blocked_ports(root: Finding, other: Finding) -> bool:
    """The same links and no kind of port that the root did not name."""
    return has_same_links(root, other) and set(other.kinds) <= set(root.kinds)


def is_return_path(root: Finding, other: Finding) -> bool:
    """The other is about the opposite direction: no answer comes over a link whose way back is broken."""
    if "EADDRNOTAVAIL" in root.seen:  # no port for a connection of one's own; answers need none
        return has_same_links(root, other)
    back = {(target, source) for source, target in root.pairs}
    return has_same_links(root, other) or (bool(other.pairs) and set(other.pairs) <= back)


def is_account_rule(root: Finding, other: Finding) -> bool:
    """The rule that stops the packets asks whose they are: that some are spared is said of this very rule."""
    return is_return_path(root, other) and any(word in other.seen for word in ("skuid", "skgid"))


def has_kernel_ports_only(root: Finding, other: Finding) -> bool:
    """Only ports that the kernel of the root's node chose are shut, none that were chosen inside the planned range."""
    into = all(root.node == target for _, target in other.pairs) and bool(other.pairs)
    return into and set(other.kinds) <= {"sample"}


def is_out_of_ports(root: Finding, other: Finding) -> bool:
    """Connections from the root's node fail because its kernel has no port to give them."""
    from_it = bool(other.pairs) and all(root.node == source for source, _ in other.pairs)
    return from_it and "EADDRNOTAVAIL" in other.seen


def is_own_name(root: Finding, other: Finding) -> bool:
    """The other is about the node's own name."""
    return has_same_node(root, other) and other.peer == other.node


def has_lossy_end(root: Finding, other: Finding) -> bool:
    """The node lost connections and is an end of the link; that it might lose some explains nothing."""
    return root.severity == ERROR and has_root_node(root, other)


def has_no_route(root: Finding, other: Finding) -> bool:
    """The kernel of the root's node knows no way at all.

    Its routes went with its interface or address; a route or a rule that refuses says EINVAL, EACCES or EHOSTUNREACH
    (ip-route(8)), and stays a cause of its own.
    """
    return has_same_node(root, other) and "ENETUNREACH" in other.seen


def is_at_any_place(_root: Finding, _other: Finding) -> bool:
    """Wherever it is."""
    return True


LINKS = ("VC-201", "VC-202", "VC-203", "VC-204", "VC-205", "VC-206", "VC-207", "VC-208", "VC-209")
# What ends packets by the kernel's own word, or stands where they end.
KERNELS = ("DG-180", "DG-181")
WALLS = ("DG-101", "DG-105", "DG-113", "DG-114", "DG-115", "DG-116", "DG-117", "DG-175")
SHUT = ("VC-201", "VC-202", "VC-203", "VC-205")
# What a link is said to have that is shut for the probe's own account alone.
SPARED = (*LINKS, *WALLS, *KERNELS, "DG-138", "DG-139", "DG-156")
WHOLE_JOB = ("VC-303", "VC-306", "VC-401", "VC-402", "VC-403", *(f"VC-80{n}" for n in range(1, 9)))
NAMED = ("VC-101", "VC-102", "DG-123", "DG-124", "DG-127")
RANGES = ("VC-107", "DG-107", "VC-212", "VC-213", "VC-602", "DG-112")

ROOTS: tuple[tuple[str, tuple[str, ...], Relation], ...] = (
    (
        "VC-106",
        (
            *LINKS,
            *WALLS,
            *KERNELS,
            "DG-138",
            "DG-139",
            "DG-140",
            "DG-141",
            "DG-239",
            "VC-121",
            "VC-213",
        ),
        has_root_node,
    ),
    (
        "VC-106",
        ("DG-119", "DG-120", "DG-126", "DG-134", "VC-601", "VC-603", "VC-110"),
        has_same_node,
    ),
    ("VC-106", ("DG-155",), has_no_route),
    ("VC-121", (*LINKS, *WALLS, *KERNELS, "DG-138", "DG-140", "DG-141", "VC-213"), has_root_node),
    ("VC-121", ("DG-155",), has_no_route),
    (
        "VC-121",
        ("DG-123", "DG-134", "DG-136", "VC-102", "VC-601", "VC-603", "VC-122"),
        has_same_node,
    ),
    ("VC-121", ("DG-126",), is_at_any_place),
    ("DG-140", (*LINKS, *WALLS, *KERNELS, "DG-138", "DG-139", "DG-141", "VC-103"), has_root_end),
    ("DG-140", ("DG-155", "DG-156"), has_same_node),
    ("DG-259", (*LINKS, *WALLS, *KERNELS, "DG-138", "DG-139", "DG-158"), has_root_node),
    ("DG-142", (*LINKS, *WALLS, *KERNELS, "DG-138"), has_root_node),
    ("DG-143", (*LINKS, *WALLS, *KERNELS, "DG-138"), has_root_node),
    ("DG-144", (*LINKS, *WALLS, *KERNELS, "DG-138"), has_lossy_end),
    ("DG-184", SPARED, is_return_path),
    ("DG-184", SPARED, is_account_rule),
    ("DG-184", ("DG-255",), has_same_node),
    ("DG-109", ("VC-204",), is_out_of_ports),
    ("DG-110", ("VC-204",), is_out_of_ports),
    ("VC-108", ("VC-204",), is_out_of_ports),
    ("DG-157", (*LINKS, *WALLS, *KERNELS, "DG-138", "DG-139", "DG-141", "DG-158"), is_return_path),
    (
        "DG-155",
        (*LINKS, *WALLS, *KERNELS, "DG-138", "DG-139", "DG-141", "DG-156", "DG-158"),
        is_return_path,
    ),
    ("DG-141", (*LINKS, *WALLS, *KERNELS, "DG-138", "DG-156"), is_return_path),
    ("DG-156", (*LINKS, *WALLS, *KERNELS, "DG-138", "DG-139"), is_return_path),
    ("DG-158", (*LINKS, *WALLS, *KERNELS, "DG-138", "DG-139"), is_return_path),
    ("DG-187", (*LINKS, *WALLS, *KERNELS, "DG-138", "DG-139"), is_return_path),
    ("DG-181", (*LINKS, *WALLS, "DG-180", "DG-138", "DG-139"), is_return_path),
    ("DG-182", ("DG-255",), has_same_node),
    ("DG-186", ("DG-108",), has_same_node),
    ("DG-180", (*LINKS, *WALLS, "DG-138", "DG-139"), is_return_path),
    ("VC-204", (*SHUT, *WALLS, "DG-138", "VC-206"), is_return_path),
    ("VC-206", (*SHUT, *WALLS, "DG-138"), has_same_links),
    (
        "DG-138",
        ("VC-201", "VC-202", "VC-203", "VC-205", "VC-207", "VC-208", "VC-209", *WALLS, "DG-139"),
        is_return_path,
    ),
    ("VC-208", ("VC-110", "VC-209", "DG-139"), is_at_any_place),
    ("DG-109", ("DG-110", "VC-108", *RANGES), has_same_node),
    (
        "DG-109",
        ("DG-107",),
        is_at_any_place,
    ),  # no other node's range is wrong because one is too small
    ("DG-110", ("VC-108", *RANGES), has_same_node),
    ("VC-108", RANGES, has_same_node),
    ("VC-107", ("DG-107", "VC-212", "VC-213", "VC-602", "DG-112"), has_same_node),
    ("VC-107", ("DG-107",), is_at_any_place),
    ("DG-109", (*SHUT, *WALLS), has_kernel_ports_only),
    ("DG-110", (*SHUT, *WALLS), has_kernel_ports_only),
    ("VC-107", (*SHUT, *WALLS), has_kernel_ports_only),
    ("DG-107", (*SHUT, *WALLS), has_kernel_ports_only),
    ("EC-110", (*SHUT, *WALLS, "VC-209"), has_same_links),
    ("EC-111", (*SHUT, *WALLS, "VC-209"), has_same_links),
    ("EC-112", (*SHUT, *WALLS, "VC-209"), has_same_links),
    ("EC-113", (*SHUT, *WALLS, "VC-209"), has_same_links),
    ("EC-114", (*SHUT, *WALLS, "VC-209"), has_same_links),
    ("EC-115", (*SHUT, *WALLS, "VC-209"), has_same_links),
    ("DG-214", (*SHUT, "DG-114", "DG-101", "DG-105", "DG-175"), has_same_blocked_ports),
    ("DG-113", (*SHUT, "VC-209"), has_same_blocked_ports),
    ("DG-114", (*SHUT, "VC-209"), has_same_blocked_ports),
    ("DG-115", (*SHUT, "VC-209"), has_same_blocked_ports),
    ("DG-116", (*SHUT, "VC-209"), has_same_blocked_ports),
    ("DG-117", (*SHUT, "VC-209"), has_same_blocked_ports),
    ("DG-101", (*SHUT, "VC-209"), has_same_blocked_ports),
    ("DG-105", (*SHUT, "VC-209"), has_same_blocked_ports),
    ("DG-159", NAMED, has_same_node),
    ("DG-175", (*SHUT, "VC-209"), has_same_blocked_ports),
    ("DG-275", (*SHUT, "VC-209"), has_same_blocked_ports),
    ("DG-145", NAMED, has_same_node),
    ("DG-136", ("VC-102", "VC-101"), has_same_node),
    ("VC-102", ("DG-123",), has_same_node),
    ("VC-102", ("VC-101",), is_own_name),
    ("DG-123", ("VC-101",), is_own_name),
    ("DG-124", ("VC-101", "DG-126", "DG-127"), has_same_node),
    ("DG-125", ("DG-126", "DG-127", "DG-128"), has_same_node),
    ("DG-126", ("VC-101",), has_same_node),
    ("DG-127", ("VC-101",), has_same_node),
    ("DG-119", ("DG-120", "DG-121", "DG-134"), is_at_any_place),
    ("DG-120", ("DG-134",), has_same_node),
    ("DG-121", ("DG-134",), has_same_node),
    ("DG-130", ("VC-109", "VC-207"), has_same_node),
    ("VC-109", ("VC-207",), has_same_node),
    ("DG-112", ("DG-128",), is_at_any_place),
    ("VC-110", ("DG-139",), has_root_node),
    ("DG-239", ("DG-139",), has_root_node),
    ("VC-601", ("DG-134",), has_same_node),
    # What groups of nodes came to says whose the ranks' failure is.
    ("VC-881", WHOLE_JOB, is_at_any_place),
    ("VC-882", WHOLE_JOB, is_at_any_place),
    ("VC-883", WHOLE_JOB, is_at_any_place),
    ("VC-884", WHOLE_JOB, is_at_any_place),
    ("VC-885", WHOLE_JOB, is_at_any_place),
    ("DG-139", ("VC-209",), has_same_links),
    # The diagnosis and the ladder look at the same cards; and who has no card, or no torch for it, has none for a rank.
    ("VC-131", ("VC-719", "VC-711"), has_same_node),
    ("VC-136", ("VC-719", "VC-711", "VC-712"), has_same_node),
    ("VC-138", ("VC-719", "VC-711", "VC-712"), has_same_node),
    ("DG-149", ("VC-111", "VC-719", "VC-711"), has_same_node),
    ("VC-117", ("VC-719", "VC-711"), has_same_node),
    ("VC-717", ("VC-711",), has_same_node),
    ("VC-718", ("VC-711",), has_same_node),
    # A port without an address has no entry to point to, and with the wrong one its queue pairs never connect.
    ("DG-118", ("VC-148",), has_same_node),
    ("VC-148", ("VC-712", "VC-714", "VC-720"), is_at_any_place),
    # The way that NCCL took: TCP is slow, nodes with different networks never connect, and PCIe is no NVLink.
    ("VC-721", ("VC-712", "VC-714"), is_at_any_place),
    ("VC-720", ("VC-714",), is_at_any_place),
    ("VC-722", ("VC-716",), has_same_node),
)


# A rule that is known to stop the packet is a cause of its own, whatever else is wrong with the link.
DESPITE_RULE = (has_kernel_ports_only, has_same_blocked_ports, is_account_rule)


def has_rule_evidence(finding: Finding) -> bool:
    """The firewall's rule was found on paper."""
    return (
        finding.code in (*SHUT, *WALLS) and "table " in finding.seen and " chain " in finding.seen
    )


def rank_root_codes() -> dict[str, int]:
    """Code -> its first place among the roots; lower explains higher."""
    found: dict[str, int] = {}
    for index, (code, _, _) in enumerate(ROOTS):
        found.setdefault(code, index)
    return found


ORDER = rank_root_codes()
LAST = len(ROOTS)


def can_explain(root: Finding, other: Finding) -> bool:
    """Whether one finding is why there is the other."""
    if root.code == other.code and not other.pairs:
        return has_same_node(root, other)  # said twice, in other words
    if ORDER.get(root.code, LAST) >= ORDER.get(other.code, LAST):
        return False
    if root.severity != ERROR and other.severity == ERROR:
        return False
    return any(
        code == root.code
        and other.code in below
        and (relation in DESPITE_RULE or not has_rule_evidence(other))
        and relation(root, other)
        for code, below, relation in ROOTS
    )


def drop_duplicate_findings(found: Sequence[Finding]) -> list[Finding]:
    """Each finding once."""
    kept: list[Finding] = []
    for one in found:
        if one not in kept:
            kept.append(one)
    return kept


def downgrade_probe_only(found: Sequence[Finding]) -> list[Finding]:
    """The findings; what only the probe's account meets is no more than a warning, since jobs are not hit."""
    causes = [one for one in found if one.code == "DG-184"]
    return [
        replace(one, severity=WARNING)
        if one.code in SPARED and any(is_return_path(cause, one) for cause in causes)
        else one
        for one in found
    ]


def fold_findings(found: Sequence[Finding]) -> list[Finding]:
    """The root causes, errors first and the deepest first, each with what follows from it."""
    todo = sorted(
        downgrade_probe_only(drop_duplicate_findings(found)),
        key=lambda f: (f.severity != ERROR, ORDER.get(f.code, LAST)),
    )
    heads: list[Finding] = []
    under: dict[int, list[Finding]] = {}
    for one in todo:
        place = next((i for i, head in enumerate(heads) if can_explain(head, one)), None)
        if place is None:
            place = next(
                (i for i, held in under.items() if any(can_explain(root, one) for root in held)),
                None,
            )
        if place is None:
            heads.append(one)
        else:
            under.setdefault(place, []).append(one)
    return [replace(head, follows=tuple(under.get(i, ()))) for i, head in enumerate(heads)]
