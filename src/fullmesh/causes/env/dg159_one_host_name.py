"""Two nodes have the same host name

NCCL recognizes ranks of one machine by a hash of host name and boot id, and uses shared memory
between them. Containers on one machine have the same boot id, so only the host name tells them
apart, and NCCL fails. Separate machines have different boot ids. There, only schedulers, MPI and
dashboards confuse them.

**Prove:** on every node: hostname && cat /proc/sys/kernel/random/boot_id

**Fix:** Give each node its own host name, or set a different NCCL_HOSTID for its jobs.

**Source:** NCCL, misc/utils.cc (getHostHash)
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.env.shared_identity import group_equal_values
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import NAMED, has_same_node
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names


def rule_unique_host_names(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find nodes that have the same host name.

    NCCL takes two ranks for ranks of one machine when host name and boot id agree (misc/utils.cc, getHostHash), and
    tries shared memory between them: containers of one machine share the boot id.
    """
    facts = {name: evidence.seen.facts(name) for name in evidence.nodes}
    held = {n: one.get("names", {}).get("hostname", "").lower() for n, one in facts.items()}
    for value, names in group_equal_values(held).items():
        one_boot = len({facts[name].get("boot", "") for name in names}) < len(names)
        takes = "tools that count machines by name count them as one"
        if one_boot:
            takes = "NCCL treats their ranks as ranks of one machine"
        yield Finding(
            "DG-159",
            "L1",
            f"{join_names(names)} have the same host name, {value}: {takes}",
            node=names[1],
            peer=join_names([name for name in names if name != names[1]]),
            seen=value,
            expected="a host name for each node",
            fix=f"on {names[1]}: hostnamectl hostname NAME, or give its jobs NCCL_HOSTID={names[1]}",
            severity=ERROR if one_boot else WARNING,
        )


CAUSE = Cause(
    "DG-159",
    __doc__,
    find=rule_unique_host_names,
    weight=690,
    explains=(Explains(NAMED, has_same_node),),
    cases=(
        CauseCase(
            "one-name",
            "hostname twins on both (an error if they also share the boot id, as containers do)",
            severity="warning",
        ),
    ),
)
