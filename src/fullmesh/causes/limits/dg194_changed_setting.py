"""A kernel setting of a node is no longer the one that Fullmesh wrote (warning)

Another program or a person changed it after Fullmesh configured the node. A smaller TCP buffer or
queue slows transfers down, and no check fails.

**Prove:** sysctl KEY, and grep -rs KEY /etc/sysctl.d /etc/sysctl.conf /usr/lib/sysctl.d

**Fix:** sysctl -w KEY=VALUE, then find the program that changes it. To keep another value, set
kernel_tuning_sysctls.

**Source:** ip-sysctl.rst: tcp_rmem, tcp_wmem
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.foreign_text import LARGEST_NUMBER, parse_decimal
from fullmesh.result.findings import WARNING, Finding, join_names

# Settings that causes of their own judge, by their effect.
JUDGED = (
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.core.somaxconn",
)
SHOWN = 8


def is_lower(written: str, now: str) -> bool:
    """Return whether a value is smaller in any of its numbers, or is another word. More room harms nothing."""
    pairs = list(zip(written.split(), now.split(), strict=False))
    numbers = [
        (parse_decimal(a, least=-LARGEST_NUMBER), parse_decimal(b, least=-LARGEST_NUMBER))
        for a, b in pairs
    ]
    return any(
        one != other if a is None or b is None else b < a
        for (one, other), (a, b) in zip(pairs, numbers, strict=True)
    )


def rule_changed_settings(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report kernel settings that differ from those that Fullmesh wrote."""
    for name in evidence.nodes:
        held = {
            key: one
            for key, one in evidence.survey(name).get("changed_sysctls", {}).items()
            if key not in JUDGED and is_lower(one["written"], one["now"])
        }
        if not held:
            continue
        shown = list(held.items())[:SHOWN]
        yield Finding(
            "DG-194",
            "L1",
            f"{join_names([key for key, _ in shown])} of {name} is not the value that Fullmesh wrote",
            node=name,
            seen="; ".join(f"{key} = {one['now']}" for key, one in shown),
            expected="; ".join(f"{key} = {one['written']}" for key, one in shown),
            check=f"on {name}: grep -rs {shown[0][0]} /etc/sysctl.d /etc/sysctl.conf /usr/lib/sysctl.d",
            fix=f"on {name}: "
            + " && ".join(f"sysctl -w '{key}={one['written']}'" for key, one in shown),
            severity=WARNING,
        )


CAUSE = Cause(
    "DG-194",
    __doc__,
    find=rule_changed_settings,
    needs=("changed_sysctls",),
    severity=WARNING,
    weight=130,
    cases=(CauseCase("changed-setting", "smaller TCP buffers on a node that Fullmesh configured"),),
)
