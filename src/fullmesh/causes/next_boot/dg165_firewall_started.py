"""a firewall that does not filter now will after the next boot (warning)

Somebody stopped a firewall to make a job run (systemctl stop firewalld, nft flush ruleset) and left it enabled: after
the next reboot, months later, the job fails and nobody changed anything.

**Prove:** systemctl is-enabled firewalld nftables ufw; systemctl is-active firewalld; nft list tables

**Fix:** Disable it for good, or start it now and open the cluster's ports: ansible-playbook site.yml -i INVENTORY
--tags firewall
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "DG-165",
    __doc__,
    severity=WARNING,
    weight=80,
    cases=(CauseCase("boot-firewall", "nftables.service enabled, its file drops, not started"),),
)
