"""A rank has not entered a collective: its cgroup limits its CPU time

A cgroup limit (systemd's CPUQuota, docker's --cpus, a scheduler's share) stops the rank for a part
of each period. Between two samples the rank was stopped in most of its periods (nr_throttled and
nr_periods of cpu.stat).

**Prove:** cat /proc/PID/cgroup, then cpu.max and cpu.stat of that folder below /sys/fs/cgroup,
twice

**Fix:** Remove the limit, or give all ranks the same one. If DataLoader workers share it, use fewer
of them.

**Source:** a Gloo job on lab nodes (tests/hang)
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import has_other_ranks, is_waiting_for
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.late import LateMessage, find_late_ranks
from fullmesh.causes.hang.places import ActivityKind


def find_throttled_ranks(job: ObservedJob) -> Iterator[HangFinding]:
    """Find late ranks that their cgroup throttles."""
    return find_late_ranks(
        job,
        CAUSE,
        ActivityKind.THROTTLED,
        LateMessage(
            "gets no more than {cpus:g} CPUs from its cgroup{at}",
            "get no more than {cpus:g} CPUs from their cgroups{at}",
            "as many CPUs as the other ranks have",
            "on {host}: systemd-cgls -u -l shows the group. Lift the limit of "
            "a unit with systemctl set-property UNIT CPUQuota=, docker's with --cpus, Slurm's with --cpus-per-task",
        ),
    )


CAUSE = HangCause(
    "HG-112",
    __doc__,
    find=find_throttled_ranks,
    weight=62,
    explains=(
        Explains(("HG-161",), is_waiting_for),
        Explains(("HG-141", "HG-142"), has_other_ranks),
    ),
)
