"""The kernel, glibc, NIC driver, CUDA, locale or time zone differs from that of most nodes (warning)

Such a difference explains why a node is slower, sorts or reads files in another order, or writes
logs with other times.

**Prove:** uname -r && ldd --version && ethtool -i IFACE && localectl && timedatectl

**Fix:** Use one image for all nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import WARNING, Finding, join_names
from fullmesh.verify.model import ClusterObservations
from fullmesh.verify.node import LOOKED_AT, PAIR, get_software

STEPS = {
    "kernel": "uname -r. Install the same kernel and reboot",
    "glibc": "ldd --version. Use the same release of the distribution",
    "nic_driver": "ethtool -i {interface}. Install the same driver",
    "driver_cuda": "nvidia-smi. Install the same driver",
    "locale": "localectl set-locale LANG={usual}",
    "time_zone": "timedatectl set-timezone {usual}",
}


def rule_software_drift(seen: ClusterObservations) -> Iterator[Finding]:
    """Report nodes that differ from the majority. With 2 nodes, the first one's value counts."""
    table = {name: get_software(seen, name) for name in seen.plan["nodes"]}
    for key, words in LOOKED_AT.items():
        held = {name: row[key] for name, row in table.items() if row[key]}
        if len(set(held.values())) < PAIR:
            continue
        usual = Counter(held.values()).most_common(1)[0][0]
        odd = [name for name, value in held.items() if value != usual]
        values = ", ".join(dict.fromkeys(held[name] for name in odd))
        rest = [name for name, value in held.items() if value == usual]
        interface = str(seen.facts(odd[0]).get("interface", {}).get("name", "eth0"))
        step = STEPS.get(key, "").format(usual=usual, interface=interface)
        yield Finding(
            "VC-116",
            "L1",
            f"{words} is {values} on {join_names(odd)} and {usual} on {join_names(rest)}",
            node=odd[0],
            peer=join_names(rest),
            seen=values,
            expected=usual,
            fix=f"on {join_names(odd)}: {step}" if step else seen.apply("packages"),
            severity=WARNING,
        )


CAUSE = Cause("VC-116", __doc__, find=rule_software_drift, severity=WARNING)
