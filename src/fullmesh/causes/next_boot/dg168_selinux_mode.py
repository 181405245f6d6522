"""SELinux will be in another mode after the next boot (warning)

setenforce changes the running mode, and /etc/selinux/config sets the mode of the next boot. A node
that works because of setenforce 0 enforces again after a reboot. A node that was set to enforcing
by hand does not.

**Prove:** getenforce && grep ^SELINUX= /etc/selinux/config

**Fix:** Write the mode that you want into the file, and fix the denials (ausearch -m avc, role
selinux_mode).

**Source:** setenforce(8)
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.next_boot.kept_state import get_next_boot, make_boot_warning
from fullmesh.result.findings import WARNING, Finding


def rule_boot_selinux(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report that the next boot changes the mode of SELinux."""
    for name in evidence.nodes:
        held = get_next_boot(evidence, name)
        now = evidence.survey(name).get("selinux", {}).get("mode", "")
        later = held.get("selinux_kept", "")
        forced = [
            one
            for one in held.get("kernel", {}).get("next_arguments", [])
            if one.startswith(("selinux=", "enforcing="))
        ]
        if now and later and now != later and not forced:
            yield make_boot_warning(
                "DG-168",
                f"SELinux of {name} is {now} and will be {later} after the next boot",
                name,
                seen=f"{now} now",
                expected=f"SELINUX={later} in /etc/selinux/config",
                fix=f"on {name}: SELINUX={now} there, or setenforce {int(later == 'enforcing')} and read the denials",
            )


CAUSE = Cause(
    "DG-168",
    __doc__,
    find=rule_boot_selinux,
    needs=("next_boot", "selinux"),
    severity=WARNING,
    weight=30,
    cases=(CauseCase("boot-selinux", "setenforce 0 under SELINUX=enforcing", by=RECORDED),),
)
