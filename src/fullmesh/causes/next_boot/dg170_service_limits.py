"""The running limits of services, or a unit, differ from the files (warning)

systemd reads its own configuration only when it starts or at daemon-reexec, and unit files at
daemon-reload. Until then, services run with the old limits. After the next boot, they have the new
ones.

**Prove:** systemctl show -p DefaultLimitMEMLOCK -p DefaultLimitNOFILE && systemd-analyze cat-config
systemd/system.conf && systemctl show UNIT -p NeedDaemonReload

**Fix:** Run systemctl daemon-reexec (daemon-reload for a unit), then restart the services.

**Source:** systemd-system.conf(5)
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.next_boot.kept_state import get_next_boot, make_boot_warning
from fullmesh.result.findings import WARNING, Finding, join_names


def rule_boot_limits(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report limits and units that differ between the running systemd and its files."""
    for name in evidence.nodes:
        held = get_next_boot(evidence, name)
        now, later = held.get("limits", {}), held.get("limits_kept", {})
        apart = [key for key in later if key in now and now[key] != later[key]["value"]]
        stale = [u["name"] for u in held.get("units", []) if u["stale"] and u["active"] == "active"]
        if apart or stale:
            said = [f"{key} is {now[key]}" for key in apart]
            files = [f"{later[key]['value']} in {later[key]['source']}" for key in apart]
            yield make_boot_warning(
                "DG-170",
                f"{join_names([*apart, *stale])} of {name} will match the files only after the next boot",
                name,
                seen="; ".join([*said, *(f"{one} runs from an older file" for one in stale)]),
                expected="; ".join(
                    [*files, *(["the files that are on the disk"] if stale else [])]
                ),
                fix=f"on {name}: systemctl {'daemon-reexec' if apart else 'daemon-reload'}, then restart"
                f" {' '.join(stale) if stale else 'what needs the limits'}",
            )


CAUSE = Cause(
    "DG-170",
    __doc__,
    find=rule_boot_limits,
    needs=("next_boot",),
    severity=WARNING,
    weight=10,
    cases=(CauseCase("boot-limits", "DefaultLimitMEMLOCK in a new file", by=RECORDED),),
)
