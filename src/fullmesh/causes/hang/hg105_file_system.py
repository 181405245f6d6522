"""A rank has not entered a collective: a disk, file system or NFS server does not answer it

A process in state D waits in the kernel for a disk, a file system or an NFS server, and ignores
signals until that answers. The name of the kernel function (wchan) begins with nfs, rpc or xprt for
NFS. For a file system in user space (FUSE: sshfs, JuiceFS, S3) it is request_wait_answer, and the
state is S.

**Prove:** cat /proc/PID/stat /proc/PID/wchan /proc/PID/syscall && journalctl -k | grep -E 'not
responding|blocked for more than'

**Fix:** Repair the server or disk. The process then continues by itself. Mount datasets with
`soft,timeo=...` only if a failed read is better than a wait.

**Source:** a Gloo job on lab nodes (tests/hang)
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import has_other_ranks, is_waiting_for
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.late import LateMessage, find_late_ranks
from fullmesh.causes.hang.places import ActivityKind


def find_disk_waits(job: ObservedJob) -> Iterator[HangFinding]:
    """Find late ranks that wait for a disk or a file system."""
    return find_late_ranks(
        job,
        CAUSE,
        ActivityKind.DISK,
        LateMessage(
            "waits for {what} that does not answer{at}",
            "wait for {what} that does not answer{at}",
            "reads and writes that end",
            "on {host}: dmesg | tail && findmnt. For NFS, check that the server is up. In state D the process cannot "
            "even be killed until it answers. For FUSE, check its daemon (findmnt names it) and the server behind it",
        ),
    )


CAUSE = HangCause(
    "HG-105",
    __doc__,
    find=find_disk_waits,
    weight=62,
    explains=(
        Explains(("HG-161",), is_waiting_for),
        Explains(("HG-141", "HG-142"), has_other_ranks),
    ),
)
