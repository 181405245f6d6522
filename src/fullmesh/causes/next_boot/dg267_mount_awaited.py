"""The next boot waits for a mount that is not available (warning)

Without nofail, the boot waits 90 s for the disk or server and then stops in the emergency shell,
before ssh starts. The node is then only reachable on its console.

**Prove:** findmnt --verify

**Fix:** Mount it, remove the line, or add nofail to its options.

**Source:** systemd.mount(5), nofail
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.next_boot.kept_state import get_next_boot, make_boot_warning
from fullmesh.result.findings import WARNING, Finding


def rule_boot_waits(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report mounts that are not available and that the boot waits for."""
    for name in evidence.nodes:
        for line in get_next_boot(evidence, name).get("mounts_kept", []):
            if line["waits"] and not line["mounted"]:
                yield make_boot_warning(
                    "DG-267",
                    f"the next boot of {name} waits for {line['point']}, which is not mounted now, and may end in"
                    " the emergency shell",
                    name,
                    seen=f"{line['what']} on {line['point']} in {line['source']}, not mounted",
                    expected="mounted now, or nofail in its options",
                    fix=f"on {name}: mount {line['point']}, or add nofail to the line",
                )


CAUSE = Cause(
    "DG-267",
    __doc__,
    find=rule_boot_waits,
    needs=("next_boot",),
    severity=WARNING,
    weight=40,
    cases=(CauseCase("boot-fstab", "a line of fstab without nofail for a disk that is not there"),),
)
