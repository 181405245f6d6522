"""A service that the node needs will not start at the next boot (warning)

The service was started by hand, or its link was removed, so it will be missing after a reboot. Then
ssh or the address is missing, the clock drifts, or the GPUs lack their fabric.

**Prove:** systemctl list-unit-files --state=disabled,masked && systemctl is-active NAME

**Fix:** systemctl enable NAME. If the unit is masked, run systemctl unmask NAME first.

**Source:** systemctl(1), is-enabled
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.next_boot.kept_state import (
    get_next_boot,
    is_started_at_boot,
    make_boot_warning,
)
from fullmesh.result.findings import WARNING, Finding, join_names

GONE = (
    "disabled",
    "masked",
    "enabled-runtime",
    "masked-runtime",
)  # UnitFileState: not started at boot


# Of each of these one that starts is enough.
INSTEAD = (
    ("ssh.service", "sshd.service", "ssh.socket"),
    ("NetworkManager.service", "systemd-networkd.service", "networking.service"),
    ("chronyd.service", "chrony.service", "ntpd.service", "systemd-timesyncd.service"),
    ("firewalld.service", "nftables.service", "ufw.service"),
)


def rule_boot_units(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report services that run now and that the next boot does not start."""
    for name in evidence.nodes:
        units = {unit["name"]: unit for unit in get_next_boot(evidence, name).get("units", [])}
        lost = []
        for unit in units.values():
            others = next((group for group in INSTEAD if unit["name"] in group), ())
            stands_in = any(
                one != unit["name"] and one in units and is_started_at_boot(units[one])
                for one in others
            )
            if unit["active"] == "active" and unit["file"] in GONE and not stands_in:
                lost.append(unit)
        if lost:
            words = join_names([unit["name"] for unit in lost])
            masked = [unit["name"] for unit in lost if unit["file"].startswith("masked")]
            unmask = f"systemctl unmask {' '.join(masked)} && " if masked else ""
            yield make_boot_warning(
                "DG-164",
                f"{words} of {name} will not start at the next boot",
                name,
                seen="; ".join(f"{unit['name']} is active and {unit['file']}" for unit in lost),
                expected="enabled",
                fix=f"on {name}: {unmask}systemctl enable {' '.join(u['name'] for u in lost)}",
            )


CAUSE = Cause(
    "DG-164",
    __doc__,
    find=rule_boot_units,
    needs=("next_boot",),
    severity=WARNING,
    weight=90,
    cases=(CauseCase("boot-unit", "systemctl disable of the clock's daemon"),),
)
