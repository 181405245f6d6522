"""A firewall that is inactive now will filter after the next boot (warning)

The firewall was stopped (systemctl stop firewalld, nft flush ruleset) but is still enabled. It
starts at the next reboot, perhaps months later. The job then fails, although no setting was
changed.

**Prove:** systemctl is-enabled firewalld nftables ufw ; systemctl is-active firewalld ; nft list
tables

**Fix:** Disable it permanently, or start it now and open the cluster's ports: ansible-playbook
site.yml -i INVENTORY --tags firewall
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
from fullmesh.observed.next_boot import KeptUnit
from fullmesh.result.findings import WARNING, Finding, join_names


def rule_boot_firewall(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report firewalls that do not filter now but start to at the next boot."""
    for name in evidence.nodes:
        for unit in get_next_boot(evidence, name).get("units", []):
            what = describe_new_filtering(evidence, name, unit) if is_started_at_boot(unit) else ""
            if what:
                short = unit["name"].partition(".")[0]
                yield make_boot_warning(
                    "DG-165",
                    f"{short} of {name} does not filter now but will after the next boot",
                    name,
                    seen=what,
                    expected="off in both, or on in both with the cluster's ports open",
                    fix=f"on {name}: systemctl disable {unit['name']}, or start it and open the ports"
                    + ("" if evidence.assumed else f": {evidence.seen.apply('firewall')}"),
                )


def describe_new_filtering(evidence: ClusterEvidence, name: str, unit: KeptUnit) -> str:
    """Describe the filtering that a unit adds at boot. Empty if there is none or it is unknown."""
    held, nft = get_next_boot(evidence, name), evidence.survey(name).get("nft")
    if unit["name"] == "firewalld.service":
        is_running = unit["active"] in ("active", "activating", "reloading")
        return "" if is_running else f"{unit['active']} now, starts at boot with its zones"
    if nft is None:
        return ""
    if unit["name"] == "ufw.service" and held.get("ufw"):
        loaded = any(str(chain.get("name", "")).startswith("ufw") for chain in nft["chains"])
        return (
            "" if loaded else "ENABLED=yes in /etc/ufw/ufw.conf, and none of its chains is loaded"
        )
    if unit["name"] == "nftables.service" and "tables" in held and held["tables"]["drops"]:
        running = {f"{chain.get('family')} {chain.get('table')}" for chain in nft["chains"]}
        later = [one for one in held["tables"]["tables"] if one not in running]
        words = join_names([f"table {one}" for one in later])
        return f"{held['tables']['source']} makes {words}, which the kernel lacks" if later else ""
    return ""


CAUSE = Cause(
    "DG-165",
    __doc__,
    find=rule_boot_firewall,
    needs=("next_boot",),
    severity=WARNING,
    weight=80,
    cases=(CauseCase("boot-firewall", "nftables.service enabled, its file drops, not started"),),
)
