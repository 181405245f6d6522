"""All ranks are in a collective that does not end: the network or a GPU does not carry it

All ranks of a group have entered the same collective, with the same sizes and types, and it does
not end. So no rank is at fault. A link drops packets, an interface lost its carrier, or a GPU or
its driver hangs.

**Prove:** ./fullmesh diagnose -i INVENTORY while the job runs (ss -tin shows retransmits,
journalctl -k | grep Xid shows GPU errors)

**Fix:** Apply the fix that the diagnosis names.

**Source:** recorded from Gloo jobs with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang import carried
from fullmesh.causes.hang.common import (
    describe_gpu_load,
    describe_ras_state,
    find_call_location,
    list_waiting_ranks,
)
from fullmesh.causes.hang.job import (
    CollectiveWait,
    HangCause,
    HangFinding,
    JobSample,
    ObservedJob,
    format_collective,
    format_ranks,
    get_collective_key,
    strip_backend,
)
from fullmesh.causes.hang.passing import MatchedCall, collect_calls
from fullmesh.causes.hang.rdma import (
    describe_port_counters,
    describe_stalled_ports,
    list_used_ports,
)
from fullmesh.observed.hang import RecorderEntry

HOSTS_SHOWN = 4


def find_stalled_collectives(job: ObservedJob) -> Iterator[HangFinding]:
    """Find collectives that all ranks have entered and that do not end."""
    seen: set[tuple[str, int]] = set()
    for wait in job.waits:
        members = job.now.members[wait.entry["group"]]
        if wait.lacks or get_collective_key(wait.entry) in seen or len(members) < 2:  # noqa: PLR2004 (two ends)
            continue
        seen.add(get_collective_key(wait.entry))
        yield _make_all_entered_finding(job, wait, members)
    for one in job.get_once(collect_calls):
        if isinstance(one, MatchedCall):
            yield _make_stalled_finding(job, one.entry, one.rank, one.peer)


def _make_all_entered_finding(
    job: ObservedJob, wait: CollectiveWait, members: tuple[int, ...]
) -> HangFinding:
    behind = list_waiting_ranks(job, wait)
    out = [rank for rank in members if rank not in behind]
    place = find_call_location(job, wait.rank, wait.entry)
    stuck = f"{format_ranks(behind)} {'do' if len(behind) > 1 else 'does'} not come"
    through = f", while {format_ranks(out)} came out of it" if out else ""
    at = f" at {place}" if place else ""
    age = job.age(wait)
    links = list(carried.find_stuck_connections(job, members))
    dark = dict(list(carried.find_dead_interfaces(job, members).items())[:HOSTS_SHOWN])
    ports = list_used_ports(job, members)
    stalled = list(describe_stalled_ports(ports))[:HOSTS_SHOWN]
    ways = "; ".join(filter(None, [carried.describe_dead_directions(links), *dark, *stalled]))
    seen = [f"entered {age:.0f} s ago" if age else "entered by all, not ended"]
    driver = [
        said
        for rank in behind
        for said in (*describe_gpu_load(job, rank), *describe_ras_state(job, rank))
    ][:HOSTS_SHOWN]
    return HangFinding(
        CAUSE.code,
        f"all {len(members)} ranks of {wait.entry['desc'] or 'group ' + wait.entry['group']} are in"
        f" {format_collective(wait.entry)}{at}, and {stuck if out else 'none comes'}"
        f" out{through}: {ways or 'the network or a GPU does not carry it'}",
        ranks=tuple(behind),
        hosts=job.now.hosts(behind),
        group=wait.entry["group"],
        number=wait.entry["number"],
        kind=wait.entry["kind"],
        place=place,
        waiting=tuple(behind),
        seen="; ".join(
            filter(
                None,
                [
                    *seen,
                    carried.describe_connections(links),
                    *describe_port_counters(ports),
                    *driver,
                    *_describe_xids(job.now, behind),
                ],
            )
        ),
        expected="it takes about as long as the ones before it",
        check="./fullmesh diagnose -i INVENTORY tests every link while the job runs. With GPUs, also "
        "run nvidia-smi and journalctl -k | grep Xid on these nodes",
        fix="".join(dark.values()) + "apply the fix that the diagnosis names",
    )


def _make_stalled_finding(
    job: ObservedJob, entry: RecorderEntry, rank: int, peer: int
) -> HangFinding:
    """Make a finding about a send and its receive that do not end."""
    now = job.now
    place = find_call_location(job, rank, entry)
    return HangFinding(
        CAUSE.code,
        f"{now.named(rank)} sends to {now.named(peer)}{' at ' + place if place else ''}, which receives, and neither"
        " ends: the network or a GPU does not carry it",
        ranks=(rank, peer),
        hosts=tuple(dict.fromkeys((now.host(rank), now.host(peer)))),
        group=entry["group"],
        number=entry["number"],
        kind=entry["kind"],
        place=place,
        waiting=(rank, peer),
        seen=f"{strip_backend(entry['kind'])} is open on both",
        expected="it ends soon after both have entered it",
        check="./fullmesh diagnose -i INVENTORY tests the links between these nodes while the job runs",
        fix="apply the fix that the diagnosis names",
    )


def _describe_xids(now: JobSample, here: list[int]) -> list[str]:
    """Return the newest message of NVIDIA's driver on each node of some ranks."""
    found = {
        now.host(rank): f"{now.host(rank)}: {line['text']}"
        for rank in here
        for line in now.ranks[rank].get("kernel", [])
        if line["kind"] == "xid"
    }
    return list(found.values())[:HOSTS_SHOWN]


CAUSE = HangCause(
    "HG-161",
    __doc__,
    find=find_stalled_collectives,
    weight=40,
    explains=(Explains(("HG-164",)),),
    is_certain=False,
)
