"""a rank has not entered a collective: a disk, file system or NFS server does not answer it

State D: the process waits inside the kernel for a disk, a file system or an NFS server, and takes
no signal until that answers. The function of the kernel that it sleeps in (wchan) begins with nfs,
rpc or xprt where it is NFS, and is request_wait_answer where it is a file system in user space
(FUSE: sshfs, JuiceFS, S3), for which the process waits in state S.

**Prove:** cat /proc/PID/stat /proc/PID/wchan /proc/PID/syscall; journalctl -k | grep -E 'not
responding|blocked for more than'

**Fix:** Bring the server or disk back: the process goes on by itself. Mount datasets with
`soft,timeo=...` only where a failed read is better than a wait.

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
    """Every rank comes to the collective that the others are in."""
    return find_late_ranks(
        job,
        CAUSE,
        ActivityKind.DISK,
        LateMessage(
            "waits for {what} that does not answer{at}",
            "wait for {what} that does not answer{at}",
            "reads and writes that end",
            "on {host}: dmesg | tail; findmnt; for NFS: is its server up, does it answer? In state D "
            "the process can not "
            "even be killed until it does; for FUSE: does its daemon run (findmnt names it), does what "
            "it asks answer?",
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
