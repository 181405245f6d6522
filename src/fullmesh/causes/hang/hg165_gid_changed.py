"""The GID table of an RDMA port changed while the job ran

A RoCE port gets its GIDs from the addresses of its interface. If an address is removed, its entry
is deleted, and connections that use it lose their packets. If the address is added again, it gets
another entry, because the connections of the job still hold the old one. Network services do so
when they are restarted, and DHCP when a lease ends.

**Prove:** show_gids on that node, and journalctl -u NetworkManager -u systemd-networkd

**Fix:** Start the job again. Leave NCCL_IB_GID_INDEX unset, because the entry has another number
now. If the address is missing, add it first: ./fullmesh apply -i INVENTORY.

**Source:** Linux 6.1, drivers/infiniband/core/cache.c (del_gid), and soft-RoCE
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.job import WARNING, HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.rdma import UsedPort, list_used_ports, map_gid_addresses


def find_changed_gids(job: ObservedJob) -> Iterator[HangFinding]:
    """Find addresses that have left a GID table, or moved in it, since a rank started."""
    for one in list_used_ports(job, sorted(job.now.ranks)):
        start = one.port.get("start")
        if start is None:
            continue
        before, now = map_gid_addresses(start), map_gid_addresses(one.port["now"])
        for address, index in before.items():
            if now.get(address) != index:
                yield _make_changed_finding(job, one, address, index, now.get(address, ""))


def _make_changed_finding(
    job: ObservedJob, one: UsedPort, address: str, before: str, now: str
) -> HangFinding:
    """Make the finding of one address. *now*: its entry, or "" if there is none."""
    what = f"moved from entry {before} to {now}" if now else f"has left entry {before}"
    stalled = [wait.rank for wait in job.waits if not wait.lacks]
    ranks = tuple(rank for rank, held in sorted(job.now.ranks.items()) if held["host"] == one.host)
    add = (
        ""
        if now
        else f"add {address} to {one.port['interface'] or 'the interface'} of {one.host}, then "
    )
    return HangFinding(
        CAUSE.code,
        f"{address} of {one.label} on {one.host} {what} of the GID table while the job ran, so the job's RDMA"
        " connections use an entry that is gone",
        ranks=ranks,
        hosts=(one.host,),
        waiting=tuple(sorted(set(stalled))),
        seen=f"{one.port['port']}: entry {before} had {address} when rank {one.rank} started, now "
        + (f"entry {now} has it" if now else "no entry has it"),
        expected="the same entry until the job ends",
        check=f"on {one.host}: journalctl -u NetworkManager -u systemd-networkd shows who changed the address",
        fix=f"{add}start the job again, without NCCL_IB_GID_INDEX",
        severity=CAUSE.severity if stalled else WARNING,
    )


CAUSE = HangCause(
    "HG-165",
    __doc__,
    find=find_changed_gids,
    weight=62,
    explains=(Explains(("HG-161", "HG-164")),),
)
