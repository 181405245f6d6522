"""A kernel setting will have another value after the next boot (warning)

At boot, systemd-sysctl reads the sysctl.d(5) files in the order of their names, and the last value of a key wins.
Values set by hand are lost, and the values in the files return. Of two files with the same name, the one in /etc wins,
then /run, /usr/local/lib and /usr/lib. An exact key wins over a pattern. /etc/sysctl.conf only counts if a link in
/etc/sysctl.d points to it. Settings of the active tuned profile are not checked, because tuned applies them later.

**Prove:** systemd-analyze cat-config sysctl.d | grep KEY && sysctl KEY

**Fix:** Write the value into a file of its own in /etc/sysctl.d (role kernel_tuning does), and
check with systemd-analyze that no later file overrides it.

**Source:** sysctl.d(5), systemd src/sysctl/sysctl.c
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.next_boot.kept_state import get_next_boot, make_boot_warning
from fullmesh.observed.ports import parse_port_ranges
from fullmesh.result.findings import WARNING, Finding, join_names

PORT_RANGE, RESERVED = "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports"


# What the kernel begins with; of other settings it depends on the memory or the kernel's age.
DEFAULTS = {PORT_RANGE: "32768 60999", RESERVED: ""}


def is_same_setting(key: str, one: str, other: str) -> bool:
    """Return whether two values of a kernel setting are equal."""
    if key == RESERVED:
        return expand_port_spans(one) == expand_port_spans(other)
    return one.split() == other.split()


def expand_port_spans(text: str) -> set[int]:
    """Return the ports of a list."""
    return {port for span in parse_port_ranges(text) for port in range(span.first, span.last + 1)}


def rule_boot_settings(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report kernel settings that the next boot changes to the files' values (sysctl.d(5)) or the kernel's default."""
    for name in evidence.nodes:
        held = get_next_boot(evidence, name)
        apart = []
        for key, boot in held.get("settings", {}).items():
            now = evidence.survey(name).get("sysctls", {}).get(key)
            later = boot["value"] if boot["source"] else DEFAULTS.get(key)
            if now is None or later is None or key in held.get("tuned", []):
                continue
            if not is_same_setting(key, now, later):
                apart.append((key, now, later, boot["source"] or "no file sets it"))
        if apart:
            keys = join_names([one[0] for one in apart])
            yield make_boot_warning(
                "DG-163",
                f"{keys} of {name} will have another value after the next boot",
                name,
                seen="; ".join(f"{key} is {now or 'empty'}" for key, now, _, _ in apart),
                expected="; ".join(
                    f"{later or 'empty'} at boot ({source})" for _, _, later, source in apart
                ),
                fix=f"on {name}: write the value into /etc/sysctl.d/90-local.conf, or use that of the files now: "
                + " && ".join(f"sysctl -w {key}='{later}'" for key, _, later, _ in apart),
            )


CAUSE = Cause(
    "DG-163",
    __doc__,
    find=rule_boot_settings,
    needs=("next_boot", "sysctls"),
    severity=WARNING,
    weight=100,
    cases=(CauseCase("boot-sysctl", "tcp_mtu_probing=2 in a file of /etc/sysctl.d, not read yet"),),
)
